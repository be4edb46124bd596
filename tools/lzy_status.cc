// lzy-status: shows the contents of the catalogue on one screen, and at its end the command to type next, like `zpool
// status`. Reads no data. Rank 0 does the work; with --rescan, all ranks first examine the sidecars below the PATHs.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/printable.h"
#include "catalog/summary.h"
#include "common/losses.h"
#include "common/paths.h"
#include "common/tool.h"
#include "engine/block_map.h"
#include "html/report_page.h"
#include "names/lookup.h"
#include "request/object_json.h"
#include "sidecar/names.h"

namespace {

using lzy::CatalogDataset;
using lzy::CatalogEvent;
using lzy::Code;
using lzy::Json;
using lzy::Printable;
using lzy::Result;
using lzy::Status;

constexpr std::int64_t kDay = 86'400'000'000'000;
/// Damage of this period counts as new.
constexpr std::int64_t kLately = 30 * kDay;
// The most entries of lists on the screen; --json has all.
constexpr std::size_t kMostDatasets = 20, kMostDamage = 5, kMostEvents = 1000, kMostObjects = 3;
// The most entries of the HTML page: events, datasets whose sidecars are opened for a map, and names of objects of one
// damage.
constexpr std::size_t kMostPageEvents = 20'000, kMostMaps = 1000, kMostPageObjects = 6;

struct Wish {
  bool events = false;
  bool rescan = false;
  bool forget = false;
  std::vector<std::string> prometheus;
  std::vector<std::string> html;
};

/// All that is shown.
struct Shown {
  std::string catalog;
  lzy::CatalogSummaryInput input;
  lzy::CatalogSummary summary;
  std::map<std::int64_t, std::vector<CatalogEvent>> damage;  ///< that lasts, by dataset
  std::map<std::int64_t, CatalogEvent> losses;               ///< the same for losses of protection
  lzy::Options options;
  std::vector<CatalogEvent> events;   ///< with --events
  std::vector<CatalogEvent> history;  ///< with --html: more of them
  bool history_is_cut = false;
};

// ------------------------------------------------------------------------------------------------------------ reading

struct Asked {
  std::string path, real;  // as typed; as the catalogue knows it
};

template <class T>
void Append(std::vector<T> from, std::vector<T>& to) {
  std::ranges::move(from, std::back_inserter(to));
}

// The PATHs in the form of the catalogue, without those that lie below others, so that nothing counts twice. A PATH may be
// a file, a pattern or a directory. No PATH means everything: "".
std::vector<Asked> Outermost(const std::vector<std::string>& paths) {
  if (paths.empty()) return {{"", ""}};
  std::vector<Asked> all;
  std::set<std::string> reals;
  for (const std::string& path : paths) {
    Asked one{path, lzy::CatalogPath(path, path.find('%') != std::string::npos)};
    if (reals.insert(one.real).second) all.push_back(std::move(one));
  }
  std::erase_if(all, [&](const Asked& one) {
    std::string at = one.real, above;
    for (; (above = lzy::DirectoryOf(at)) != at; at = above) {
      if (reals.contains(above)) return true;
    }
    return false;
  });
  return all;
}

// One entry for each place, the one with most new damage first.
void Merge(std::vector<lzy::CatalogPlace>& places) {
  std::map<std::string, lzy::CatalogPlace> by_name;
  for (const lzy::CatalogPlace& one : places) {
    lzy::CatalogPlace& sum = by_name[one.place];
    sum.place = one.place;
    sum.lately += one.lately;
    sum.ever += one.ever;
    sum.open += one.open;
  }
  places.clear();
  for (auto& [name, place] : by_name) places.push_back(std::move(place));
  std::ranges::stable_sort(places, [](const auto& a, const auto& b) { return std::pair(a.lately, a.ever) > std::pair(b.lately, b.ever); });
}

// Reads the entries of one PATH from the catalogue.
Status ReadOne(lzy::Catalog& catalog, const Asked& asked, const Wish& wish, Shown& out) {
  const std::string& path = asked.path;
  std::string real = asked.real;
  LZY_ASSIGN_OR_RETURN(auto datasets, catalog.Datasets(real));
  // A link to a directory. A link in the place of a file is known by its own path.
  if (std::error_code failed; datasets.empty() && std::filesystem::is_directory(real, failed)) {
    if (const auto target = std::filesystem::canonical(real, failed); !failed) real = target.string();
    LZY_ASSIGN_OR_RETURN(datasets, catalog.Datasets(real));
  }
  if (datasets.empty() && !path.empty()) {
    const std::string next = wish.rescan ? "" : fmt::format("; to look for some: lzy-status --rescan {}", lzy::ShellQuote(path));
    return {Code::kInvalidArgument, fmt::format("{}: the catalogue knows no dataset there{}", path, next)};
  }
  Append(std::move(datasets), out.input.datasets);
  LZY_ASSIGN_OR_RETURN(auto places, catalog.Places(real, out.input.now - kLately));
  Append(std::move(places), out.input.places);
  LZY_ASSIGN_OR_RETURN(auto open, catalog.OpenDamage(real));
  for (CatalogEvent& event : open) out.damage[event.dataset].push_back(std::move(event));
  LZY_ASSIGN_OR_RETURN(auto losses, catalog.OpenLosses(real));
  for (CatalogEvent& event : losses) out.losses[event.dataset] = std::move(event);
  if (wish.events) {
    LZY_ASSIGN_OR_RETURN(auto events, catalog.Events(real, kMostEvents));
    Append(std::move(events), out.events);
  }
  if (!wish.html.empty()) {
    LZY_ASSIGN_OR_RETURN(auto history, catalog.Events(real, kMostPageEvents));
    out.history_is_cut = out.history_is_cut || history.size() == kMostPageEvents;
    Append(std::move(history), out.history);
  }
  return Status::Ok();
}

Result<Shown> Read(const lzy::ToolRun& run, const Wish& wish) {
  const std::string& given = run.options().catalog;
  const std::string path = given.empty() ? lzy::Catalog::DefaultPath() : given;
  if (path.empty() || path == "off") return Status(Code::kInvalidArgument, "there is no catalogue: name one with --catalog FILE");
  auto catalog = lzy::Catalog::Open(path, lzy::DatabaseMode::kRead);
  if (!catalog.ok()) {
    if (catalog.status().code() != Code::kNotFound) return catalog.status();
    return Status(Code::kInvalidArgument, fmt::format("{}; to make one: lzy-status --rescan PATH, or lzy-scrub PATH", catalog.status().message()));
  }
  Shown out;
  out.catalog = path;
  out.options = run.options();
  out.input.now = lzy::WallClockNs();
  const std::vector<Asked> asked = Outermost(run.arguments().paths);
  for (const Asked& one : asked) LZY_RETURN_IF_ERROR(ReadOne(*catalog, one, wish, out));
  if (asked.size() > 1) {
    Merge(out.input.places);
    for (auto* events : {&out.events, &out.history}) std::ranges::sort(*events, std::greater(), &CatalogEvent::id);
  }
  LZY_ASSIGN_OR_RETURN(out.input.last_scrub, catalog->LastRun("lzy-scrub"));
  return out;
}

// -------------------------------------------------------------------------------------------------------------- words

/// Sets `to` to the enumerator, up to `last`, with this name. Does nothing for other texts.
template <class Enum>
void SetByName(const std::string& name, Enum last, Enum& to) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name == lzy::Name(static_cast<Enum>(i))) to = static_cast<Enum>(i);
  }
}

