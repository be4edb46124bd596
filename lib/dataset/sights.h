#pragma once
// Which process sees which members of a set, who owns each, and who is to make those that nobody sees. First step of
// OpenSet.
//
// Members may lie on disks that only one node has, so nothing is known before the ranks have told each other. Functions
// with a communicator or a context are collective and give all ranks the same result.

#include <cstdint>
#include <map>
#include <vector>

#include "dataset/member.h"
#include "dataset/placement.h"
#include "names/resolve.h"
#include "request/context.h"

namespace lzy {

/// Who sees which members: lists of ranks, by process.
Result<std::vector<std::vector<std::uint32_t>>> GatherSeen(Communicator& comm, const DatasetRef& ref);

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
