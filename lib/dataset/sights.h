#pragma once
// Finds out which process sees which members of a set, chooses an owner for each member, and gathers the facts by which a
// process is chosen to make missing members. The first step of OpenSet.
//
// Members may be on disks of single nodes, so no rank can decide anything before all ranks have exchanged what they see.
// Functions with a communicator or a context are collective and give all ranks the same result.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dataset/member.h"
#include "dataset/placement.h"
#include "names/resolve.h"
#include "request/context.h"

namespace lzy {

/// By process: the members that it sees, and the name of its node.
struct Sights {
  std::vector<std::vector<std::uint32_t>> seen;
  std::vector<std::string> nodes;
};
Result<Sights> GatherSights(Communicator& comm, const DatasetRef& ref);

/// The nodes on which the members of a set were written, as sidecars record them (docs/design/commit.md §6, "Members that are
/// not visible").
struct MemberNodes {
  std::uint32_t count = 0;                    ///< number of nodes of the whole set; 0: not recorded
  std::map<std::uint32_t, std::string> own;   ///< by rank: as the member's own sidecar records
  std::map<std::uint32_t, std::string> told;  ///< by rank: as sidecars of its group record
  /// Adds what the sidecar of member `rank` records. `group`: the ranks that it describes.
  void Add(std::uint32_t rank, const std::vector<std::uint32_t>& group, const WrittenOn& on);
};
/// True if absent members may be on the disk of a node without a process of the command. `here`: the nodes with a process.
/// False if the file system is shared, if nothing is recorded, or if `lost` says that these members are lost.
bool MayBeElsewhere(const MemberNodes& members, const std::set<std::string>& here, const LostNodes& lost);
/// True if `nodes` contains `node`. n1 and n1.cluster are the same node, because MPI libraries use either name.
bool HasNode(const std::set<std::string>& nodes, const std::string& node);

/// Several nodes may have a copy of one member, for example because a node had been replaced and came back. Removes from
/// `seen` the processes that see an older copy than another process. If all processes see the same members, there is one
/// file system, and nothing is compared.
Status DropOldSights(const Context& context, const DatasetRef& ref, std::vector<std::vector<std::uint32_t>>& seen);

/// Chooses an owner for every member: the process with its number, if it sees the member; else the process with the fewest
/// members among those that see it.
std::map<std::uint32_t, int> AssignOwners(const std::vector<std::vector<std::uint32_t>>& seen);

/// Exchanges the summaries of the members that each rank owns. The result is by rank of the member.
Result<std::map<std::uint32_t, Summary>> ExchangeSummaries(Communicator& comm, const std::vector<Summary>& mine);

/// Gathers what each process knows of its node, and which members only one node, or one failure domain, has.
Result<Places> GatherPlaces(const Context& context, const DatasetRef& ref, const std::vector<LostMember>& missing,
                            const std::vector<std::vector<std::uint32_t>>& seen,
                            const std::map<std::uint32_t, std::uint32_t>& group_of);

}  // namespace lzy
