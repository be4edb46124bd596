#pragma once
// Option `report`: a line of JSON for every commit by any program (docs/reference/options.md).
//
// The tools and the layer call AppendCommitRecord after a commit, on one rank. Jobs may share a file. So a line is one
// append, and no lock is taken. If the record cannot be written, the commit still counts.

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "request/report.h"

namespace lzy {

/// One JSON object and a line feed. `report.seconds_blocked` and `seconds_background` are left out if they are not known. Bytes of
/// the path that are not UTF-8 are replaced. `uncompared`: number of bytes that option verify-writes could not compare; nullopt
/// without this option. `differing`: number of bytes that differ from what the program wrote (Doubts in commit/protect.h).
std::string CommitRecord(const DatasetReport& report, std::optional<std::uint64_t> uncompared = std::nullopt,
                         std::uint64_t differing = 0);
/// Whether lines can be appended to `file`, which is not made for that. kInvalidArgument says why not.
Status CheckReportFile(const std::string& file);
/// Appends the record of `report` to `file`, which is made if it is not there (mode 0666 less the umask). Local; kIo
/// names the file and what failed. The line is written by one write(2), so that lines of several jobs do not mix.
Status AppendCommitRecord(const std::string& file, const DatasetReport& report,
                          std::optional<std::uint64_t> uncompared = std::nullopt, std::uint64_t differing = 0);

}  // namespace lzy
