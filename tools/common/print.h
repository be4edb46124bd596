#pragma once
// Reports as text for people: what was found, where, and the exact command to type next (as the status of SnapRAID
// ends). All functions are pure: tool.cc prints what they return. Texts for a terminal have file names as Printable
// shows them; commands have them as ShellQuote quotes them.

#include <cstdint>
#include <string>
#include <vector>

#include "request/report.h"

namespace lzy {

/// What a tool was asked to do. It decides what a report means, and what to suggest next.
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

/// What a tool adds to the report of a dataset.
struct ReportWords {
  std::string state;     ///< StateText, or what the tool says instead
  std::string first;     ///< lines that come before the command to type next
  std::string repeated;  ///< options that the next command will need as this one did ("--key FILE "), or empty
  std::string again;     ///< those that this command needs in addition when it is repeated ("--device 1 ")
};
/// The whole report of a dataset: several lines, each ended. Advice for a failed operation (report.status) is not in
/// it: see FailureAdvice().
std::string ReportText(const DatasetReport& report, Action action, const ReportWords& words);
/// The state in a few words, as the first line of the report has it.
std::string StateText(const DatasetReport& report, Action action);
/// The total in seconds, then that of each phase that took any time.
std::string PhasesText(const Phases& phases);
/// The command to type next, by what was found and what was asked for: lines, or nothing. `repeated`, `again`: see
/// ReportText. Names in commands are those of `report`, quoted for a shell.
std::string NextText(const DatasetReport& report, Action action, const std::string& repeated, const std::string& again);
/// What to do if `report.status` says that a dataset cannot be judged: a line, or nothing if there is no advice.
/// `ruined_sidecar`: a sidecar that is there but cannot be read by this lzy, or empty. `protected_but_missing`: the
/// file is missing, and its sidecar is there.
std::string FailureAdvice(const DatasetReport& report, const std::string& ruined_sidecar, const std::string& repeated,
                          bool protected_but_missing);
/// A time span in words: "3 days", "2 hours". Two of a unit at least: "90 minutes" says more than "1 hour". Negative
/// ones count as 0.
std::string AgeText(std::int64_t ns);
/// "3 days ago". A time that has not come yet by more than two minutes, which clocks may differ by, is "in the future".
std::string AgoText(std::int64_t ns);
/// What is wrong with a range, seen from outside: "differs from its hash".
std::string CauseText(const Damage& damage);

/// Whether it is no damage, but what a commit left in a sidecar that was cut off, or is under way.
inline bool IsUnfinishedCommit(const Damage& damage) {
  return damage.part == DamagePart::kMetadata && damage.cause == DamageCause::kAtRisk;
}
/// What lies in a damaged range, in short: "/fields/T chunk [3, 0], /grid (metadata) and 2 more". At most `most` are named.
/// Empty if nothing is known.
std::string ObjectsText(const std::vector<DamagedObject>& objects, std::uint64_t left_off, std::size_t most);
/// "1 file", "6 files".
std::string Plural(std::uint64_t count, const char* one);

}  // namespace lzy