/// The dataset as a report, for the words and the advice that other tools have.
lzy::DatasetReport ReportOf(const CatalogDataset& dataset, const std::vector<CatalogEvent>& damage) {
  lzy::DatasetReport report(dataset.path, dataset.kind == "set" ? lzy::DatasetKind::kSet : lzy::DatasetKind::kShared);
  SetByName(dataset.state, lzy::DatasetState::kRestored, report.state);
  report.devices = dataset.devices;
  report.parity = dataset.parity;
  report.generation = dataset.generation;
  report.bytes = dataset.bytes;
  for (const CatalogEvent& event : damage) {
    lzy::Damage& entry = report.damage.emplace_back();
    entry.path = event.path;
    entry.device = event.device;
    entry.offset = event.offset;
    entry.length = event.length;
    entry.beyond_repair = event.beyond_repair;
    SetByName(event.part, lzy::DamagePart::kMetadata, entry.part);
    SetByName(event.cause, lzy::DamageCause::kEncoding, entry.cause);
  }
  return report;
}

const std::vector<CatalogEvent>& DamageOf(const Shown& shown, const CatalogDataset& dataset) {
  static const std::vector<CatalogEvent> none;
  const auto at = shown.damage.find(dataset.id);
  return at == shown.damage.end() ? none : at->second;
}

