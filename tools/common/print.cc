// The words of reports. Each function makes one part of a report; ReportText at the end puts them together, NextText
// and FailureAdvice add the command to type next.

#include "common/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "base/printable.h"
#include "common/arguments.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// Lines about damage in one report; --json has all of it.
constexpr std::size_t kMostDamageLines = 1000;
// From this many places of one device on, they are one line.
constexpr std::size_t kManyPlaces = 12;

// "1 file", "6 files".
std::string Plural(std::uint64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string KindText(const DatasetReport& report) {
  if (report.kind == DatasetKind::kShared) return "shared file";
  return "set of " + Plural(report.devices, "file", "files");
}

// Both forms: people compare sizes with what ls prints.
std::string SizeText(std::uint64_t bytes) {
  return bytes < 1024 ? FormatSize(bytes) : fmt::format("{} ({} bytes)", FormatSize(bytes), bytes);
}

// "6 devices in one group, 2 of each may be lost; block 64 KiB, unit 1 MiB".
std::string GeometryText(const DatasetReport& report) {
  return fmt::format(
      "{} in {}, {}; block {}, unit {}", Plural(report.devices, "device", "devices"),
      report.groups == 1 ? "one group" : fmt::format("{} groups of up to {}", report.groups, report.group_size),
      report.parity == 0 ? "hashes only, nothing can be repaired" : fmt::format("{} of each may be lost", report.parity),
      FormatSize(report.block_size), FormatSize(report.unit));
}

// What is wrong with a range, seen from outside.
std::string CauseText(const Damage& damage) {
  // Parity itself did not change: the data of its rows did.
  const bool edited = IsEdit(damage.cause);
  if (edited && damage.part == DamagePart::kParity) return "out of date, as data of its rows were written since";
  switch (damage.cause) {
    case DamageCause::kHash:
      return "differs from its hash";
    case DamageCause::kUnreadable:
      return "cannot be read";
    case DamageCause::kMissing:
      return "missing";
    case DamageCause::kStale:
      return "changed since the last commit";
    case DamageCause::kAtRisk:
      return "was being written";
  }
  return "unknown";
}

// What was done about a range, or can be.
std::string RemedyText(const Damage& damage, Action action, bool unjudged) {
  if (damage.repaired) return "repaired";
  // The disk or the bus was wrong once; there is nothing to repair.
  if (damage.transient) return "a second reading was right";
  // In a dry run of lzy-verify --repair. It makes no missing files, so it would not repair them.
  const bool would = action == Action::kRepairDryRun && damage.cause != DamageCause::kMissing;
  if (damage.beyond_repair) return "beyond repair";
  // Neither hashes that nobody has can be repaired, nor parity of data that cannot be checked.
  if (unjudged && damage.part != DamagePart::kData) return "lzy-protect makes it anew";
  if (damage.part == DamagePart::kParity && IsEdit(damage.cause)) {
    return "the next commit makes it anew";
  }
  if (damage.cause == DamageCause::kStale) return "a legitimate change, or damage: see below";
  if (damage.cause == DamageCause::kAtRisk) return "may be old or new: see below";
  return would ? "would be repaired" : "repairable";
}

/// Entries of one file that differ in nothing but place and device. They lie side by side, or ByDevice has put them
/// together.
struct DamageRun {
  Damage first;
  std::uint64_t length = 0;
  bool one_device = true;
  // More than one: they do not lie side by side, and `end` is the end of the last.
  std::uint64_t places = 1;
  std::uint64_t end = 0;

  // The rest of the line would be the same.
  bool IsLike(const Damage& next) const {
    return next.path == first.path && next.part == first.part && next.cause == first.cause &&
           next.transient == first.transient && next.repaired == first.repaired &&
           next.beyond_repair == first.beyond_repair && next.objects == first.objects;
  }
  bool Continues(const Damage& next) const {
    return IsLike(next) && length > 0 && next.offset == first.offset + length;
  }
};

// Puts neighbours together. Entries come in the order of the report.
std::vector<DamageRun> DamageRuns(const std::vector<Damage>& damage) {
  std::vector<DamageRun> runs;
  for (const Damage& entry : damage) {
    if (!runs.empty() && runs.back().Continues(entry)) {
      runs.back().length += entry.length;
      runs.back().one_device = runs.back().one_device && entry.device == runs.back().first.device;
    } else {
      runs.push_back({entry, entry.length});
    }
  }
  return runs;
}

/// If much is wrong with one device, as when all of it is lost, it becomes one line, at the place of its first run.
/// In a shared file, the units of a lost device do not lie side by side, so there would be thousands of lines.
std::vector<DamageRun> ByDevice(std::vector<DamageRun> runs) {
  using Key = std::tuple<std::string, DamagePart, std::uint32_t>;
  const auto key = [](const DamageRun& run) { return Key(run.first.path, run.first.part, run.first.device); };
  std::map<Key, std::size_t> count;
  for (const DamageRun& run : runs) count[key(run)] += run.one_device;
  // Where the line of each device is in `out`.
  std::map<Key, std::size_t> line;
  std::vector<DamageRun> out;
  for (DamageRun& run : runs) {
    run.end = run.first.offset + run.length;
    // A run over several devices, or one of few, stays a line of its own.
    if (!run.one_device || count[key(run)] < kManyPlaces) {
      out.push_back(std::move(run));
      continue;
    }
    const auto known = line.find(key(run));
    if (known == line.end() || !out[known->second].IsLike(run.first)) {
      line[key(run)] = out.size();
      out.push_back(std::move(run));
      continue;
    }
    // One more place in the line of its device.
    DamageRun& all = out[known->second];
    ++all.places;
    all.length += run.length;
    all.end = std::max(all.end, run.end);
  }
  return out;
}

// Where a line's damage is.
std::string PlaceText(const DamageRun& run) {
  if (run.places == 1) return fmt::format("offset {}, length {}", run.first.offset, run.length);
  return fmt::format("{} places from offset {} to {}, together {}", run.places, run.first.offset, run.end,
                     FormatSize(run.length));
}

// One line: file, part, place, device, cause, and what can be done.
std::string DamageText(const DamageRun& run, Action action, bool unjudged) {
  const Damage& damage = run.first;
  std::string line =
      fmt::format("  {}: {}, {}, {}: {}", damage.path, Name(damage.part), PlaceText(run),
                  run.one_device ? fmt::format("device {}", damage.device) : "several devices", CauseText(damage));
  // Metadata alone do not tell what can be done.
  if (action != Action::kInfo) line += "; " + RemedyText(damage, action, unjudged);
  if (run.places > 1) line += "; --json lists them";
  if (!damage.objects.empty()) line += fmt::format(" [{}]", fmt::join(damage.objects, ", "));
  return line + "\n";
}

/// The bytes that are lost for good, with neighbours put together: what to look for in a backup.
std::string LostText(const DatasetReport& report) {
  std::vector<const Damage*> lost;
  for (const Damage& damage : report.damage) {
    if (damage.beyond_repair && damage.part == DamagePart::kData) lost.push_back(&damage);
  }
  // By place in the file, so that neighbours come together.
  std::stable_sort(lost.begin(), lost.end(), [](const Damage* a, const Damage* b) {
    return a->path != b->path ? a->path < b->path : a->offset < b->offset;
  });
  std::string out;
  for (std::size_t i = 0; i < lost.size();) {
    std::uint64_t end = lost[i]->offset + lost[i]->length;
    std::size_t next = i + 1;
    // Entries may overlap, if a file is shorter than it was.
    for (; next < lost.size() && lost[next]->path == lost[i]->path && lost[next]->offset <= end; ++next) {
      end = std::max(end, lost[next]->offset + lost[next]->length);
    }
    out += fmt::format("  lost: {}: bytes {} to {} ({})\n", lost[i]->path, lost[i]->offset,
                       std::max(end, lost[i]->offset + 1) - 1, FormatSize(end - lost[i]->offset));
    i = next;
  }
  return out;
}

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

// True if no data are damaged, but some were edited, so that only a commit can make the rest of the dataset anew.
bool WaitsForACommit(const DatasetReport& report) {
  bool edited = false;
  for (const Damage& damage : report.damage) {
    if (damage.part != DamagePart::kData || damage.repaired || damage.transient) continue;
    if (!IsEdit(damage.cause)) return false;
    edited = true;
  }
  return edited;
}

// How edits are taken back, if they can be.
std::string UndoText(const DatasetReport& report, const char* aim, const std::string& path) {
  if (report.cannot_undo) return "it cannot be undone: more of it changed than parity can rebuild";
  const char* const tool = AnyMissing(report) ? "lzy-restore --force" : "lzy-verify --repair --force";
  return fmt::format("{}: {} {}", aim, tool, path);
}

/// What follows the name of a tool in a command.
std::string Operands(const DatasetReport& report, const std::string& repeated) {
  return repeated + ShellQuote(report.path);
}

// A removal was refused, since the sidecar may still be needed. Says what for.
std::string KeptText(const DatasetReport& report, const std::string& path) {
  const std::string anyway = fmt::format("to remove it anyway: lzy-protect --remove --force {}\n", path);
  switch (report.state) {
    case DatasetState::kUnrepairable:
      return "  not removed, although it cannot repair everything that is missing; " + anyway;
    case DatasetState::kAtRisk:
      return "  not removed: a program may be writing the file; " + anyway;
    default:
      return fmt::format("  not removed: it can repair what is missing: lzy-restore {}; {}", path, anyway);
  }
}

// For damage that can be repaired, at least in part. `again`: see ReportText.
std::string RepairText(const DatasetReport& report, Action action, const std::string& path, const std::string& again) {
  // All of it has been repaired.
  if (ExitCodeOf(report) == 0) return "";
  const std::string commit =
      !WaitsForACommit(report)
          ? ""
          : fmt::format("  to commit what was edited, and make the rest anew: lzy-protect {}; {}\n", path, UndoText(report, "to undo it", path));
  if (action == Action::kRestore || action == Action::kSalvage) {
    return commit.empty() ? "  the rest could not be repaired: a warning says why\n" : commit;
  }
  if (action == Action::kRestoreDryRun || action == Action::kSpreadDryRun) {
    return fmt::format("  restore with: lzy-restore {}{}\n", again, path);
  }
  // Damaged files can be repaired in place; missing ones must be made.
  return fmt::format("  {}: {} {}\n", AnyMissing(report) ? "restore with" : "repair with",
                     AnyMissing(report) ? "lzy-restore" : "lzy-verify --repair", path) +
         commit +
         (action == Action::kProtect && commit.empty() && !DataMissing(report)
              ? fmt::format("  to accept it as it is: lzy-protect --force {}\n", path)
              : "");
}

// For data that are lost.
std::string LossText(const DatasetReport& report, Action action, const std::string& path) {
  const std::string deleted =
      report.gone ? fmt::format("  if you deleted it: lzy-protect --remove --force {}\n", path) : "";
  if (action != Action::kSalvage) return fmt::format("  to write what can be recovered: lzy-restore --salvage {}\n", path) + deleted;
  if (report.gone) return "  nothing of it can be recovered, so it was not made; a copy must come from elsewhere\n" + deleted;
  return fmt::format(
      "  what could be recovered is written; add the rest from elsewhere, then commit it: lzy-protect {0} (if it is not what was "
      "committed: lzy-protect --force {0})\n",
      path);
}

/// The command to type next, by what was found and what was asked for. The path is the one of the report, quoted for
/// a shell.
std::string NextText(const DatasetReport& report, Action action, const std::string& repeated, const std::string& again) {
  const std::string path = Operands(report, repeated);
  // A dry run has said what would be done. The next command is the same one without --dry-run.
  if (report.planned) return "";
  if (action == Action::kRemove || action == Action::kRemoveDryRun) return KeptText(report, path);
  // lzy-info has read no data, so it cannot advise to repair.
  const bool fine = report.state == DatasetState::kIntact || report.state == DatasetState::kUnprotected;
  if (action == Action::kInfo && !fine) {
    return fmt::format("  this is from metadata and times alone; to check the data: lzy-verify {}\n", path);
  }
  // One case for each state. If there is a choice, all commands are named, because only the user can decide.
  switch (report.state) {
    case DatasetState::kIntact:
    case DatasetState::kRestored:
      return "";
    case DatasetState::kDamaged:
      return RepairText(report, action, path, again);
    case DatasetState::kUnrepairable:
      return LossText(report, action, path);
    // An edit or damage: nobody but the user can know. So both commands are named.
    case DatasetState::kStale:
      return fmt::format("  to commit the change: lzy-protect {}; {}\n", path, UndoText(report, "to undo it", path));
    case DatasetState::kAtRisk:
      return fmt::format("  to commit it as it is: lzy-protect {}; {}\n", path, UndoText(report, "to reset it to the last commit", path));
    case DatasetState::kUnprotected:
      if (report.unjudged && !report.unchecked.empty()) {
        return fmt::format("  it may well be right; to commit it as it is: lzy-protect {}\n", path);
      }
      return fmt::format("  protect it with: lzy-protect {}\n", path);
  }
  return "";
}

/// A copy whose names a terminal shows as they are. File names may have control characters in them. Commands to be
/// typed need the names themselves: see ShellQuote().
DatasetReport PrintableReport(DatasetReport report) {
  report.path = Printable(report.path);
  for (Damage& damage : report.damage) {
    damage.path = Printable(damage.path);
    for (std::string& object : damage.objects) object = Printable(object);
  }
  const auto make_printable = [](std::vector<GroupMap::Device>& devices) {
    for (GroupMap::Device& device : devices) {
      device.path = Printable(device.path);
      device.domain = Printable(device.domain);
    }
  };
  for (GroupMap& group : report.map) make_printable(group.devices);
  make_printable(report.placed);
  return report;
}

/// "shared file, 12 MiB, 1.2 GiB/s"
std::string WorkText(const DatasetReport& report) {
  std::string out = fmt::format("{}, {}", KindText(report), FormatSize(report.bytes));
  // Seconds; a rate of less work says nothing.
  constexpr double kWorthARate = 0.1;
  if (report.phases.total >= kWorthARate && report.bytes_read > 0) {
    const double rate = static_cast<double>(report.bytes_read) / report.phases.total;
    out += fmt::format(", {}/s", FormatSize(static_cast<std::uint64_t>(rate)));
  }
  return out;
}

// Which devices are coded together, for --map.
std::string MapText(const DatasetReport& report) {
  std::string out;
  for (std::size_t g = 0; g < report.map.size(); ++g) {
    out += fmt::format("  group {}:\n", g);
    for (const GroupMap::Device& device : report.map[g].devices) {
      out += fmt::format("    device {}", device.device);
      if (!device.path.empty()) out += "  " + device.path;
      if (!device.domain.empty()) out += fmt::format("  (on {})", device.domain);
      out += "\n";
    }
  }
  return out;
}

// What lzy-info prints for a dataset.
std::string InfoText(const DatasetReport& report) {
  if (report.devices == 0) return "";
  std::string out = fmt::format("  kind:      {}\n  size:      {}\n", KindText(report), SizeText(report.bytes));
  out += fmt::format("  geometry:  {}\n  sidecars:  {}", GeometryText(report), SizeText(report.sidecar_bytes));
  // A percentage makes sense only if it is less than 100.
  if (report.sidecar_bytes <= report.bytes && report.bytes > 0) {
    out += fmt::format(", {:.1f} %",
                       100.0 * static_cast<double>(report.sidecar_bytes) / static_cast<double>(report.bytes));
  } else if (report.bytes > 0) {
    out += ", more than the data: sidecars have a least size";
  }
  out += fmt::format("\n  root:      {}\n", report.root.Hex());
  if (!report.key.empty()) out += fmt::format("  key:       {}\n", report.key);
  if (report.generation == 0) return out + "  commit:    none yet\n" + MapText(report);
  const std::int64_t now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  out += fmt::format("  commit:    {}, {} ago, generation {}\n", TimeText(report.commit_time_ns),
                     AgeText(now - report.commit_time_ns), report.generation);
  return out + MapText(report);
}

}  // namespace

