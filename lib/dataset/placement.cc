// Places lost members one after the other, each at the least cost. A placed member counts for those that follow. This greedy
// choice may not be the best assignment of all. What matters is that ranks agree, and that no group is brought together
// without need.

#include "dataset/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>
#include <tuple>
#include <utility>

namespace lzy {
namespace {

// Compares costs as tuples, so an earlier criterion always outweighs later ones. The last criterion is the number of the
// process, so no two costs are equal.
class Placer {
 public:
  Placer(Places places, Placing placing)
      : places_(std::move(places)),
        local_(!places_.residents.empty() || !places_.domain_residents.empty()),
        home_(placing == Placing::kHome),
        spread_(placing == Placing::kRoom) {}

  // Chooses a process for one member.
  Result<int> Place(const LostMember& member, std::size_t index) {
    const std::size_t wish = member.rank % places_.nodes.size();
    std::optional<std::size_t> best;
    for (std::size_t p = 0; p < places_.nodes.size(); ++p) {
      if (!Possible(member, index, p)) continue;
      if (!best || Cost(member, index, p, wish) < Cost(member, index, *best, wish)) best = p;
    }
    if (!best && spread_) return NoRoom(member, index);
    // If no process reaches the directory, it is made.
    const std::size_t chosen = best.value_or(wish);
    places_.residents[places_.nodes[chosen]].insert(member.group);
    if (!places_.domains.empty()) places_.domain_residents[places_.domains[chosen]].insert(member.group);
    if (best) used_[{places_.nodes[chosen], places_.sites[chosen][index].file_system}] += member.bytes;
    return static_cast<int>(chosen);
  }

 private:
  // The free space that is left after the members that were placed on this file system of the node.
  std::uint64_t RoomLeft(std::size_t process, std::size_t index) const {
    const Site& site = places_.sites[process][index];
    const auto used = used_.find({places_.nodes[process], site.file_system});
    return site.room - std::min(site.room, used == used_.end() ? 0 : used->second);
  }

  bool Possible(const LostMember& member, std::size_t index, std::size_t process) const {
    if (!places_.sites[process][index].reachable) return false;
    return !spread_ || RoomLeft(process, index) >= member.bytes;
  }

  // The number of members of the group that only the process's domain sees.
  std::size_t DomainMates(const LostMember& member, std::size_t process) const {
    if (places_.domains.empty() || !(local_ || spread_)) return 0;
    const auto at = places_.domain_residents.find(places_.domains[process]);
    return at == places_.domain_residents.end() ? 0 : at->second.count(member.group);
  }

  // The least cost is the best.
  std::tuple<bool, std::size_t, std::size_t, std::uint64_t, bool, std::size_t> Cost(
      const LostMember& member, std::size_t index, std::size_t process, std::size_t wish) const {
    const std::size_t near = DomainMates(member, process);
    const auto at = places_.residents.find(places_.nodes[process]);
    const bool counts = at != places_.residents.end() && (local_ || spread_);
    const std::size_t mates = counts ? at->second.count(member.group) : 0;
    const bool away = process != wish;
    if (!spread_) return {home_ && away, near, mates, counts ? at->second.size() : 0, away, process};
    return {false, near, mates, std::numeric_limits<std::uint64_t>::max() - RoomLeft(process, index), away, process};
  }

  // The message names the free space of each node, so that the user knows where to free some.
  Status NoRoom(const LostMember& member, std::size_t index) const {
    std::map<std::string, std::uint64_t> room;
    for (std::size_t p = 0; p < places_.nodes.size(); ++p) {
      const std::string& node = places_.nodes[p];
      if (places_.sites[p][index].reachable) room[node] = std::max(room[node], RoomLeft(p, index));
    }
    std::string all;
    for (const auto& [node, bytes] : room) all += fmt::format("{}{} has {}", all.empty() ? "" : ", ", node, bytes);
    return {Code::kIo,
            fmt::format("no node has room for member {}, which takes {} bytes with its sidecar: {}; nothing was written",
                        member.rank, member.bytes, all.empty() ? "none has its directory" : all)};
  }

  Places places_;
  const bool local_;  // nodes have disks of their own
  const bool home_;
  const bool spread_;
  std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> used_;  // bytes dealt, by node and file system
};

}  // namespace

std::vector<std::string> NodesIn(const std::string& list) {
  std::vector<std::string> nodes;
  std::istringstream names(list);
  for (std::string node; std::getline(names, node, ',');) nodes.push_back(node);
  return nodes;
}

Result<std::map<std::uint32_t, int>> PlaceLost(Places places, const std::vector<LostMember>& lost, Placing placing) {
  Placer placer(std::move(places), placing);
  std::map<std::uint32_t, int> out;
  for (std::size_t i = 0; i < lost.size(); ++i) {
    LZY_ASSIGN_OR_RETURN(out[lost[i].rank], placer.Place(lost[i], i));
  }
  return out;
}

}  // namespace lzy
