#pragma once
// Advice after a failed operation: names the obstacle in the file system, and the remedy. Unlike the texts of print.h, this
// examines files.

#include <string>
#include <vector>

#include "base/file.h"
#include "common/held_members.h"
#include "common/print.h"
#include "names/resolve.h"

namespace lzy {

/// Advice after `action` failed for `dataset` with `report.status`: lines, or nothing if there is no advice. `repeated`:
/// see ReportText. `all_seen`: there are no other ranks, so `dataset` has all members. `moved`: see AdviceBeforeRestore. Local; changes
/// nothing.
std::string AdviceAfterFailure(FileSystem& fs, const DatasetReport& report, const DatasetRef& dataset, Action action,
                               const std::string& repeated, bool all_seen, const std::vector<HeldMember>& moved);

/// For files that match a pattern, and that lzy-protect would not accept as a set: what can be typed for them. Lines; nothing if they
/// can be a set, or are protected as one. Local; changes nothing.
std::string NoSetAdvice(FileSystem& fs, const DatasetReport& report, const DatasetRef& dataset, const std::string& repeated);

/// Advice before a restore: lines, or nothing. If an object such as a directory has the name of a lost file, says to move
/// it away, because a restore does not replace it. If files are newer than most of a set, says how to restore the set as it
/// was (set_aside.h). `moved`: members to move back (FindHeldMembers); for a dataset beyond repair, HeldElsewhereText has them.
/// Local; changes nothing, and reads no data.
std::string AdviceBeforeRestore(FileSystem& fs, const DatasetReport& report, const std::vector<HeldMember>& moved);

}  // namespace lzy