// The same state is worded by what was asked for: lzy-protect says "protected" where lzy-verify says "intact".
std::string StateText(const DatasetReport& report, Action action) {
  if (action == Action::kRemove && report.planned) return "protection is removed";
  if (action == Action::kRemoveDryRun && report.planned) return "protection would be removed";
  if (action == Action::kProtectDryRun && report.planned) {
    return report.state == DatasetState::kUnprotected ? "would be protected" : "would be committed anew, since it was changed";
  }
  switch (report.state) {
    case DatasetState::kIntact:
      if (action == Action::kProtect && report.parity == 0 && report.devices > 0) {
        return report.committed ? "hashes only, nothing can be repaired" : "hashes only, up to date; nothing can be repaired";
      }
      if (action == Action::kProtectDryRun) return "protected already; not read";
      if (action == Action::kProtect) return report.committed ? "protected" : "protected already, up to date";
      return "intact";
    case DatasetState::kDamaged:
      if (action == Action::kInfo) return "damaged";
      if (ExitCodeOf(report) == 0) return "was damaged, repaired";
      return action == Action::kProtect ? "damaged: the damage was not committed" : "damaged, repairable";
    case DatasetState::kUnrepairable:
      return "damaged beyond repair";
    case DatasetState::kStale:
      return "stale: changed since its last commit";
    case DatasetState::kAtRisk:
      return "at risk: was being written, and not committed since";
    case DatasetState::kUnprotected:
      if (!report.unjudged) return "not protected";
      return report.unchecked.empty() ? "data intact, but hashes of its parity are lost"
                                      : "cannot be checked: hashes are lost in all copies of its sidecar";
    case DatasetState::kRestored:
      return "restored";
  }
  return "unknown";
}

