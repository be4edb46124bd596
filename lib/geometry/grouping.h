#pragma once
// Dealing devices to groups across failure domains (docs/format.md "Geometry").

#include <cstdint>
#include <string>
#include <vector>

namespace lzy {

struct Grouping {
  std::vector<std::vector<std::uint32_t>> groups;  ///< device numbers, ascending within a group
  std::uint32_t parity = 0;        ///< m as asked, or 0 when there are fewer than m + 1 devices
  bool too_few_devices = false;    ///< fewer than m + 1 devices in all: hashes only
  bool groups_grown = false;       ///< groups exceed the wished size, since smaller ones could not hold m + 1 members
  std::uint32_t worst_domain_share = 1;  ///< most members of one failure domain in one group; > m means that losing
                                         ///< that domain cannot be mended
  bool domain_shared = false;      ///< some group has two members of one domain (unavoidable when it happens)
};

/// Deals devices 0..domains.size()-1 into ceil(p / max_group) groups, or as many more as it takes to keep the members of the
/// largest domain apart if groups of m + 1 members allow that; sizes differ by at most one. Members
/// of one domain (equal strings) are spread over as many groups as possible: devices are ordered by domain (domains by
/// first appearance, then by device number) and dealt round robin. Two members of a domain meet in a group only when
/// the domain has more members than there are groups. Precondition: max_group >= 1.
Grouping DealGroups(const std::vector<std::string>& domains, std::uint32_t max_group, std::uint32_t parity);

}  // namespace lzy
