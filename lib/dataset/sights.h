#pragma once
// Which process sees which members of a set, who owns each, and who is to make those that nobody sees. First step of
// OpenSet.
//
// Members may lie on disks that only one node has, so nothing is known before the ranks have told each other. Functions
// with a communicator or a context are collective and give all ranks the same result.

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

/// Which members each process sees, and the name of its node; by process.
struct Sights {
  std::vector<std::vector<std::uint32_t>> seen;
  std::vector<std::string> nodes;
};
Result<Sights> GatherSights(Communicator& comm, const DatasetRef& ref);

/// What sidecars tell of where the members of a set were written (docs/design/commit.md §6, "Members that are not visible").
struct MemberNodes {
  std::uint32_t count = 0;                    ///< nodes of the whole set; 0: no sidecar tells
  std::map<std::uint32_t, std::string> own;   ///< by rank, as the member's own sidecar says: where it is
  std::map<std::uint32_t, std::string> told;  ///< as sidecars of its group say
  /// Takes in the sidecar of member `rank`. `group`: the ranks that it describes.
  void Add(std::uint32_t rank, const std::vector<std::uint32_t>& group, const WrittenOn& on);
};
/// Whether absent members that were written on a node without a process of the command may be on its disk. `here`: nodes with
/// a process. False if the file system is shared, if nothing is recorded, or if the user said that they are lost.
bool MayBeElsewhere(const MemberNodes& members, const std::set<std::string>& here, const LostNodes& lost);
/// Whether `nodes` has `node`. MPIs name a node in two ways: n1, or n1.cluster.
bool HasNode(const std::set<std::string>& nodes, const std::string& node);

/// Members of which nodes have files of their own: one that was away has its old one, when another was put in its
/// place meanwhile. Leaves only those who see the newest. Where all processes see the same there is one file system,
/// and nothing is looked at.
Status DropOldSights(const Context& context, const DatasetRef& ref, std::vector<std::vector<std::uint32_t>>& seen);

/// An owner for every member: the process of the same number if it sees the member, else the least busy one that does.
std::map<std::uint32_t, int> AssignOwners(const std::vector<std::vector<std::uint32_t>>& seen);

/// What all ranks found of the members that they own, by rank of the member.
Result<std::map<std::uint32_t, Summary>> ExchangeSummaries(Communicator& comm, const std::vector<Summary>& mine);

/// What each process knows of its node, and which members are on one node, or in one failure domain, only.
Result<Places> GatherPlaces(const Context& context, const DatasetRef& ref, const std::vector<LostMember>& missing,
                            const std::vector<std::vector<std::uint32_t>>& seen,
                            const std::map<std::uint32_t, std::uint32_t>& group_of);

}  // namespace lzy
