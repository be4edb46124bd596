#pragma once
// Advice after a failed operation: what is in the way in the file system, and what to do about it. Unlike the texts of
// print.h, this looks at files.

#include <string>

#include "base/file.h"
#include "common/print.h"
#include "names/resolve.h"

namespace lzy {

/// What to do now that `report.status` says that `action` failed for `dataset`: lines, or nothing if there is no
/// advice. `repeated`: see ReportText. Local; changes nothing.
std::string AdviceAfterFailure(FileSystem& fs, const DatasetReport& report, const DatasetRef& dataset, Action action,
                               const std::string& repeated);

}  // namespace lzy
