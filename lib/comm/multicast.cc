#include "comm/multicast.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

namespace lzy {
namespace {

// For values of 1 and more.
int FloorLog2(int value) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(value))) - 1;
}
int CeilLog2(int value) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(value - 1)));
}

/// The leaders, of m, to which leader i sends in this order when it has the message. Leader 0 has it from the start. This
/// is the only difference between the shapes. Every leader sends only to leaders with higher numbers.
std::vector<int> NextLeaders(Topology shape, int i, int m) {
  std::vector<int> next;
  const auto add = [&](std::int64_t leader) {
    if (leader < m) next.push_back(static_cast<int>(leader));
  };
  switch (shape) {
    case Topology::kPipelined:
      add(std::int64_t{i} + 1);
      break;
    // The leaders are a group whose leader is the root: it alone sends to all of them.
    case Topology::kDaisy:
      for (int leader = 1; i == 0 && leader < m; ++leader) add(leader);
      break;
    // A binary tree in an array.
    case Topology::kHierarchical:
      add(2 * std::int64_t{i} + 1);
      add(2 * std::int64_t{i} + 2);
      break;
    // Leader i sends along the dimensions above its own highest one: along that one, it received the message.
    case Topology::kHypercube:
      for (std::int64_t bit = i == 0 ? 1 : std::int64_t{2} << FloorLog2(i); bit < m; bit *= 2) add(i + bit);
      break;
    case Topology::kAuto:
    case Topology::kBcast:
      break;
  }
  return next;
}

/// Moves the group of the root to the front, and the root to the front of the group. So the shapes need not know the root.
RankGroups FromRoot(RankGroups groups, int root) {
  for (auto& group : groups) {
    const auto at = std::find(group.begin(), group.end(), root);
    if (at == group.end()) continue;
    std::rotate(group.begin(), at, at + 1);
    std::swap(groups[0], group);
    break;
  }
  return groups;
}

}  // namespace

RankGroups EvenGroups(int m, int k) {
  RankGroups groups(static_cast<std::size_t>(m));
  for (int rank = 0; rank < m * k; ++rank) groups[static_cast<std::size_t>(rank / k)].push_back(rank);
  return groups;
}

RankGroups GroupsByName(std::span<const std::string> names) {
  RankGroups groups;
  std::map<std::string, std::size_t> places;
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    const auto [at, added] = places.try_emplace(names[rank], groups.size());
    if (added) groups.emplace_back();
    groups[at->second].push_back(static_cast<int>(rank));
  }
  return groups;
}

std::vector<MulticastMessage> MakeSchedule(Topology shape, const RankGroups& groups, int root) {
  const RankGroups ordered = FromRoot(groups, root);
  const auto m = static_cast<int>(ordered.size());
  std::vector<MulticastMessage> schedule;
  // The step in which each leader receives the message. A leader receives it from one with a lower number, so in this
  // order it is known when it is needed.
  std::vector<int> got(ordered.size(), 0);
  for (int i = 0; i < m; ++i) {
    const std::vector<int>& group = ordered[static_cast<std::size_t>(i)];
    int step = got[static_cast<std::size_t>(i)];
    for (const int leader : NextLeaders(shape, i, m)) {
      got[static_cast<std::size_t>(leader)] = ++step;
      schedule.push_back({step, group[0], ordered[static_cast<std::size_t>(leader)][0]});
    }
    for (std::size_t member = 1; member < group.size(); ++member) schedule.push_back({++step, group[0], group[member]});
  }
  // By steps, so the executor handles the receive of a rank before its sends.
  std::stable_sort(schedule.begin(), schedule.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return schedule;
}

// LogP with a time per byte: a sender is busy for gap + bytes*byte_time, and the message arrives `latency` later.
// Receiving costs nothing. The schedule is in the order of steps, so ready[from] is final when a message of `from` is
// met.
double CriticalPath(std::span<const MulticastMessage> schedule, std::uint64_t bytes, const CostModel& model) {
  if (schedule.empty()) return 0;
  int most = 0;
  for (const MulticastMessage& message : schedule) most = std::max({most, message.from, message.to});
  // When each rank has the message and is free to send.
  std::vector<double> ready(static_cast<std::size_t>(most) + 1, 0.0);
  const double busy = model.gap + static_cast<double>(bytes) * model.byte_time;
  double last = 0;
  for (const MulticastMessage& message : schedule) {
    double& from = ready[static_cast<std::size_t>(message.from)];
    from += busy;
    ready[static_cast<std::size_t>(message.to)] = from + model.latency;
    last = std::max(last, from + model.latency);
  }
  return last;
}

double BcastTime(int ranks, std::uint64_t bytes, const CostModel& model) {
  // A hypercube of groups of one is a binomial tree.
  const double tree = CriticalPath(MakeSchedule(Topology::kHypercube, EvenGroups(ranks, 1), 0), bytes, model);
  // Scatter by a binomial tree, then a ring: each rank sends and receives nearly the whole message twice, in small
  // parts.
  const double ring = (CeilLog2(ranks) + ranks - 1) * (model.latency + model.gap) +
                      2 * static_cast<double>(bytes) * model.byte_time * (ranks - 1) / ranks;
  return std::min(tree, ring);
}

Topology ChooseTopology(const RankGroups& groups, int root, std::uint64_t bytes, const CostModel& model) {
  std::size_t ranks = 0;
  for (const auto& group : groups) ranks += group.size();
  Topology best = Topology::kBcast;
  double least = BcastTime(static_cast<int>(ranks), bytes, model);
  for (const Topology shape : kShapes) {
    const double time = CriticalPath(MakeSchedule(shape, groups, root), bytes, model);
    // Without a gain, use MPI_Bcast, which knows the network better than the model does.
    if (time >= least) continue;
    least = time;
    best = shape;
  }
  return best;
}

}  // namespace lzy
