// Advice: the command to type next. Each state has its commands; where only the user can decide, all of them are named.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>

#include "base/printable.h"
#include "common/print.h"
#include "request/edits.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// True if something of the dataset must be made anew: lzy-verify --repair does not do that, lzy-restore does.
bool AnyMissing(const DatasetReport& report) {
  return std::any_of(report.damage.begin(), report.damage.end(),
                     [](const Damage& damage) { return damage.cause == DamageCause::kMissing && !damage.repaired; });
}

// True if data are missing. They cannot be accepted as they are.
bool DataMissing(const DatasetReport& report) {
  return std::any_of(report.damage.begin(), report.damage.end(), [](const Damage& damage) {
    return damage.part == DamagePart::kData && damage.cause == DamageCause::kMissing;
  });
}

// How edits are taken back, if they can be.
std::string UndoText(const DatasetReport& report, const char* aim, const std::string& path) {
  if (report.generation == 0) return "it cannot be undone: it was never committed";
  if (report.cannot_undo) return "it cannot be undone: more of it changed than parity can rebuild";
  const char* const tool = AnyMissing(report) ? "lzy-restore --force" : "lzy-verify --repair --force";
  return fmt::format("{}: {} {}", aim, tool, path);
}

/// `command` with the launcher before it, if no single node sees the files, and the nodes that must take part.
std::string OnNodes(const std::string& command, const std::set<std::string>& nodes) {
  if (nodes.size() < 2) return command;
  return fmt::format("mpiexec -n {} {}, at least one rank on each of {}", nodes.size(), command, Printable(fmt::format("{}", fmt::join(nodes, " "))));
}

// The same for lines of advice, each with a command after a colon.
std::string OnItsNodes(const DatasetReport& report, const std::string& advice) {
  const std::set<std::string> nodes(report.needed_nodes.begin(), report.needed_nodes.end());
  if (nodes.size() < 2) return advice;
  std::string out;
  std::istringstream lines(advice);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kCommand = ": lzy-";
    const bool any = line.find(kCommand) != std::string::npos;
    for (std::size_t at = line.find(kCommand); at != std::string::npos; at = line.find(kCommand, at + kCommand.size())) {
      line.insert(at + 2, fmt::format("mpiexec -n {} ", nodes.size()));
    }
    out += line;
    if (any) out += Printable(fmt::format(", at least one rank on each of {}", fmt::join(nodes, " ")));
    out += "\n";
  }
  return out;
}

// The tool that is asked again, with all members in view.
const char* ToolOf(Action action) {
  switch (action) {
    case Action::kProtect:
    case Action::kProtectDryRun:
      return "lzy-protect";
    case Action::kRemove:
    case Action::kRemoveDryRun:
      return "lzy-protect --remove";
    case Action::kRestore:
    case Action::kRestoreDryRun:
    case Action::kSpreadDryRun:
    case Action::kSalvage:
      return "lzy-restore";
    case Action::kInfo:
      return "lzy-info";
    case Action::kRepair:
    case Action::kRepairDryRun:
      return "lzy-verify --repair";
    case Action::kVerify:
      break;
  }
  return "lzy-verify";
}

// Some members may be on disks of other nodes. Only the user knows whether a node is lost for good.
std::string NotVisibleText(const DatasetReport& report, Action action, const std::string& path, const std::string& again) {
  const std::set<std::string> needed(report.needed_nodes.begin(), report.needed_nodes.end());
  std::set<std::string> away, left = needed;
  for (const GroupMap::Device& member : report.not_visible) {
    if (member.domain.empty()) continue;
    away.insert(member.domain);
    left.erase(member.domain);
  }
  const bool unknown = std::ranges::any_of(report.not_visible, [](const auto& member) { return member.domain.empty(); });
  std::string out = fmt::format("  they may be on other nodes; to see all members: {}{}\n",
                                OnNodes(fmt::format("{} {}{}", ToolOf(action), again, path), needed),
                                unknown ? ", and on each of the nodes that have the other groups" : "");
  if (!away.empty()) {
    const std::string lost = fmt::format("lzy-restore {}--lost {} {}", again, ShellQuote(fmt::format("{}", fmt::join(away, ","))), path);
    out += fmt::format("  if {} {} gone for good: {}\n", Printable(fmt::format("{}", fmt::join(away, " and "))), away.size() == 1 ? "is" : "are",
                       OnNodes(lost, left));
  }
  return out + fmt::format("  if all nodes share this file system, and the files were deleted: lzy-restore {}--here {}\n", again, path);
}

/// The operands after the name of a tool in a command.
std::string Operands(const DatasetReport& report, const std::string& repeated) {
  return repeated + ShellQuote(report.path);
}

