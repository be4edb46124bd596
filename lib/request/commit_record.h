#pragma once
// The option `report`: a line of JSON for every commit, whoever made it (docs/reference/options.md).
//
// The tools and the layer call AppendCommitRecord after a commit, on one rank. Jobs may share a file. So a line is one
// append, and nothing here takes a lock. If its record cannot be written, the commit stands all the same.

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "request/report.h"

namespace lzy {

/// One JSON object and a line feed. Valid whatever bytes the path has: those that are not UTF-8 are replaced.
/// `uncompared`: bytes that option verify-writes could not compare; none: it was not asked to.
std::string CommitRecord(const DatasetReport& report, std::optional<std::uint64_t> uncompared = std::nullopt);
/// Whether lines can be appended to `file`, which is not made for that. kInvalidArgument says why not.
Status CheckReportFile(const std::string& file);
/// Appends the record of `report` to `file`, which is made if it is not there (mode 0666 less the umask). Local; kIo
/// names the file and what failed. The line is written by one write(2), so that lines of several jobs do not mix.
Status AppendCommitRecord(const std::string& file, const DatasetReport& report,
                          std::optional<std::uint64_t> uncompared = std::nullopt);

}  // namespace lzy
