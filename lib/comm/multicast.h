#pragma once
// Multicast over groups of ranks, in the four shapes of Erciyes, Dagdeviren and Payli (Group communication architectures
// with MPI): leaders of groups pass a message on among themselves, each in its turn to the rest of its group. A shape is a
// schedule, a list of messages; what runs schedules (transport/multicast_mpi.h) and what tells their time knows no shapes.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/topology.h"

namespace lzy {

/// Those that are schedules.
inline constexpr Topology kShapes[] = {Topology::kPipelined, Topology::kDaisy, Topology::kHierarchical,
                                       Topology::kHypercube};

/// Ranks by group. Every rank is in one group, no group is empty.
using RankGroups = std::vector<std::vector<int>>;

/// Ranks 0 to m·k − 1 in m groups of k, which have consecutive ranks.
RankGroups EvenGroups(int m, int k);
/// Ranks with the same name are a group; groups in the order of their first ranks.
RankGroups GroupsByName(std::span<const std::string> names);

/// In step `step`, from 1 on, rank `from` sends the whole message to rank `to`.
struct MulticastMessage {
  int step = 0;
  int from = 0;
  int to = 0;
};

/// The messages, in the order of their steps, that bring what `root` has to all ranks of `groups` in one of kShapes. Every
/// rank but the root gets one, none sends before it has, and none sends or gets two in one step. The root is its
/// group's leader whatever its place in it; leaders pass on among leaders first.
std::vector<MulticastMessage> MakeSchedule(Topology shape, const RankGroups& groups, int root);

/// Steps that MakeSchedule takes at most for m groups of at most k ranks, by the paper's formulas: pipelined m(k+1) − 1; daisy
/// 3k where m ≤ k, otherwise 2k + m; hierarchical 2k·⌊log2 m⌋; hypercube k·⌈log2 m⌉. (One group: k, which these do not cover.)
int MostSteps(Topology shape, int m, int k);

/// Seconds from the start until the last rank has got its message of `bytes`.
double CriticalPath(std::span<const MulticastMessage> schedule, std::uint64_t bytes, const CostModel& model);
/// The same of MPI_Bcast on `ranks`, as far as it can be known: the better one of a binomial tree, and of scattering and then
/// gathering the parts in a ring.
double BcastTime(int ranks, std::uint64_t bytes, const CostModel& model);
/// The cheapest of kBcast and kShapes; kBcast where it is no dearer than any other. The same arguments give the same answer.
Topology ChooseTopology(const RankGroups& groups, int root, std::uint64_t bytes, const CostModel& model);

}  // namespace lzy
