#include "geometry/grouping.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace lzy {
namespace {

// The smallest number of groups of at most `max_group` devices. More groups, if that separates the members of every domain.
// But never so many that a group has fewer than m + 1 members.
std::uint32_t GroupCount(std::uint64_t devices, std::uint64_t max_group, std::uint64_t parity,
                         std::uint64_t largest_domain) {
  const std::uint64_t possible = std::max<std::uint64_t>(1, devices / (parity + 1));
  const std::uint64_t wished = std::min((devices + max_group - 1) / max_group, possible);
  return static_cast<std::uint32_t>(largest_domain <= possible ? std::max(wished, largest_domain) : wished);
}

}  // namespace

Grouping DealGroups(const std::vector<std::string>& domains, std::uint32_t max_group, std::uint32_t parity) {
  Grouping result;
  const auto devices = static_cast<std::uint32_t>(domains.size());
  result.too_few_devices = devices < std::uint64_t{parity} + 1;
  result.parity = result.too_few_devices ? 0 : parity;
  if (devices == 0) return result;

  std::unordered_map<std::string_view, std::uint32_t> domain_numbers;  // by first appearance
  std::vector<std::vector<std::uint32_t>> members;                     // of each domain, ascending
  for (std::uint32_t device = 0; device < devices; ++device) {
    const auto next = static_cast<std::uint32_t>(members.size());
    const std::uint32_t domain = domain_numbers.try_emplace(domains[device], next).first->second;
    if (domain == next) members.emplace_back();
    members[domain].push_back(device);
  }

  std::size_t largest_domain = 0;
  for (const std::vector<std::uint32_t>& domain : members) largest_domain = std::max(largest_domain, domain.size());
  const std::uint32_t count = GroupCount(devices, max_group, result.parity, largest_domain);
  result.groups.resize(count);
  // Round robin keeps sizes within one of each other. The members of a domain are neighbours in this order, so two of
  // them meet only after a whole round: only if the domain has more members than there are groups.
  std::uint32_t dealt = 0;
  for (const std::vector<std::uint32_t>& domain : members) {
    for (std::uint32_t device : domain) result.groups[dealt++ % count].push_back(device);
    const auto share = static_cast<std::uint32_t>((domain.size() + count - 1) / count);
    result.worst_domain_share = std::max(result.worst_domain_share, share);
  }
  for (std::vector<std::uint32_t>& group : result.groups) std::sort(group.begin(), group.end());
  result.groups_grown = result.groups[0].size() > max_group;  // group 0 is dealt first, so none is larger
  return result;
}

}  // namespace lzy
