#include "names/set_claim.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace lzy {
namespace {

// Claims of a set among the first `ranks` ranks, and those of them beside the right file.
std::pair<std::size_t, std::size_t> VotesFor(const Uuid& uuid, std::uint32_t ranks, std::span<const SetClaim> claims) {
  std::pair<std::size_t, std::size_t> votes;
  for (const SetClaim& claim : claims) {
    if (claim.uuid != uuid || claim.rank >= ranks) continue;
    ++votes.first;
    if (claim.same_file) ++votes.second;
  }
  return votes;
}

}  // namespace

std::optional<std::size_t> WhichSetCounts(std::span<const SetClaim> claims) {
  std::vector<std::size_t> newest;  // of each set
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const auto known = std::ranges::find(newest, claims[i].uuid, [&](std::size_t at) { return claims[at].uuid; });
    if (known == newest.end()) {
      newest.push_back(i);
    } else if (claims[i].generation > claims[*known].generation) {
      *known = i;
    }
  }
  if (newest.empty()) return std::nullopt;
  std::ranges::stable_sort(newest, std::greater(), [&](std::size_t at) { return claims[at].wall_time_ns; });
  std::size_t counts = newest.front();
  for (const std::size_t older : newest) {
    const std::uint32_t ranks = claims[counts].members;
    if (VotesFor(claims[older].uuid, ranks, claims) > VotesFor(claims[counts].uuid, ranks, claims)) counts = older;
  }
  return counts;
}

}  // namespace lzy