// The loss of protection of a dataset; null: none.
const CatalogEvent* LossOf(const Shown& shown, const CatalogDataset& dataset) {
  const auto at = shown.losses.find(dataset.id);
  return at == shown.losses.end() ? nullptr : &at->second;
}

std::string StateTextOf(const Shown& shown, const CatalogDataset& dataset) {
  const CatalogEvent* const loss = LossOf(shown, dataset);
  if (loss != nullptr) return lzy::LossText(loss->what);
  if (dataset.state == "unreadable") return "could not be read";
  lzy::DatasetReport report = ReportOf(dataset, {});
  if (dataset.only_a_commit_helps) report.damage.push_back({.path = dataset.path, .cause = lzy::DamageCause::kStale});
  return lzy::StateText(report, lzy::Action::kVerify);
}

// The nodes that the next command for a set needs, if this node does not see all of it. Uses the sidecars that are visible
// here.
std::vector<std::string> NodesOf(const CatalogDataset& dataset, const lzy::Options& options) {
  if (dataset.kind != "set") return {};
  const auto self = lzy::SelfCommunicator();
  const auto fs = lzy::GuardedFileSystem(lzy::NamedBy(dataset.path));
  const auto found = lzy::ResolvePath(*fs, *self, dataset.path, lzy::Resolve::kProtected);
  if (!found.ok() || found->size() != 1) return {};
  return lzy::Info({*fs, *self, options}, found->front()).needed_nodes;
}

// The file was renamed, or deleted, or its sidecar was removed, since a tool looked. Then the commands of that time are of no use.
bool IsOutdated(const CatalogDataset& dataset) {
  if (dataset.kind != "shared" || dataset.state == "intact") return false;
  const auto fs = lzy::GuardedFileSystem(lzy::NamedBy(dataset.path));
  if (lzy::FindSidecar(*fs, dataset.path).status().code() != Code::kNotFound) return false;
  const auto beside = lzy::SidecarPath(dataset.path);  // of a file that a link replaced
  if (beside.ok() && fs->Stat(*beside, /*follow=*/false).ok()) return false;
  const auto stat = fs->Stat(dataset.path, /*follow=*/false);
  if (!stat.ok() && stat.status().code() != Code::kNotFound) return false;
  return !stat.ok() || stat->type != lzy::FileStat::Type::kRegular || dataset.state != "unprotected";
}

// The commands that a tool noted for a dataset, if they can still be typed.
std::string NotedNextOf(const CatalogDataset& dataset, const lzy::Options& options) {
  const auto fs = lzy::GuardedFileSystem(lzy::NamedBy(dataset.path));
  if (!lzy::HasOutdatedMove(*fs, dataset.next)) return dataset.next;
  return fmt::format("  files were moved or restored since; to look again: lzy-verify {}{}\n", lzy::CatalogOption(options), lzy::ShellQuote(dataset.path));
}

// The commands to type next for one dataset, as lzy-verify prints them. A sidecar that is lost has its own.
std::string NextOf(const Shown& shown, const CatalogDataset& dataset) {
  if (const CatalogEvent* const loss = LossOf(shown, dataset)) return lzy::LossNextText(loss->what, dataset.path, shown.options);
  if (IsOutdated(dataset)) {
    const std::string directory = lzy::DirectoryOf(dataset.path);
    std::error_code failed;
    if (!std::filesystem::is_directory(directory, failed)) return "  its directory is not there any more; is the file system mounted?\n";
    return fmt::format("  it has no sidecar any more; to look for what became of it: lzy-status {}--rescan {}\n", lzy::CatalogOption(shown.options),
                       lzy::ShellQuote(directory));
  }
  if (!dataset.next.empty()) return NotedNextOf(dataset, shown.options);
  // Only a part of it was looked at, or by a version that noted no commands.
  lzy::DatasetReport report = ReportOf(dataset, DamageOf(shown, dataset));
  if (dataset.waits) report.damage.push_back({.path = dataset.path, .cause = lzy::DamageCause::kStale});
  report.needed_nodes = NodesOf(dataset, shown.options);
  if (report.state == lzy::DatasetState::kUnprotected) return fmt::format("  to look at it: lzy-verify {}\n", lzy::ShellQuote(dataset.path));
  return lzy::NextText(report, lzy::Action::kVerify, "", "");
}

