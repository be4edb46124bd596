#pragma once
// Deals devices to groups across failure domains (docs/design/overview.md §3, "Groups and failure domains"). The commit of
// a new dataset calls this; an existing dataset keeps the groups in its sidecars. Pure: all ranks get the same groups from
// the same domains.

#include <cstdint>
#include <string>
#include <vector>

namespace lzy {

/// The groups, and the facts that a commit must warn about.
struct Grouping {
  std::vector<std::vector<std::uint32_t>> groups;  ///< device numbers, ascending within a group
  std::uint32_t parity = 0;        ///< m as asked, or 0 when there are fewer than m + 1 devices
  bool too_few_devices = false;    ///< fewer than m + 1 devices in all: hashes only
  bool groups_grown = false;       ///< groups exceed the wanted size, because smaller ones could not have m + 1 members
  std::uint32_t worst_domain_share = 1;  ///< most members of one failure domain in one group; > m means that losing
                                         ///< that domain cannot be repaired
};

/// Deals devices 0..domains.size()-1 to groups. `domains[d]` names the failure domain of device d (a node, a rack).
///  - Number of groups: ceil(p / max_group) for p devices. More, if that keeps the members of the largest domain apart
///    and leaves each group at least m + 1 members. Sizes differ by at most one.
///  - Members of one domain (equal strings) are spread over as many groups as possible. Devices are ordered by domain
///    (by first appearance, then by number) and dealt round robin. Two members of a domain meet in a group only if the
///    domain has more members than there are groups.
/// Never fails; see the flags of the result. Precondition: max_group >= 1.
Grouping DealGroups(const std::vector<std::string>& domains, std::uint32_t max_group, std::uint32_t parity);

}  // namespace lzy
