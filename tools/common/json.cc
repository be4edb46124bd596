// Fields and words of the schema "lzy-report/1". If you add one, add it to docs/reference/tools.md "JSON", too.

#include "common/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "request/object_json.h"

namespace lzy {
namespace {

// Words of the schema, in the order of Code. They never change, even if the enumeration does.
constexpr const char* kCodeWords[] = {
    "ok",   "invalid-argument", "not-found", "io",             "unreadable",   "corrupt",   "newer-format", "unprotected",
    "busy", "interrupted",      "timeout",   "beyond-repair",  "write-failed", "no-memory", "mpi",          "internal"};
static_assert(std::size(kCodeWords) == static_cast<std::size_t>(Code::kInternal) + 1, "a new code needs a word");

// One range; offset and length in bytes of the file at "path".
Json ToJson(const Damage& damage) {
  Json objects = Json::array();
  for (const DamagedObject& object : damage.objects) objects.push_back(ToJson(object));
  Json out = {{"path", damage.path},           {"device", damage.device},     {"part", lzy::Name(damage.part)},
          {"offset", damage.offset},       {"length", damage.length},     {"cause", lzy::Name(damage.cause)},
          {"transient", damage.transient}, {"repaired", damage.repaired}, {"beyond_repair", damage.beyond_repair},
          {"objects", std::move(objects)}, {"domain", damage.domain}};
  if (damage.objects_left_off > 0) out["objects_left_off"] = damage.objects_left_off;
  return out;
}

// The devices of one group, for --map.
Json ToJson(const GroupMap& group) {
  Json devices = Json::array();
  for (const GroupMap::Device& device : group.devices) {
    devices.push_back({{"device", device.device}, {"path", device.path}, {"domain", device.domain}});
    if (!device.server.empty()) devices.back()["server"] = device.server;
  }
  return devices;
}

// How the file system stripes the dataset.
Json ToJson(const StripeNote& note) {
  Json out = {{"file_system", note.file_system}, {"unit", note.unit}, {"servers", note.servers}, {"redundant", note.redundant},
              {"by_servers", note.by_servers}};
  if (note.unit == StripePiece::kNoEnd) out["unit"] = nullptr;  // each file is in one place
  if (note.worst_blocks > 0) out["worst_server"] = {{"server", note.worst_server}, {"blocks_of_a_row", note.worst_blocks}};
  return out;
}

// Seconds by phase.
Json ToJson(const Phases& phases) {
  return {{"read", phases.read},   {"hash", phases.hash}, {"encode", phases.encode}, {"exchange", phases.exchange},
          {"write", phases.write}, {"sync", phases.sync}, {"total", phases.total}};
}

}  // namespace

Json ToJson(const Status& status) {
  return {{"code", kCodeWords[static_cast<std::size_t>(status.code())]}, {"message", status.message()}};
}

Json ToJson(const DatasetReport& report) {
  Json out = {{"path", report.path},
              {"kind", report.kind == DatasetKind::kShared ? "shared" : "set"},
              {"state", Name(report.state)},
              {"devices", report.devices},
              {"parity", report.parity},
              {"groups", report.groups},
              {"group_size", report.group_size},
              {"block_size", report.block_size},
              {"unit", report.unit},
              {"bytes", report.bytes},
              {"sidecar_bytes", report.sidecar_bytes},
              {"root", report.root.Hex()},
              {"uuid", report.uuid},
              {"generation", report.generation},
              {"commit_time", static_cast<double>(report.commit_time_ns) / 1e9},
              {"committed", report.committed},
              {"bytes_read", report.bytes_read},
              {"bytes_encoded", report.bytes_encoded},
              {"phases", ToJson(report.phases)},
              {"warnings", report.warnings},
              {"damage", Json::array()}};
  for (const Damage& damage : report.damage) out["damage"].push_back(ToJson(damage));
  // Fields that say something only sometimes are left out otherwise.
  if (!report.key.empty()) out["key"] = report.key;
  if (report.unsealed) out["unsealed"] = true;
  for (const DatasetReport::Unchecked& range : report.unchecked) {
    out["unchecked"].push_back({{"path", range.path}, {"offset", range.offset}, {"length", range.length}});
  }
  if (report.portion.of != 0) {
    out["portion"] = {{"first_row", report.portion.begin}, {"end_row", report.portion.end}, {"rows", report.portion.of}};
  }
  if (report.from_replica > 0) out["from_replica"] = report.from_replica;
  if (report.stamps != StampNote::kNone) out["stamps"] = Name(report.stamps);
  if (!report.commit_under_way.empty()) out["commit_under_way"] = report.commit_under_way;
  if (report.left_for_later) out["left_for_later"] = true;
  if (report.planned) out["planned"] = true;
  if (!report.removed.empty()) out["removed"] = report.removed;
  if (!report.map.empty()) {
    out["map"] = Json::array();
    for (const GroupMap& group : report.map) out["map"].push_back(ToJson(group));
  }
  if (report.stripes) out["stripes"] = ToJson(*report.stripes);
  for (const GroupMap::Device& member : report.placed) {
    // Members that a restore has put, or would put, on other nodes.
    out["placed"].push_back({{"device", member.device}, {"path", member.path}, {"node", member.domain}});
  }
  for (const GroupMap::Device& member : report.not_visible) {
    out["not_visible"].push_back({{"device", member.device}, {"path", member.path}, {"node", member.domain}});
  }
  if (!report.needed_nodes.empty()) out["needed_nodes"] = report.needed_nodes;
  if (!report.status.ok()) out["error"] = ToJson(report.status);
  return out;
}

namespace {

// The bytes of a text that is no UTF-8, in hexadecimal; null for all else.
Json BytesOf(const Json& value) {
  if (!value.is_string()) return nullptr;
  const auto& text = value.get_ref<const std::string&>();
  if (AsUtf8(text) == text) return nullptr;
  std::string out;
  for (const char c : text) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

// Names of files may contain any bytes, JSON only UTF-8. A replacement could stand for several names, so the bytes are
// given, too: "path_hex" beside "path". Sentences for users do without.
void FillHexNames(Json& json) {
  Json more = Json::object();
  for (auto item = json.begin(); item != json.end(); ++item) {
    if (item->is_structured()) FillHexNames(*item);
    if (!json.is_object() || item.key() == "message" || item.key() == "warnings") continue;
    Json bytes = BytesOf(*item);
    if (item->is_array()) {
      for (const Json& one : *item) bytes.push_back(BytesOf(one));
      if (std::ranges::all_of(bytes, [](const Json& one) { return one.is_null(); })) continue;
    }
    if (!bytes.is_null()) more[item.key() + "_hex"] = std::move(bytes);
  }
  if (!more.empty()) json.update(more);
}

}  // namespace

std::string Dump(Json json, bool one_line) {
  if (!one_line) FillHexNames(json);
  return json.dump(one_line ? -1 : 2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lzy
