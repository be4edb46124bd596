#pragma once
// What is said and written about a commit; by one rank of those that made it.

#include <string>

#include "request/options.h"
#include "request/report.h"

namespace lzy::hooks {

/// After a Protect that succeeded: its warnings, damage it found, and one line of JSON for option report. Nothing when
/// it failed.
void TellOfCommit(const Options& options, const DatasetReport& report);

/// After one that failed.
void TellOfFailure(const Options& options, const std::string& path, const Status& status, const char* kind = "");

/// What commits a file, or a set, as these options would have it. (A sidecar that was never committed says nothing of directories.)
std::string ProtectCommand(const Options& options, const std::string& path);

}  // namespace lzy::hooks