std::string DamageLine(const CatalogEvent& event) {
  lzy::Damage damage = ReportOf({}, {event}).damage[0];
  const std::string objects = lzy::ObjectsText(event.objects, event.objects_left_off, kMostObjects);
  return fmt::format("{}: {}, offset {}, length {}, at {}: {}{}{}", Printable(event.path), event.part, event.offset, event.length,
                     Printable(event.place), lzy::CauseText(damage), objects.empty() ? "" : ", in ", objects);
}

std::string NotIntactText(const Shown& shown) {
  std::string out;
  const auto& all = shown.summary.not_intact;
  for (std::size_t i = 0; i < all.size() && i < kMostDatasets; ++i) {
    const CatalogDataset& dataset = *all[i];
    const CatalogEvent* const loss = LossOf(shown, dataset);
    out += fmt::format("{}: {}, {} {}\n", Printable(dataset.path), StateTextOf(shown, dataset), loss != nullptr ? "noticed" : "as of",
                       lzy::AgoText(shown.input.now - (loss != nullptr ? loss->time : dataset.last_seen)));
    const std::vector<CatalogEvent>& damage = DamageOf(shown, dataset);
    for (std::size_t d = 0; d < damage.size() && d < kMostDamage; ++d) out += "  " + DamageLine(damage[d]) + "\n";
    if (damage.size() > kMostDamage) out += fmt::format("  and {} more; --json lists all of them\n", damage.size() - kMostDamage);
    out += NextOf(shown, dataset);
  }
  if (all.size() > kMostDatasets) out += fmt::format("and {} more datasets; --json lists all of them\n", all.size() - kMostDatasets);
  return out;
}

// Datasets that are intact, but whose last check gave advice, for example to record new times.
std::string IntactText(const Shown& shown) {
  std::string out;
  std::size_t count = 0;
  for (const CatalogDataset& dataset : shown.input.datasets) {
    if (dataset.state != "intact" || dataset.next.empty()) continue;
    if (++count > kMostDatasets) continue;
    out += fmt::format("{}: intact, as of {}\n{}", Printable(dataset.path), lzy::AgoText(shown.input.now - dataset.last_seen),
                       NotedNextOf(dataset, shown.options));
  }
  if (count > kMostDatasets) {
    out += fmt::format("and {} more datasets that are intact and have a command to type; lzy-verify prints it\n", count - kMostDatasets);
  }
  return out;
}

std::string HeadText(const Shown& shown) {
  const lzy::CatalogSummary& summary = shown.summary;
  std::string out = fmt::format("catalogue: {}\n", Printable(shown.catalog));
  out += fmt::format("datasets:  {}, {} of data, {} of sidecars\n", summary.datasets, lzy::FormatSize(summary.bytes),
                     lzy::FormatSize(summary.sidecar_bytes));
  std::string states;
  for (const auto& [state, count] : summary.states) {
    if (count > 0) states += fmt::format("{}{} {}", states.empty() ? "" : ", ", count, state);
  }
  out += fmt::format("state:     {}\n", states.empty() ? "nothing is known yet" : states);
  if (summary.oldest != nullptr) {
    const bool never = lzy::VerifiedBefore(*summary.oldest, summary.now) == 0;
    std::string not_verified;
    if (const auto count = summary.never_verified - summary.verified_in_future; count > 0) not_verified += fmt::format("{} never; ", count);
    if (const auto count = summary.verified_in_future; count > 0) not_verified += fmt::format("{} in the future, which counts as never; ", count);
    out += fmt::format("verified:  {}oldest: {}, {} {} ago\n", not_verified, Printable(summary.oldest->path),
                       never ? "known since" : "verified", lzy::AgeText(summary.oldest_ns));
  }
  if (summary.last_scrub) {
    const CatalogEvent& scrub = *summary.last_scrub;
    const double rate = scrub.seconds > 0 ? static_cast<double>(scrub.length) / scrub.seconds : 0;
    out += fmt::format("scrub:     last {}, {} at {}/s\n", lzy::AgoText(summary.now - scrub.time), lzy::FormatSize(scrub.length),
                       lzy::FormatSize(static_cast<std::uint64_t>(rate)));
  }
  return out;
}

