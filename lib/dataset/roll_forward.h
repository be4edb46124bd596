#pragma once
// Which generation of a set counts, by what its sidecars say together; and commits that broke off half-way are
// completed (docs/design/commit.md "Sets"). Second step of OpenSet.
//
// The rule of the two phases: a generation that any member has committed was prepared by all, so it counts, and members
// that have it only prepared are completed. A generation that all have only prepared does not count.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dataset/member.h"
#include "dataset/view.h"
#include "request/context.h"

namespace lzy {

/// The generation that counts, and the members' sidecars that do not belong to it. Finds the newest generation of the
/// newest set among `members`, puts its superblock into `view`, and marks sidecars of others as outdated or foreign.
/// `roll_forward`: members that have that generation prepared only. `all_disks`: where this process sees everything, so that members of
/// another set that were moved here are known by the others of theirs; else null.
void JudgeGenerations(DatasetView& view, std::map<std::uint32_t, Summary>& members, std::set<std::uint32_t>& roll_forward,
                      FileSystem* all_disks);

/// Sidecars that say something else about their group than most of it do not count.
Status DropDissenters(std::map<std::uint32_t, Summary>& members);

/// Completes the commit of a member that was prepared when another member of its set already had the generation
/// committed: then all had it prepared, so it counts (docs/format.md §9). True when there was one. To write, the lock
/// is never let go.
Result<bool> RollForward(const Context& context, FileView& file, Summary& s, const std::string& data_path,
                         const Superblock& newest, bool write);

/// Members of which no sidecar tells anything: the first ones, since a set may claim any number of them.
std::vector<std::uint32_t> UnknownRanks(const std::set<std::uint32_t>& known, std::uint32_t members);

}  // namespace lzy
