#pragma once
// The option `report`: a line of JSON for every commit, whoever made it.

#include <string>

#include "base/status.h"
#include "request/report.h"

namespace lzy {

/// One JSON object and a line feed. Valid whatever bytes the path has: those that are not UTF-8 are replaced.
std::string CommitRecord(const DatasetReport& report);
/// Whether lines can be appended to `file`, which is not made for that. kInvalidArgument says why not.
Status CheckReportFile(const std::string& file);
/// Appends it to `file` by one write(2), so that lines of several jobs do not mix.
Status AppendCommitRecord(const std::string& file, const DatasetReport& report);

}  // namespace lzy