// The event, without its time and tool.
std::string WhatText(const CatalogEvent& event) {
  std::string what = event.what;
  if (event.what == "run") {
    what = fmt::format("read {} in {:.1f} s", lzy::FormatSize(event.length), event.seconds);
  } else if (event.what == "damage" || event.what == "transient") {
    what += ": " + DamageLine(event);
    if (event.ended != 0) what += fmt::format("; {}", event.outcome);
    if (event.ended > event.time) what += fmt::format(" {} later", lzy::AgeText(event.ended - event.time));
  } else {
    what = fmt::format("{}: {}{}", Printable(event.dataset_path), event.what, event.path.empty() ? "" : " from " + Printable(event.path));
    if (!event.outcome.empty()) what += "; " + Printable(event.outcome);
  }
  return what;
}

// One line for each event, oldest first.
std::string EventText(const CatalogEvent& event) {
  return fmt::format("{}  {:<12} {}\n", lzy::TimeText(event.time), event.tool, WhatText(event));
}

// --------------------------------------------------------------------------------------------------------------- JSON

Json ToJson(const CatalogEvent& event) {
  Json objects = Json::array();
  for (const lzy::DamagedObject& object : event.objects) objects.push_back(lzy::ToJson(object));
  Json out = {{"time", static_cast<double>(event.time) / 1e9},
              {"dataset", event.dataset_path},
              {"tool", event.tool},
              {"what", event.what},
              {"path", event.path},
              {"part", event.part},
              {"place", event.place},
              {"cause", event.cause},
              {"device", event.device},
              {"offset", event.offset},
              {"length", event.length},
              {"beyond_repair", event.beyond_repair},
              {"objects", std::move(objects)},
              {"ended", static_cast<double>(event.ended) / 1e9},
              {"outcome", event.outcome},
              {"seconds", event.seconds}};
  if (event.objects_left_off > 0) out["objects_left_off"] = event.objects_left_off;
  return out;
}

Json ToJson(const Shown& shown, const CatalogDataset& dataset) {
  Json damage = Json::array();
  for (const CatalogEvent& event : DamageOf(shown, dataset)) damage.push_back(ToJson(event));
  return {{"path", dataset.path},
          {"kind", dataset.kind},
          {"state", dataset.state},
          {"bytes", dataset.bytes},
          {"root", dataset.root},
          {"last_seen", static_cast<double>(dataset.last_seen) / 1e9},
          {"last_commit", static_cast<double>(dataset.last_commit) / 1e9},
          {"last_verified", static_cast<double>(dataset.last_verified) / 1e9},
          {"damage", std::move(damage)},
          {"next", NextOf(shown, dataset)}};
}

Json DocumentOf(const Shown& shown, const Wish& wish) {
  const lzy::CatalogSummary& summary = shown.summary;
  Json document = {{"schema", "lzy-status/1"},
                   {"tool", "lzy-status"},
                   {"catalog", shown.catalog},
                   {"datasets", summary.datasets},
                   {"states", summary.states},
                   {"bytes", summary.bytes},
                   {"sidecar_bytes", summary.sidecar_bytes},
                   {"never_verified", summary.never_verified},
                   {"verified_in_future", summary.verified_in_future},
                   {"damage_found", summary.damage_found},
                   {"damage_open", summary.damage_open},
                   {"not_intact", Json::array()},
                   {"places", Json::array()}};
  if (summary.oldest != nullptr) {
    document["oldest"] = {{"path", summary.oldest->path},
                          {"last_verified", static_cast<double>(summary.oldest->last_verified) / 1e9},
                          {"age", static_cast<double>(summary.oldest_ns) / 1e9}};
  }
  if (summary.last_scrub) document["last_scrub"] = ToJson(*summary.last_scrub);
  for (const CatalogDataset* dataset : summary.not_intact) document["not_intact"].push_back(ToJson(shown, *dataset));
  for (const lzy::CatalogPlace& place : summary.places) {
    document["places"].push_back({{"place", place.place}, {"lately", place.lately}, {"ever", place.ever}, {"open", place.open}});
  }
  if (wish.events) {
    document["events"] = Json::array();
    for (const CatalogEvent& event : shown.events) document["events"].push_back(ToJson(event));
  }
  return document;
}

// --------------------------------------------------------------------------------------------------------------- HTML

