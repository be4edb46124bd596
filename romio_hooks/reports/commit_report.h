#pragma once
// What the user learns of a commit: messages on stderr, and one line of JSON for option report.
//
// The commits of epochs/commit.cc and sets/sets.cc call these functions on one rank only, the one that speaks for the
// dataset (rank 0). Nothing here is collective, and nothing here changes the result of the commit.

#include <cstdint>
#include <optional>
#include <string>

#include "request/options.h"
#include "request/report.h"

namespace lzy::hooks {

/// After a Protect that succeeded: says its warnings and the damage that it found, and appends a line of JSON to the
/// file of option report. Does nothing if `report.status` is an error. A warning is said once for each dataset.
/// `uncompared`: bytes that verify-writes could not compare; none: it was not asked to.
void TellOfCommit(const Options& options, const DatasetReport& report, std::optional<std::uint64_t> uncompared = std::nullopt);

/// After a Protect that failed with `status`: says once for each `path` (a file, or the pattern of a set) why, and how
/// to commit it by hand. `kind` is put before the path ("set ").
void TellOfFailure(const Options& options, const std::string& path, const Status& status, const char* kind = "");

/// The lzy-protect command that commits a file or a set with these options, quoted for a shell. It repeats the options
/// of the geometry only if there are device directories: a sidecar that was never committed does not name them.
std::string ProtectCommand(const Options& options, const std::string& path);

}  // namespace lzy::hooks
