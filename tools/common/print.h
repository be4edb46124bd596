#pragma once
// Reports as text for people: what was found, where, and the exact next command to type (as SnapRAID's status ends).

#include <string>

#include "request/report.h"

namespace lzy {

/// What a tool was asked to do; it decides what a report means.
enum class Action {
  kProtect,
  kProtectDryRun,
  kRemove,
  kRemoveDryRun,
  kVerify,
  kRepair,
  kRepairDryRun,
  kRestore,
  kRestoreDryRun,
  kSpreadDryRun,
  kSalvage,
  kInfo
};

/// The whole report, several lines, each ended. What to do about a failed operation (report.status) is
/// FailureAdvice()'s. `repeated`: options of this command that the next one will need, too ("--key FILE "); or empty.
std::string ReportText(const DatasetReport& report, Action action, const std::string& repeated);
/// The state in a few words, as the report has it.
std::string StateText(const DatasetReport& report, Action action);
/// The seconds of each phase.
std::string PhasesText(const Phases& phases);
/// What to do when `report.status` says that a dataset cannot be judged: a line, or nothing where there is no advice.
/// `ruined_sidecar`: a sidecar that is there and that this lzy cannot read, or empty. `protected_but_missing`: the file is
/// not there, its sidecar is.
std::string FailureAdvice(const DatasetReport& report, const std::string& ruined_sidecar, const std::string& repeated,
                          bool protected_but_missing);
/// "3 days", "2 hours", ...
std::string AgeText(std::int64_t ns);

}  // namespace lzy