// The hashes of such parity may be right, so only --encode finds it.
const char* RepairCommand(const DatasetReport& report) {
  if (AnyMissing(report)) return "lzy-restore";
  const bool encode = std::ranges::any_of(
      report.damage, [](const Damage& damage) { return damage.cause == DamageCause::kEncoding && !damage.repaired; });
  return encode ? "lzy-verify --encode --repair" : "lzy-verify --repair";
}

// A removal was refused, because the sidecar may still be needed. Gives the reason.
std::string KeptText(const DatasetReport& report, const std::string& path) {
  const std::string anyway = fmt::format("to remove it anyway: lzy-protect --remove --force {}\n", path);
  switch (report.state) {
    case DatasetState::kUnrepairable:
      return fmt::format("  not removed: it may still repair a part of what is {}; {}", DataMissing(report) ? "missing" : "damaged", anyway);
    case DatasetState::kAtRisk:
      return "  not removed: a program may be writing the file; " + anyway;
    default:
      return fmt::format("  not removed: it can repair what is {}: {} {}; {}", AnyMissing(report) ? "missing" : "damaged", RepairCommand(report), path,
                         anyway);
  }
}

// Operands of a command, each after a space.
std::string Quoted(const std::vector<std::string>& files) {
  std::string out;
  for (const std::string& file : files) out += fmt::format(" {}", ShellQuote(file));
  return out;
}

// For damage that can be repaired, at least in part. `again`: see ReportText.
std::string RepairText(const DatasetReport& report, Action action, const std::string& path, const std::string& again) {
  // All of it has been repaired.
  if (ExitCodeOf(report) == 0) return "";
  const std::string commit =
      !WaitsForACommit(report)
          ? ""
          : fmt::format("  to commit the edits and make the rest again: lzy-protect {}{}; {}\n", report.another ? "--force " : "", path,
                        UndoText(report, "to undo it", path));
  if (action == Action::kRestore || action == Action::kSalvage || (!commit.empty() && !AnyRepairable(report))) {
    return commit.empty() ? "  the rest could not be repaired: a warning says why\n" : commit;
  }
  if (action == Action::kRestoreDryRun || action == Action::kSpreadDryRun) {
    return fmt::format("  restore with: lzy-restore {}{}\n", again, path);
  }
  // A member that was renamed alone, and never committed under its new name: its set can repair it under its former name only.
  if (action == Action::kProtect && report.kind == DatasetKind::kShared && report.another && report.generation == 0) {
    return fmt::format("  rename it back, so that its set can repair it; to accept it as it is: lzy-protect --force {}\n", path);
  }
  // Another dataset committed these files, and can repair them. The commit would have replaced its sidecars.
  if (!report.repair_first.empty()) {
    return fmt::format("  repair first what was committed before: lzy-verify --repair{}\n  to accept it as it is: lzy-protect --force {}\n",
                       Quoted(report.repair_first), path);
  }
  // Damaged files can be repaired in place; missing ones must be made.
  return fmt::format("  {}: {} {}\n", AnyMissing(report) ? "restore with" : "repair with",
                     RepairCommand(report), path) +
         commit +
         (action == Action::kProtect && commit.empty() && !DataMissing(report)
              ? fmt::format("  to accept it as it is: lzy-protect --force {}\n", path)
              : "");
}

// True if `damage` concerns the sidecar of a member that was lost as a whole, and that cannot be made again: it has data beyond
// repair, or the roots of other members are not known.
bool IsOfLostSidecar(const DatasetReport& report, const Damage& damage) {
  if (report.kind != DatasetKind::kSet || damage.part == DamagePart::kData) return false;
  bool lost = false, beyond = false;
  for (const Damage& other : report.damage) {
    // Nothing at all is known of such a member.
    beyond = beyond || (other.part == DamagePart::kData && other.length == 0 && other.beyond_repair);
    if (other.device != damage.device || other.repaired) continue;
    lost = lost || (other.part == DamagePart::kMetadata && other.length == 0);
    beyond = beyond || other.beyond_repair;
  }
  return lost && beyond;
}

// True if a salvage writes anything. Else it would be advised again and again.
bool CanSalvage(const DatasetReport& report) {
  return std::ranges::any_of(report.damage, [&](const Damage& damage) {
    const bool by_commit = IsEdit(damage.cause) || damage.cause == DamageCause::kEncoding;
    const bool of_lost = IsOfLostSidecar(report, damage) || WaitsForEdits(report, damage);
    return !damage.repaired && !damage.transient && !damage.beyond_repair && !by_commit && !of_lost;
  });
}

