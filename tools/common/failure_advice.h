#pragma once
// Advice after a failed operation: what is in the way in the file system, and what to do about it. Unlike the texts of
// print.h, this looks at files.

#include <string>

#include "base/file.h"
#include "common/print.h"
#include "names/resolve.h"

namespace lzy {

/// What to do now that `report.status` says that `action` failed for `dataset`: lines, or nothing if there is no
/// advice. `repeated`: see ReportText. `all_seen`: there are no other ranks, so `dataset` has all members. Local; changes
/// nothing.
std::string AdviceAfterFailure(FileSystem& fs, const DatasetReport& report, const DatasetRef& dataset, Action action,
                               const std::string& repeated, bool all_seen);

/// How to move away what has the name of a lost file, such as a directory: a restore does not replace it. Or what is newer than
/// most of a set, which can be restored as it was (set_aside.h). Lines, or nothing. Local; changes nothing.
std::string AdviceBeforeRestore(FileSystem& fs, const DatasetReport& report);

}  // namespace lzy
