#pragma once
// What is said and written about a commit; by one rank of those that made it.

#include <string>

#include "engine/options.h"
#include "engine/report.h"

namespace lzy::hooks {

/// After a Protect that succeeded: its warnings, damage it found, and one line of JSON for option report. Nothing when
/// it failed.
void TellOfCommit(const Options& options, const DatasetReport& report);

/// After one that failed.
void TellOfFailure(const Options& options, const std::string& path, const Status& status, const char* kind = "");

}  // namespace lzy::hooks
