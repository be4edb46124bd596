#pragma once
// Broadcasts over groups of ranks. Four shapes by Erciyes, Dagdeviren and Payli (Group communication architectures with
// MPI): the leaders of groups pass the message on among themselves, and each leader to the rest of its group.
//
// A shape is turned into a schedule, a list of messages. transport/multicast_mpi.h runs schedules without knowing shapes.
// All functions are local and pure. The same arguments give the same result on all ranks, so ranks need not agree on a
// schedule. Used by MpiCommunicator; see docs/design/overview.md §2, "Broadcasts".

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/topology.h"

namespace lzy {

/// The topologies that are schedules.
inline constexpr Topology kShapes[] = {Topology::kPipelined, Topology::kDaisy, Topology::kHierarchical,
                                       Topology::kHypercube};

/// Ranks by group. Every rank is in exactly one group; no group is empty.
using RankGroups = std::vector<std::vector<int>>;

/// Ranks 0 to m*k - 1 in m groups of k consecutive ranks.
RankGroups EvenGroups(int m, int k);
/// Ranks with the same name form a group. Groups are in the order of their first ranks. names[r] is the name of rank
/// r.
RankGroups GroupsByName(std::span<const std::string> names);

/// In step `step`, counted from 1, rank `from` sends the whole message to rank `to`.
struct MulticastMessage {
  int step = 0;
  int from = 0;
  int to = 0;
};

/// The messages, in the order of their steps, that send the data of `root` to all ranks of `groups`. `shape` is one of
/// kShapes. Every rank but the root receives exactly one message. No rank sends before it has received, and none sends or
/// receives two messages in one step. The root is the leader of its group, whatever its place in the group. Leaders send to
/// other leaders first.
std::vector<MulticastMessage> MakeSchedule(Topology shape, const RankGroups& groups, int root);

/// Seconds from the start until the last rank has its message of `bytes`, by the cost model.
double CriticalPath(std::span<const MulticastMessage> schedule, std::uint64_t bytes, const CostModel& model);
/// An estimate of the same for MPI_Bcast on `ranks`: the smaller time of a binomial tree, and of scattering the parts and
/// gathering them in a ring.
double BcastTime(int ranks, std::uint64_t bytes, const CostModel& model);
/// The cheapest of kBcast and kShapes by the cost model; kBcast unless another one is cheaper. `groups` must be those
/// of all ranks.
Topology ChooseTopology(const RankGroups& groups, int root, std::uint64_t bytes, const CostModel& model);

}  // namespace lzy
