#include "names/set_claim.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace lzy {
namespace {

// The number of claims of a set among the first `ranks` ranks, and the number of them beside the right file.
std::pair<std::size_t, std::size_t> VotesFor(const Uuid& uuid, std::uint32_t ranks, std::span<const SetClaim> claims) {
  std::pair<std::size_t, std::size_t> votes;
  for (const SetClaim& claim : claims) {
    if (claim.uuid != uuid || claim.rank >= ranks) continue;
    ++votes.first;
    if (claim.same_file) ++votes.second;
  }
  return votes;
}

// The sidecars that decide which set it is.
enum class Voters {
  kAll,
  kNamed,    // those that record the pattern: members of other sets were moved here
  kPresent,  // those of existing members: the set was renamed, and lost members left sidecars of the previous set
};

Voters VotersOf(std::span<const SetClaim> claims) {
  std::size_t lost = 0, most = 0;
  std::map<Uuid, std::size_t> moved;
  for (const SetClaim& claim : claims) {
    if (claim.named && claim.present) return Voters::kNamed;
    if (claim.named) ++lost;
    if (claim.present) most = std::max(most, ++moved[claim.uuid]);
  }
  if (lost == 0) return Voters::kAll;
  return most > lost ? Voters::kPresent : Voters::kNamed;
}

}  // namespace

std::optional<std::size_t> WhichSetCounts(std::span<const SetClaim> all) {
  const Voters voters = VotersOf(all);
  std::vector<SetClaim> claims;
  std::vector<std::size_t> places;  // in `all`
  for (std::size_t i = 0; i < all.size(); ++i) {
    if ((voters == Voters::kNamed && !all[i].named) || (voters == Voters::kPresent && !all[i].present)) continue;
    claims.push_back(all[i]);
    places.push_back(i);
  }
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
  return places[counts];
}

}  // namespace lzy
