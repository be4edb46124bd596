#pragma once
// Decides which generation of a set counts, and completes interrupted commits (docs/design/commit.md §6). The second step of
// OpenSet.
//
// If any member has committed a generation, all members have prepared it, so it counts, and the others are completed. If all
// members have only prepared a generation, it does not count.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dataset/member.h"
#include "dataset/view.h"
#include "request/context.h"

namespace lzy {

/// Finds the newest generation of the newest set among `members`, puts its superblock into `view`, and marks all other
/// sidecars as outdated or foreign. `roll_forward` gets the members that have only prepared that generation. No I/O.
void JudgeGenerations(DatasetView& view, std::map<std::uint32_t, Summary>& members,
                      std::set<std::uint32_t>& roll_forward);

/// Marks sidecars as outdated that describe their group differently than most sidecars of the group.
Status DropDissenters(std::map<std::uint32_t, Summary>& members);

/// Completes the commit of a member that is prepared for the generation of `newest`, which counts (docs/format.md §9).
/// Returns true if the member was prepared. With `write`, the lock is held all the time. Without, only `file` and `s`
/// change. Local.
Result<bool> RollForward(const Context& context, FileView& file, Summary& s, const std::string& data_path,
                         const Superblock& newest, bool write);

/// The first 65536 of `members` ranks that are not in `known`. (A set may claim any number of members.)
std::vector<std::uint32_t> UnknownRanks(const std::set<std::uint32_t>& known, std::uint32_t members);

}  // namespace lzy
