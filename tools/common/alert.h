#pragma once
// --on-damage COMMAND: passes the findings to a command. For rank 0.

#include <string>
#include <vector>

#include "base/status.h"
#include "common/json.h"
#include "request/report.h"

namespace lzy {

/// The data for the command.
struct Alert {
  std::string tool;
  int exit_code = 0;
  /// Datasets with news; they contain only damage that was not known before.
  std::vector<DatasetReport> datasets;
  double seconds = 0;
};

/// Runs `command` with /bin/sh and waits for it. It gets variables LZY_EVENT_..., and the JSON document of the tool on
/// its standard input. An error says that it could not be started, or how it ended.
Status RunAlert(const std::string& command, const Alert& alert);

/// "2 datasets have new damage: /archive/a, /archive/b".
std::string SummaryOf(const std::vector<DatasetReport>& datasets);

}  // namespace lzy