Json ToJson(const lzy::BlockMap& map) {
  Json out = {{"parity", map.parity},       {"block_size", map.block_size}, {"unit", map.unit},          {"generation", map.generation},
              {"groups", Json::array()}, {"cells", Json::array()},       {"elsewhere", map.elsewhere}};
  for (const lzy::BlockMap::Group& group : map.groups) {
    Json devices = Json::array();
    for (const auto& device : group.map.devices) devices.push_back({{"device", device.device}, {"path", device.path}, {"domain", device.domain}});
    out["groups"].push_back({{"group", group.number}, {"rows", group.rows}, {"devices", std::move(devices)}});
  }
  for (const lzy::BlockMap::Cells& cells : map.cells) {
    out["cells"].push_back({{"damage", cells.damage}, {"group", cells.group},    {"position", cells.position},
                            {"part", lzy::Name(cells.of_parity ? lzy::DamagePart::kParity : lzy::DamagePart::kData)},
                            {"first", cells.first},   {"last", cells.last}});
  }
  return out;
}

// Made from the sidecars. Each dataset is opened alone, as if its path had been named.
Result<lzy::BlockMap> MapOf(const lzy::ToolRun& run, const CatalogDataset& dataset, const std::vector<CatalogEvent>& damage) {
  const auto self = lzy::SelfCommunicator();
  const auto fs = lzy::GuardedFileSystem(lzy::NamedBy(dataset.path));
  lzy::DatasetRef ref{lzy::DatasetKind::kShared, dataset.path, {}};
  if (dataset.kind == "set") {
    LZY_ASSIGN_OR_RETURN(const auto found, lzy::ResolvePath(*fs, *self, dataset.path, lzy::Resolve::kProtected));
    if (found.size() != 1) return Status(Code::kUnprotected, "the set was not found");
    ref = found[0];
  }
  LZY_ASSIGN_OR_RETURN(lzy::BlockMap map, lzy::MapBlocks({*fs, *self, run.options()}, ref, ReportOf(dataset, damage).damage));
  // Damage of another encoding has no place in this one.
  if (map.uuid != dataset.uuid) return Status(Code::kInvalidArgument, "the dataset was protected anew since it was last looked at");
  return map;
}

// The document of --json, and besides: all datasets, all events, words, and maps.
Json PageOf(const lzy::ToolRun& run, const Shown& shown) {
  Json document = DocumentOf(shown, {});
  document["made"] = static_cast<double>(shown.input.now) / 1e9;
  document["suspect"] = lzy::SuspectText(shown.summary);
  for (std::size_t i = 0; i < shown.summary.not_intact.size(); ++i) {
    const CatalogDataset& dataset = *shown.summary.not_intact[i];
    const std::vector<CatalogEvent>& damage = DamageOf(shown, dataset);
    Json& entry = document["not_intact"][i];
    const lzy::DatasetReport report = ReportOf(dataset, damage);
    entry["state_text"] = StateTextOf(shown, dataset);
    entry["block_size"] = dataset.block_size;
    for (std::size_t d = 0; d < damage.size(); ++d) {
      Json& one = entry["damage"][d];
      one["cause_text"] = lzy::CauseText(report.damage[d]);
      one["objects_text"] = lzy::ObjectsText(damage[d].objects, damage[d].objects_left_off, kMostPageObjects);
    }
    if (damage.empty()) continue;
    if (i >= kMostMaps) {
      entry["map_missing"] = fmt::format("of the first {} damaged datasets only", kMostMaps);
    } else if (auto map = MapOf(run, dataset, damage); map.ok()) {
      entry["map"] = ToJson(*map);
    } else {
      entry["map_missing"] = map.status().message();
    }
  }
  Json table = Json::array(), history = Json::array();
  for (const CatalogDataset& dataset : shown.input.datasets) {
    if (dataset.state == "gone") continue;
    table.push_back({{"path", dataset.path},
                     {"kind", dataset.kind},
                     {"state", dataset.state},
                     {"bytes", dataset.bytes},
                     {"last_seen", static_cast<double>(dataset.last_seen) / 1e9},
                     {"last_commit", static_cast<double>(dataset.last_commit) / 1e9},
                     {"last_verified", static_cast<double>(dataset.last_verified) / 1e9},
                     {"damage", DamageOf(shown, dataset).size()}});
  }
  for (const CatalogEvent& event : shown.history) {
    history.push_back(ToJson(event));
    history.back()["text"] = WhatText(event);
    // The text has them, and all rows of a listing have the same columns.
    history.back().erase("objects");
    history.back().erase("objects_left_off");
  }
  document["table"] = lzy::AsColumns(table);
  document["history"] = lzy::AsColumns(history);
  document["events_left_out"] = shown.history_is_cut;
  return document;
}

