#pragma once
// Reports a commit to the user: messages on stderr, and one line of JSON for option report.
//
// The commits of epochs/commit.cc and sets/sets.cc call these functions only on rank 0, which reports for the dataset.
// Nothing here is collective, and nothing changes the result of the commit.

#include <cstdint>
#include <optional>
#include <string>

#include "request/options.h"
#include "request/report.h"

namespace lzy::hooks {

/// Call it after a Protect that succeeded. Writes its warnings and the damage that it found, and appends a line of JSON to
/// the file of option report. Does nothing if `report.status` is an error. Writes each warning once for each dataset.
/// `uncompared`, `differing`: as for CommitRecord (request/commit_record.h).
void ReportCommit(const Options& options, const DatasetReport& report, std::optional<std::uint64_t> uncompared = std::nullopt,
                  std::uint64_t differing = 0);

/// Call it after a Protect that failed with `status`. Writes the reason once for each `path` (a file, or the pattern of a
/// set), and the command that commits it. `kind` is put before the path ("set ").
void ReportFailure(const Options& options, const std::string& path, const Status& status, const char* kind = "");

/// The lzy-protect command that commits a file or a set with these options, quoted for a shell. It repeats options of the
/// geometry only if there are device directories, because a sidecar that was never committed does not record those.
std::string ProtectCommand(const Options& options, const std::string& path);

}  // namespace lzy::hooks