std::string PhasesText(const Phases& phases) {
  const std::pair<const char*, double> all[] = {{"reading", phases.read},         {"hashing", phases.hash},
                                                {"encoding", phases.encode},      {"exchanging", phases.exchange},
                                                {"writing", phases.write},        {"syncing", phases.sync}};
  std::string text = fmt::format("{:.3f} s", phases.total);
  const char* separator = ": ";
  for (const auto& [name, seconds] : all) {
    if (seconds < 0.0005) continue;  // less than is shown
    text += fmt::format("{}{} {:.3f} s", separator, name, seconds);
    separator = ", ";
  }
  return text;
}

// Two of a unit at least: "90 minutes" says more than "1 hour".
std::string AgeText(std::int64_t ns) {
  constexpr std::uint64_t kMinute = 60, kHour = 3600, kDay = 86400;
  const auto seconds = static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 0) / 1'000'000'000);
  if (seconds < 2 * kMinute) return Plural(seconds, "second", "seconds");
  if (seconds < 2 * kHour) return Plural(seconds / kMinute, "minute", "minutes");
  if (seconds < 2 * kDay) return Plural(seconds / kHour, "hour", "hours");
  return Plural(seconds / kDay, "day", "days");
}

// From the most specific advice to the most general.
std::string FailureAdvice(const DatasetReport& report, const std::string& ruined_sidecar, const std::string& repeated,
                          bool protected_but_missing) {
  const std::string path = Operands(report, repeated);
  // The sidecar is whole, but of a newer version of the format.
  if (report.status.code() == Code::kNewerFormat) {
    if (ruined_sidecar.empty()) return "  use the lzy that wrote it\n";
    return fmt::format("  use the lzy that wrote it; or give up its sidecar: rm {}; lzy-protect {}\n",
                       ShellQuote(ruined_sidecar), path);
  }
  if (report.status.code() == Code::kNotFound && protected_but_missing) {
    return fmt::format("  it is missing, and has a sidecar: lzy-verify {}\n", path);
  }
  if (report.status.code() != Code::kUnprotected && report.status.code() != Code::kCorrupt) return "";
  const bool shared = report.kind == DatasetKind::kShared;
  // The name of a sidecar is longer than that of its file, and file systems have limits.
  if (shared && !SidecarPath(report.path).ok()) return "  a shorter name can be protected: rename it\n";
  // The dataset is sealed, and this content is not what was sealed. lzy cannot tell whether it is right.
  if (report.unsealed) return fmt::format("  if its content is right, seal it with: lzy-protect --force {}\n", path);
  if (report.gone && !ruined_sidecar.empty()) {
    return fmt::format("  the file is gone and its sidecar is destroyed; if it is a member of a set, give the set's pattern, so that the "
                       "others repair it; if not, nothing of it can be restored: rm {}\n", ShellQuote(ruined_sidecar));
  }
  if (ruined_sidecar.empty() && shared && repeated.find("--device-dirs") == std::string::npos) {
    return fmt::format("  if its sidecar was lost, and its parity is in device directories, name them: --device-dirs; if it never had one, "
                       "protect it with: lzy-protect {}\n", path);
  }
  if (ruined_sidecar.empty()) return fmt::format("  protect it with: lzy-protect {}\n", path);
  if (!shared) return fmt::format("  its sidecars are destroyed; protect it as it is now with: lzy-protect {}\n", path);
  return fmt::format(
      "  its sidecar is destroyed; if it is a member of a set, give the set's pattern, so that the others repair it; if not, "
      "protect it as it is now: lzy-protect {}\n",
      path);
}