// What is left to do if parity can do nothing more. A commit needs all files. Only one that was refused advises to override: before
// that, the user may have a backup.
std::string NothingLeftText(const DatasetReport& report, Action action, const std::string& path) {
  const bool protects = action == Action::kProtect, wrote = std::ranges::any_of(report.damage, &Damage::repaired);
  if (protects && !DataMissing(report)) {
    return fmt::format("  nothing more of it can be recovered; copy the rest from a backup. To accept it as it is: lzy-protect --force {}\n", path);
  }
  if (protects) return "  nothing more of it can be recovered; copy the files that are missing from a backup, then type this command again\n";
  if (action == Action::kSalvage && report.gone) return "  nothing of it can be recovered, so no file was written; copy it from a backup\n";
  const char* const what = action != Action::kSalvage ? "nothing more of it can be recovered"
                           : wrote                    ? "what could be recovered was written"
                                                      : "nothing more of it can be recovered, so nothing was written";
  return fmt::format("  {0}; copy the rest from a backup, then commit it: lzy-protect {1}; if it differs from what was committed: lzy-protect "
                     "--force {1}\n", what, path);
}

// For lost data. If the user has just given a replica (`again`), does not suggest one.
std::string BeyondRepairText(const DatasetReport& report, Action action, const std::string& path, const std::string& again,
                             const std::string& places) {
  const bool given = again.find("--from ") != std::string::npos;
  const std::string from = fmt::format("  if you have {} copy of it: lzy-restore --from REPLICA {}\n", given ? "one more" : "another", path);
  const std::string deleted =
      report.gone ? fmt::format("  if you deleted it: lzy-protect --remove --force {}\n", path) : "";
  // Then the members of two sets may have changed places, and a salvage would make files of one among those of the other.
  if (action != Action::kSalvage && !places.empty()) return places + from + deleted;
  if (action != Action::kSalvage && report.holds_another) return "  first, if files changed places, give them their names or contents back\n" + from + deleted;
  if (action == Action::kSalvage || !CanSalvage(report)) return from + NothingLeftText(report, action, path) + deleted;
  return from + fmt::format("  to write what can be recovered: lzy-restore --salvage {}\n", path) + deleted;
}

// For data without any record of their committed content. The last command accepts them as they are, so it comes last.
std::string DestroyedText(const std::string& path, bool shared, bool directories_named) {
  const std::string compare = fmt::format("  if you have another copy of it, compare the two: lzy-diff --deep REPLICA {}\n", path);
  if (!shared) {
    return "  its sidecars are destroyed: nothing beside the files tells what they were\n" + compare +
           fmt::format("  if they are right, protect them as they are now: lzy-protect {}\n", path);
  }
  const std::string spares =
      directories_named ? "" : "  if its parity is in device directories, name these with --device-dirs: then they tell what it was\n";
  return "  its sidecar is destroyed: nothing beside the file tells what it was. If it is a member of a set, give the set's pattern: "
         "the other members can repair it\n" +
         spares + compare + fmt::format("  if it is right, protect it as it is now: lzy-protect --force {}\n", path);
}

// For content that is proven. Until the new stamp is recorded, each later difference counts as an edit.
std::string StampText(StampNote note, const std::string& path) {
  switch (note) {
    case StampNote::kNone:
      return "";
    case StampNote::kTimesDiffer:
      return fmt::format("  times differ from the last commit, content proven; to record the new times: lzy-verify --repair {}\n", path);
    case StampNote::kRacy:
      return fmt::format("  committed within one tick of the file system's clock, content proven; to record that: lzy-verify --repair {}\n", path);
    case StampNote::kMoved:
      return fmt::format("  its sidecar has the name of another file, content proven; to give it the right name: lzy-protect {}\n", path);
    case StampNote::kTaken:
      return "  content proven: the times of now were recorded\n";
  }
  return "";
}

