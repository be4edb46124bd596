#pragma once
// Reports as text for people: what was found, where, and the exact next command to type (as SnapRAID's status ends).

#include <string>

#include "engine/report.h"

namespace lzy {

/// What a tool was asked to do; it decides what a report means.
enum class Action { kProtect, kVerify, kRepair, kRestore, kRestoreDryRun, kInfo };

/// The whole report, several lines, each ended.
std::string ReportText(const DatasetReport& report, Action action);
/// "2024-05-01 12:00:00 UTC"
std::string TimeText(std::int64_t ns_since_epoch);
/// "3 days", "2 hours", ...
std::string AgeText(std::int64_t ns);

}  // namespace lzy