std::string ReportText(const DatasetReport& given, Action action, const std::string& repeated, const std::string& again) {
  // Texts are made of the printable copy, commands of the original.
  const DatasetReport report = PrintableReport(given);
  // If more was asked for than parity can do, the state is known and there is something to advise.
  const bool failed = !report.status.ok() && report.status.code() != Code::kBeyondRepair;
  std::string out;
  if (!failed || report.devices > 0) {
    out += fmt::format("{}: {}", report.path, failed ? "failed" : StateText(report, action));
    if (report.devices > 0 && action != Action::kInfo) out += fmt::format(" ({})", WorkText(report));
    out += "\n";
  }
  if (action == Action::kInfo) out += InfoText(report);
  for (const std::string& path : report.removed) {
    out += fmt::format("  {} {}\n", action == Action::kRemove ? "removed:" : "would be removed:", Printable(path));
  }
  // Damage, at most kMostDamageLines.
  const std::vector<DamageRun> runs = ByDevice(DamageRuns(report.damage));
  for (std::size_t i = 0; i < runs.size() && i < kMostDamageLines; ++i) out += DamageText(runs[i], action, report.unjudged);
  if (runs.size() > kMostDamageLines) {
    out += fmt::format("  and {} more; --json lists all of them\n", runs.size() - kMostDamageLines);
  }
  // What could not be judged at all.
  for (const DatasetReport::Unchecked& range : report.unchecked) {
    out += fmt::format("  {}: data, offset {}, length {}: cannot be checked, its hashes are lost\n", Printable(range.path), range.offset,
                       range.length);
  }
  if (ExitCodeOf(report) == 2) out += LostText(report);
  // Where members are now, or would be, after a restore to other nodes.
  const bool dry = action == Action::kRestoreDryRun || action == Action::kSpreadDryRun;
  if (report.state == DatasetState::kRestored || (dry && ExitCodeOf(report) == 1)) {
    for (const GroupMap::Device& member : report.placed) {
      out += fmt::format("  {}: {} {}\n", member.path, report.state == DatasetState::kRestored ? "is on" : "would be on", member.domain);
    }
  }
  // For a failure, FailureAdvice says what to do next.
  if (failed && report.state != DatasetState::kUnrepairable) return out;
  return out + NextText(given, action, repeated, again);
}

}  // namespace lzy
