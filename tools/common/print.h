#pragma once
// Reports as text for users: findings, their places, and the exact command to type next (similar to the status of
// SnapRAID). All functions are pure; tool.cc prints their results. In texts for a terminal, file names are in the form of
// Printable; in commands, in that of ShellQuote.

#include <cstdint>
#include <string>
#include <vector>

#include "request/report.h"

namespace lzy {

/// The requested action of a tool. It decides how a report is worded, and which command to suggest.
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

/// Texts that a tool adds to the report of a dataset.
struct ReportWords {
  std::string state;     ///< StateText, or the tool's own text
  std::string first;     ///< lines that come before the command to type next
  std::string repeated;  ///< options of this command that the next command needs, too ("--key FILE "), or empty
  std::string again;     ///< options that this command needs when it is repeated ("--device 1 ")
  std::string instead = {};  ///< lines that replace the command to type next, if not empty
  std::string places = {};   ///< a line for files that changed places (ChangedPlacesText), if any did
};
/// The whole report of a dataset: several lines. It has no advice for a failed operation (report.status); see
/// FailureAdvice().
std::string ReportText(const DatasetReport& report, Action action, const ReportWords& words);
/// The state in a few words, for the first line of the report.
std::string StateText(const DatasetReport& report, Action action);
/// The total in seconds, then the seconds of each phase that took time.
std::string PhasesText(const Phases& phases);
/// The command to suggest for these findings and this action: lines, or nothing. `repeated`, `again`: see ReportWords.
/// Names in commands are those of `report`, quoted for a shell. `places`: see ReportWords.
std::string NextText(const DatasetReport& report, Action action, const std::string& repeated, const std::string& again,
                     const std::string& places = "");
/// Advice if `report.status` says that a dataset cannot be judged: a line, or nothing if there is none. `ruined_sidecar`: a
/// sidecar that exists but cannot be read by this lzy, or empty. `protected_but_missing`: the file is missing, and its
/// sidecar exists.
std::string FailureAdvice(const DatasetReport& report, const std::string& ruined_sidecar, const std::string& repeated,
                          bool protected_but_missing);
/// A time span in words: "3 days", "2 hours". Changes to a larger unit at two of it: "90 minutes", not "1 hour". Negative
/// spans count as 0.
std::string AgeText(std::int64_t ns);
/// "3 days ago"; "in the future" if `ns` is below minus two minutes. Clocks may differ by two minutes.
std::string AgoText(std::int64_t ns);
/// The fault of a range, for users: "differs from its hash".
std::string CauseText(const Damage& damage);

/// True for the trace of an interrupted or unfinished commit in a sidecar, which is not damage.
inline bool IsUnfinishedCommit(const Damage& damage) {
  return damage.part == DamagePart::kMetadata && damage.cause == DamageCause::kAtRisk;
}
/// Short list of the objects in a damaged range: "/fields/T chunk [3, 0], /grid (metadata) and 2 more". Names at most
/// `most` objects. Empty if none is known.
std::string ObjectsText(const std::vector<DamagedObject>& objects, std::uint64_t left_off, std::size_t most);
/// "1 file", "6 files".
std::string Plural(std::uint64_t count, const char* one);

}  // namespace lzy
