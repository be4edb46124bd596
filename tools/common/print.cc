// The words of reports. Each function makes one part of a report; ReportText at the end puts them together, NextText
// and FailureAdvice add the command to type next.

#include "common/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/printable.h"
#include "common/arguments.h"
#include "objects/ask.h"
#include "request/edits.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// Lines about damage in one report; --json has all of it.
constexpr std::size_t kMostDamageLines = 1000;
// If one device has at least this many damaged places, they become one line.
constexpr std::size_t kManyPlaces = 12;
// Objects that are named below one line.
constexpr std::size_t kMostObjectLines = 10;

}  // namespace

std::string Plural(std::uint64_t count, const char* one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string AgeText(std::int64_t ns) {
  constexpr std::uint64_t kMinute = 60, kHour = 3600, kDay = 86400;
  const auto seconds = static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 0) / 1'000'000'000);
  if (seconds < 2 * kMinute) return Plural(seconds, "second");
  if (seconds < 2 * kHour) return Plural(seconds / kMinute, "minute");
  if (seconds < 2 * kDay) return Plural(seconds / kHour, "hour");
  return Plural(seconds / kDay, "day");
}

std::string AgoText(std::int64_t ns) {
  constexpr std::int64_t kSkew = 120'000'000'000;
  return ns < -kSkew ? "in the future" : AgeText(ns) + " ago";
}

std::string ObjectsText(const std::vector<DamagedObject>& objects, std::uint64_t left_off, std::size_t most) {
  std::vector<std::string> texts;
  for (const DamagedObject& object : objects) {
    std::string text = Printable(ShortText(object));
    if (std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
  }
  const std::size_t named = std::min(most, texts.size());
  // A sum of numbers that a catalogue may have invented.
  const std::uint64_t rest = left_off + std::min<std::uint64_t>(texts.size() - named, ~left_off);
  std::string out = fmt::format("{}", fmt::join(texts.begin(), texts.begin() + static_cast<std::ptrdiff_t>(named), ", "));
  if (rest > 0) out += out.empty() ? Plural(rest, "object") : fmt::format(" and {} more", rest);
  return out;
}

std::string CauseText(const Damage& damage) {
  // Parity itself did not change: the data of its rows did.
  const bool edited = IsEdit(damage.cause);
  if (edited && damage.part == DamagePart::kParity) return "out of date, because data of its rows were written since";
  if (IsUnfinishedCommit(damage)) return "a commit of it has not ended";
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
    case DamageCause::kNotVisible:
      return "not visible from here";
    case DamageCause::kEncoding:
      return "is not what the data of its rows give";
  }
  return "unknown";
}