// One case for each state. If there is a choice, all commands are named, because only the user can decide.
std::string StateAdvice(const DatasetReport& report, Action action, const std::string& repeated, const std::string& again,
                        const std::string& places) {
  const std::string path = Operands(report, repeated);
  if (action == Action::kRemove || action == Action::kRemoveDryRun) return KeptText(report, path);
  // lzy-info has read no data, so it cannot advise to repair.
  const bool fine = report.state == DatasetState::kIntact || report.state == DatasetState::kUnprotected;
  if (action == Action::kInfo && !fine) {
    return fmt::format("  this is from metadata and times alone; to check the data: lzy-verify {}\n", path);
  }
  switch (report.state) {
    case DatasetState::kIntact:
    case DatasetState::kRestored:
      return StampText(report.stamps, path);
    case DatasetState::kDamaged:
      return RepairText(report, action, path, again);
    case DatasetState::kUnrepairable:
      return BeyondRepairText(report, action, path, again, places);
    // Edit or damage: only the user can know. So both commands are named.
    case DatasetState::kStale:
      // Another dataset committed these files, and does not accept them as they are.
      if (!report.repair_first.empty()) {
        return fmt::format("  see first what was committed before: lzy-verify{}\n  to accept it as it is: lzy-protect --force {}\n", Quoted(report.repair_first), path);
      }
      // Another file may have come here by mistake.
      return fmt::format("{}  to commit the change: lzy-protect {}{}; {}\n{}", places, report.another ? "--force " : "", path,
                         UndoText(report, "to undo it", path),
                         places.empty() && report.holds_another ? "  if two files changed places, give them their names or contents back\n" : "");
    case DatasetState::kAtRisk:
      if (!report.commit_under_way.empty() && !report.commit_elsewhere) {
        return "  nothing is to be done: it is protected when this commit has ended, at the latest when the program ends\n";
      }
      if (std::ranges::all_of(report.damage, IsUnfinishedCommit) && !report.damage.empty()) {
        return fmt::format("  its data are as committed; to finish the commit: lzy-verify --repair {}\n", path);
      }
      return fmt::format("  to commit it as it is: lzy-protect {}; {}\n", path, UndoText(report, "to reset it to the last commit", path));
    case DatasetState::kUnprotected:
      if (report.unjudged && !report.unchecked.empty()) {
        // A commit that was refused has said why.
        return fmt::format("  its data may be right; to commit them as they are: lzy-protect {}{}\n", action == Action::kProtect ? "--force " : "", path);
      }
      if (report.status.code() == Code::kBeyondRepair) return BeyondRepairText(report, action, path, again, places);
      return fmt::format("  protect it with: lzy-protect {}\n", path);
  }
  return "";
}

}  // namespace

/// The command to type next, for these findings and this action. The path is the one of the report, quoted for a shell.
std::string NextText(const DatasetReport& report, Action action, const std::string& repeated, const std::string& again,
                     const std::string& places) {
  // A dry run has said what would be done. The next command is the same one without --dry-run.
  if (report.planned) return "";
  if (!report.not_visible.empty()) return NotVisibleText(report, action, Operands(report, repeated), again);
  return OnItsNodes(report, StateAdvice(report, action, repeated, again, places));
}

// From the most specific advice to the most general.
std::string FailureAdvice(const DatasetReport& report, const std::string& ruined_sidecar, const std::string& repeated,
                          bool protected_but_missing) {
  const std::string path = Operands(report, repeated);
  // The sidecar is whole, but of a newer version of the format.
  if (report.status.code() == Code::kNewerFormat) {
    if (ruined_sidecar.empty()) return "  use the version of lzy that wrote it\n";
    return fmt::format("  use the version of lzy that wrote it; or remove its sidecar and protect it again: rm {}; lzy-protect {}\n",
                       ShellQuote(ruined_sidecar), path);
  }
  if (report.status.code() == Code::kNotFound && protected_but_missing) {
    return fmt::format("  the file is missing, but its sidecar is there; to see what can be restored: lzy-verify {}\n", path);
  }
  if (report.status.code() == Code::kUnreadable) {
    return "  the device failed; what is there may be whole. Look at the log of the kernel and at the mount, then type the same command again\n";
  }
  if (report.status.code() != Code::kUnprotected && report.status.code() != Code::kCorrupt) return "";
  const bool shared = report.kind == DatasetKind::kShared, directories_named = repeated.find("--device-dirs") != std::string::npos;
  // A member that was renamed alone, or the sidecar of one that was moved here.
  if (report.another) return fmt::format("  if the file was renamed by mistake, rename it back; to protect it alone: lzy-protect {}\n", path);
  // The name of a sidecar is longer than that of its file, and file systems limit names.
  if (shared && !SidecarPath(report.path).ok()) return "  the name is too long for a sidecar: rename it\n";
  // The dataset is sealed, and its content was changed after that. lzy cannot know whether it is right.
  if (report.unsealed) return fmt::format("  if its content is right, seal it with: lzy-protect --force {}\n", path);
  if (report.gone && !ruined_sidecar.empty()) {
    return fmt::format("  the file is missing and its sidecar is destroyed. If it is a member of a set, give the set's pattern: the "
                       "other members can repair it. If not, nothing of it can be restored: rm {}\n", ShellQuote(ruined_sidecar));
  }
  if (ruined_sidecar.empty() && shared && !directories_named) {
    return fmt::format("  if its sidecar was lost and its parity is in device directories, name these with --device-dirs; if it never had "
                       "a sidecar, protect it with: lzy-protect {}\n", path);
  }
  if (ruined_sidecar.empty()) return fmt::format("  protect it with: lzy-protect {}\n", path);
  return DestroyedText(path, shared, directories_named);
}

}  // namespace lzy