// ---------------------------------------------------------------------------------------------------------- the tool

// On rank 0.
void Show(lzy::ToolRun& run, const Wish& wish) {
  auto read = Read(run, wish);
  if (!read.ok()) return run.Fail(read.status());
  Shown& shown = *read;
  shown.summary = lzy::SummarizeCatalog(shown.input);
  lzy::CodeOfMany codes;
  for (const CatalogDataset* dataset : shown.summary.not_intact) {
    run.Count(dataset->path, dataset->exit_code);
    codes.AddDataset(dataset->path, dataset->exit_code);
  }
  run.extra()["exit_code"] = codes.code();
  // Others may read the files at any time.
  const auto store = [&](const std::vector<std::string>& file, const std::string& text) {
    const Status stored = lzy::ReplaceFile(lzy::PosixFileSystem(), file.back(), text, 0644);
    if (!stored.ok()) run.Fail(stored);
  };
  if (!wish.prometheus.empty()) store(wish.prometheus, lzy::PrometheusText(shown.summary));
  if (!wish.html.empty()) store(wish.html, lzy::ReportPage(PageOf(run, shown)));
  if (run.arguments().json) return run.SetDocument(DocumentOf(shown, wish));
  run.Say(HeadText(shown));
  run.Say(NotIntactText(shown) + IntactText(shown));
  if (const std::string suspect = lzy::SuspectText(shown.summary); !suspect.empty()) run.Say(suspect + "\n");
  for (const CatalogEvent& event : shown.events) run.Say(EventText(event));
}

// `found` grows while PATHs are handled. Collective.
void Rescan(lzy::ToolRun& run, const std::vector<lzy::DatasetRef>& found) {
  if (run.arguments().paths.empty()) return run.Fail({Code::kInvalidArgument, "--rescan: no PATH is given: where are the datasets?"});
  run.HandleNamed();
  if (run.books() == nullptr) return;
  run.books()->Flush();
  lzy::FindLosses(run, found);
}

// Collective.
void Run(lzy::ToolRun& run, const Wish& wish, const std::vector<lzy::DatasetRef>& found) {
  if (wish.forget) return lzy::AcknowledgeLosses(run);
  if (wish.rescan) Rescan(run, found);
  if (run.comm().rank() == 0) Show(run, wish);
}

}  // namespace

int main(int argc, char** argv) {
  Wish wish;
  std::vector<lzy::DatasetRef> found;
  lzy::Tool tool;
  tool.name = "lzy-status";
  tool.summary = "Shows what the catalogue knows: states, ages of verifications, damage, and what to type next. Reads no data.";
  tool.changes = "FILE of --prometheus and --html; with --rescan and --forget, the catalogue";
  tool.table_options = {"device-dirs", "catalog"};
  tool.add_options = [&](lzy::Arguments& arguments) {
    arguments.AddFlag("--events", wish.events, "also print the history");
    arguments.AddFlag("--forget", wish.forget, "accept that what is missed at PATH is not protected any more: it is not reported again");
    arguments.AddFlag("--rescan", wish.rescan, "first look at all sidecars below PATH: fills a catalogue that was lost");
    arguments.AddValues("--html", "FILE", wish.html, "write FILE, a page for web browsers with maps of the damage; it needs no network");
    arguments.AddValues("--prometheus", "FILE", wish.prometheus, "write FILE for the textfile collector of Prometheus");
  };
  tool.action = [] { return lzy::Action::kInfo; };
  tool.tells = [] { return false; };
  tool.paths_optional = true;
  tool.schema = "lzy-status/1";
  tool.check_options = [&] {
    if (!wish.forget || !wish.rescan) return Status::Ok();
    return Status(Code::kInvalidArgument, "--forget: is not accepted together with --rescan");
  };
  tool.keeps_books = [&] { return wish.rescan || wish.forget; };
  tool.note = [](const lzy::DatasetReport&) { return lzy::CatalogNote::Read::kNothing; };
  tool.engine = [](const lzy::Context& context, const lzy::DatasetRef& dataset) { return lzy::Info(context, dataset); };
  tool.select = [&](lzy::ToolRun&, const std::string&, std::vector<lzy::DatasetRef>& datasets) {
    found.insert(found.end(), datasets.begin(), datasets.end());
    return Status::Ok();
  };
  tool.run = [&](lzy::ToolRun& run) { Run(run, wish, found); };
  return lzy::RunTool(tool, argc, argv);
}