namespace {

std::string KindText(const DatasetReport& report) {
  if (report.kind == DatasetKind::kShared) return "shared file";
  return "set of " + Plural(report.devices, "file");
}

// Both forms: people compare sizes with what ls prints.
std::string SizeText(std::uint64_t bytes) {
  return bytes < 1024 ? FormatSize(bytes) : fmt::format("{} ({} bytes)", FormatSize(bytes), bytes);
}

// "6 devices in one group, 2 of each may be lost; block 64 KiB, unit 1 MiB".
std::string GeometryText(const DatasetReport& report) {
  return fmt::format(
      "{} in {}, {}; block {}, unit {}", Plural(report.devices, "device"),
      report.groups == 1 ? "one group" : fmt::format("{} groups of up to {}", report.groups, report.group_size),
      report.parity == 0 ? "hashes only, nothing can be repaired" : fmt::format("{} of each may be lost", report.parity),
      FormatSize(report.block_size), FormatSize(report.unit));
}

// The repair that was made, or is possible.
std::string RemedyText(const DatasetReport& report, const Damage& damage, Action action) {
  // The disk or the bus was wrong once. There is nothing to repair, so it counts as repaired.
  if (damage.transient) return "a second read was right";
  if (damage.repaired) return "repaired";
  // In a dry run of lzy-verify --repair. It makes no missing files, so it would not repair them.
  const bool would = action == Action::kRepairDryRun && damage.cause != DamageCause::kMissing;
  if (damage.beyond_repair) return "beyond repair";
  // Hashes without any copy cannot be repaired, nor parity of data that cannot be checked.
  if (report.unjudged && damage.part != DamagePart::kData) return "lzy-protect makes it again";
  if ((damage.part == DamagePart::kParity && IsEdit(damage.cause)) || WaitsForEdits(report, damage)) {
    return "the next commit makes it again";
  }
  if (damage.cause == DamageCause::kStale) return "a legitimate change, or damage: see below";
  if (IsUnfinishedCommit(damage)) return "the next commit finishes it";
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
  std::vector<DamagedObject> objects = {};  // at most kMostObjectLines
  std::uint64_t objects_left_off = 0;

  // The rest of the line would be the same.
  bool IsLike(const Damage& next) const {
    return next.path == first.path && next.part == first.part && next.cause == first.cause &&
           next.transient == first.transient && next.repaired == first.repaired &&
           next.beyond_repair == first.beyond_repair;
  }

  // Names of the objects in one more entry. Consecutive elements become one line.
  void AddObjects(const Damage& next) {
    objects_left_off += next.objects_left_off;
    for (const DamagedObject& object : next.objects) {
      DamagedObject* const last = objects.empty() ? nullptr : &objects.back();
      const bool same = last != nullptr && last->name == object.name && last->kind == object.kind && last->chunk == object.chunk;
      if (same && last->chunks <= 1 && last->elements && object.elements) {
        last->elements->second = object.elements->second;
      } else if (std::ranges::find(objects, object) == objects.end()) {
        if (objects.size() < kMostObjectLines) {
          objects.push_back(object);
        } else {
          ++objects_left_off;
        }
      }
    }
  }
};

// Puts neighbours together. Entries come in the order of the report.
std::vector<DamageRun> DamageRuns(const std::vector<Damage>& damage) {
  std::vector<DamageRun> runs;
  for (const Damage& entry : damage) {
    DamageRun* const last = runs.empty() ? nullptr : &runs.back();
    if (last != nullptr && last->IsLike(entry) && last->length > 0 && entry.offset == last->first.offset + last->length) {
      last->length += entry.length;
      last->one_device = last->one_device && entry.device == last->first.device;
    } else {
      runs.push_back({entry, entry.length});
    }
    runs.back().AddObjects(entry);
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
  // By device: number of its line in `out`.
  std::map<Key, std::size_t> line;
  std::vector<DamageRun> out;
  for (DamageRun& run : runs) {
    run.end = run.first.offset + run.length;
    // A run over several devices, or of a device with few places, stays a line of its own.
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
    // Joined with the entries of the run.
    Damage more = run.first;
    more.objects = std::move(run.objects);
    more.objects_left_off = run.objects_left_off;
    all.AddObjects(more);
  }
  return out;
}

// The place of the damage in a line.
std::string PlaceText(const DamageRun& run) {
  if (run.places == 1) return fmt::format("offset {}, length {}", run.first.offset, run.length);
  return fmt::format("{} places from offset {} to {}, together {}", run.places, run.first.offset, run.end,
                     FormatSize(run.length));
}

// One line: file, part, place, device, cause, and possible repair.
std::string DamageText(const DatasetReport& report, const DamageRun& run, Action action) {
  const Damage& damage = run.first;
  std::string line =
      fmt::format("  {}: {}, {}, {}: {}", damage.path, Name(damage.part), PlaceText(run),
                  run.one_device ? fmt::format("device {}", damage.device) : "several devices", CauseText(damage));
  // Metadata alone do not show whether a repair is possible.
  if (action != Action::kInfo) line += "; " + RemedyText(report, damage, action);
  if (run.places > 1) line += "; --json lists them";
  line += "\n";
  for (const DamagedObject& object : run.objects) line += fmt::format("    in {}\n", Printable(Text(object)));
  if (run.objects_left_off > 0) line += fmt::format("    and in {} more; --json lists them\n", Plural(run.objects_left_off, "object"));
  return line;
}

/// The bytes that are lost for good, with neighbours put together: what to look for in a backup.
std::string LostText(const DatasetReport& report) {
  std::vector<const Damage*> lost;
  for (const Damage& damage : report.damage) {
    if (damage.beyond_repair && damage.part == DamagePart::kData) lost.push_back(&damage);
  }
  // By place in the file, so that neighbours are together.
  std::ranges::stable_sort(lost, {}, [](const Damage* damage) { return std::tie(damage->path, damage->offset); });
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

/// A copy with names in printable form: file names may have control characters. Commands to be typed need the original
/// names: see ShellQuote().
DatasetReport PrintableReport(DatasetReport report) {
  report.path = Printable(report.path);
  for (Damage& damage : report.damage) {
    damage.path = Printable(damage.path);
  }
  const auto make_printable = [](std::vector<GroupMap::Device>& devices) {
    for (GroupMap::Device& device : devices) {
      device.path = Printable(device.path);
      device.domain = Printable(device.domain);
      device.server = Printable(device.server);
    }
  };
  for (GroupMap& group : report.map) make_printable(group.devices);
  if (report.stripes) report.stripes->worst_server = Printable(report.stripes->worst_server);
  make_printable(report.placed);
  make_printable(report.not_visible);
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

// The groups of devices, for --map.
std::string MapText(const DatasetReport& report) {
  std::string out;
  for (std::size_t g = 0; g < report.map.size(); ++g) {
    out += fmt::format("  group {}:\n", g);
    for (const GroupMap::Device& device : report.map[g].devices) {
      out += fmt::format("    device {}", device.device);
      if (!device.path.empty()) out += "  " + device.path;
      if (!device.domain.empty()) out += fmt::format("  (on {})", device.domain);
      if (!device.server.empty()) out += fmt::format("  server {}", device.server);
      out += "\n";
    }
  }
  return out;
}

// How the file system stripes it: "Lustre, 1 MiB on 4 servers (stripe=servers)".
std::string StripesText(const StripeNote& note) {
  std::string out = note.file_system;
  if (note.unit != StripePiece::kNoEnd) out += fmt::format(", {}", FormatSize(note.unit));
  if (note.servers > 0) out += fmt::format(" on {}", Plural(note.servers, "server"));
  if (note.by_servers) out += " (stripe=servers)";
  if (note.redundant) return out + "; it bears the loss of a server itself";
  if (note.worst_blocks > 0) out += fmt::format("; {} has up to {} of a row", note.worst_server, Plural(note.worst_blocks, "block"));
  return out;
}

// Members that may be on other nodes.
std::string NotVisibleText(const DatasetReport& report) {
  std::string out;
  for (std::size_t i = 0; i < report.not_visible.size() && i < kMostDamageLines; ++i) {
    const GroupMap::Device& member = report.not_visible[i];
    const std::string where = member.domain.empty() ? "" : fmt::format(" (written on {})", member.domain);
    out += fmt::format("  {}: device {}: not visible from here{}\n", member.path, member.device, where);
  }
  if (report.not_visible.size() > kMostDamageLines) {
    out += fmt::format("  and {} more; --json lists all of them\n", report.not_visible.size() - kMostDamageLines);
  }
  return out;
}

// How much was read, if it was not all.
std::string PortionText(const DatasetReport& report) {
  const Portion& portion = report.portion;
  if (portion.of == 0 || portion.whole()) return "";
  const auto percent = [&](std::uint64_t row) { return static_cast<double>(row) * 100 / static_cast<double>(portion.of); };
  if (portion.end == portion.of) return fmt::format("  read from {:.1f} % on, to the end\n", percent(portion.begin));
  return fmt::format("  read from {:.1f} % to {:.1f} %; the next lzy-scrub goes on there\n", percent(portion.begin), percent(portion.end));
}

// The text of lzy-info for a dataset.
std::string InfoText(const DatasetReport& report) {
  if (report.devices == 0) return "";
  std::string out = fmt::format("  kind:      {}\n  size:      {}\n", KindText(report), SizeText(report.bytes));
  out += fmt::format("  geometry:  {}\n", GeometryText(report));
  if (report.stripes) out += fmt::format("  stripes:   {}\n", StripesText(*report.stripes));
  out += fmt::format("  sidecars:  {}", SizeText(report.sidecar_bytes));
  // A percentage makes sense only if it is less than 100.
  if (report.sidecar_bytes <= report.bytes && report.bytes > 0) {
    out += fmt::format(", {:.1f} %",
                       100.0 * static_cast<double>(report.sidecar_bytes) / static_cast<double>(report.bytes));
  } else if (report.bytes > 0) {
    out += ", more than the data: a sidecar has a minimum size";
  }
  out += fmt::format("\n  root:      {}\n", report.root.Hex());
  if (!report.key.empty()) out += fmt::format("  key:       {}\n", report.key);
  if (report.generation == 0) return out + "  commit:    none yet\n" + MapText(report);
  out += fmt::format("  commit:    {}, {}, generation {}\n", TimeText(report.commit_time_ns),
                     AgoText(WallClockNs() - report.commit_time_ns), report.generation);
  return out + MapText(report);
}

}  // namespace

// The word for a state depends on the action: lzy-protect says "protected", lzy-verify "intact".
std::string StateText(const DatasetReport& report, Action action) {
  if (action == Action::kRemove && report.planned) return "protection is removed";
  if (action == Action::kRemoveDryRun && report.planned) return "protection would be removed";
  if (action == Action::kProtectDryRun && report.planned) {
    return report.state == DatasetState::kUnprotected ? "would be protected" : "would be committed again, because it was changed";
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
      if (action == Action::kProtect) return "damaged: the damage was not committed";
      return OnlyACommitHelps(report) ? "damaged: what was edited must be committed first" : "damaged, repairable";
    case DatasetState::kUnrepairable:
      return "damaged beyond repair";
    case DatasetState::kStale:
      return "stale: changed since its last commit";
    case DatasetState::kAtRisk:
      if (report.left_for_later && report.commit_under_way.empty()) return "is being written: left for later";
      if (!report.commit_under_way.empty()) {
        return fmt::format("at risk: commit under way by {}{}", report.commit_under_way,
                           report.commit_elsewhere ? ", if that process still runs" : "");
      }
      return "at risk: was being written, and not committed since";
    case DatasetState::kUnprotected:
      if (!report.not_visible.empty()) return "not all of it is visible from here";
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
  std::string parts;
  for (const auto& [name, seconds] : all) {
    // Shorter times are not shown.
    if (seconds >= 0.0005) parts += fmt::format("{}{} {:.3f} s", parts.empty() ? ": " : ", ", name, seconds);
  }
  return fmt::format("{:.3f} s{}", phases.total, parts);
}

std::string ReportText(const DatasetReport& given, Action action, const ReportWords& words) {
  // Texts are made of the printable copy, commands of the original.
  const DatasetReport report = PrintableReport(given);
  // If more was asked for than parity can do, the state is known and there is something to advise.
  const bool failed = !report.status.ok() && report.status.code() != Code::kBeyondRepair;
  std::string out;
  if (!failed || report.devices > 0) {
    out += fmt::format("{}: {}", report.path, failed ? "failed" : words.state);
    if (report.devices > 0 && action != Action::kInfo) out += fmt::format(" ({})", WorkText(report));
    out += "\n";
  }
  if (action == Action::kInfo) out += InfoText(report);
  out += PortionText(report);
  if (report.parity_compared && report.bytes_encoded > 0) {
    out += fmt::format("  parity compared: {} of data were encoded again\n", FormatSize(report.bytes_encoded));
  }
  for (const std::string& path : report.removed) {
    out += fmt::format("  {} {}\n", action == Action::kRemove ? "removed:" : "would be removed:", Printable(path));
  }
  // Damage, at most kMostDamageLines.
  std::vector<Damage> damage = report.damage;
  std::erase_if(damage, [](const Damage& one) { return one.cause == DamageCause::kNotVisible; });
  const std::vector<DamageRun> runs = ByDevice(DamageRuns(damage));
  for (std::size_t i = 0; i < runs.size() && i < kMostDamageLines; ++i) out += DamageText(report, runs[i], action);
  if (runs.size() > kMostDamageLines) {
    out += fmt::format("  and {} more; --json lists all of them\n", runs.size() - kMostDamageLines);
  }
  out += NotVisibleText(report);
  // Ranges that could not be judged at all.
  for (const DatasetReport::Unchecked& range : report.unchecked) {
    out += fmt::format("  {}: data, offset {}, length {}: cannot be checked, its hashes are lost\n", Printable(range.path), range.offset,
                       range.length);
  }
  if (ExitCodeOf(report) == 2) out += LostText(report);
  // Places of members after a restore to other nodes, or after a dry run of one.
  const bool dry = action == Action::kRestoreDryRun || action == Action::kSpreadDryRun;
  if (report.from_replica > 0) {
    out += fmt::format("  {} {} from the replica\n", FormatSize(report.from_replica), dry ? "would come" : "came");
  }
  if (report.state == DatasetState::kRestored || (dry && ExitCodeOf(report) == 1)) {
    for (const GroupMap::Device& member : report.placed) {
      out += fmt::format("  {}: {} {}\n", member.path, report.state == DatasetState::kRestored ? "is on" : "would be on", member.domain);
    }
  }
  // For a failure, FailureAdvice says what to do next.
  if (failed && report.state != DatasetState::kUnrepairable) return out;
  if (!words.instead.empty()) return out + words.instead;
  return out + words.first + NextText(given, action, words.repeated, words.again, words.places);
}

}  // namespace lzy
