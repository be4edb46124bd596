#include "request/object_json.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace lzy {
namespace {

using ObjectJson = nlohmann::ordered_json;
using Indices = std::vector<std::uint64_t>;

// HDF5 and netCDF have no more dimensions (H5S_MAX_RANK); classic netCDF allows more, but nobody uses them.
constexpr std::size_t kMostDimensions = 1024;

// The value of a field; null if there is none.
const ObjectJson& FieldOf(const ObjectJson& json, const char* name) {
  static const ObjectJson none;
  const auto at = json.find(name);
  return at == json.end() ? none : *at;
}

std::optional<Indices> IndicesOf(const ObjectJson& json) {
  if (!json.is_array() || json.size() > kMostDimensions) return std::nullopt;
  Indices out;
  for (const ObjectJson& index : json) {
    if (!index.is_number_unsigned()) return std::nullopt;
    out.push_back(index.get<std::uint64_t>());
  }
  return out;
}

}  // namespace

ObjectJson ToJson(const DamagedObject& object) {
  ObjectJson out = {{"format", object.format}, {"name", object.name}, {"kind", object.kind}, {"chunk", nullptr}, {"elements", nullptr}};
  if (object.chunk) out["chunk"] = *object.chunk;
  if (object.elements) out["elements"] = ObjectJson::array({object.elements->first, object.elements->second});
  if (object.chunks > 0) {
    out["chunks"] = object.chunks;
    out["filtered"] = object.filtered;
  }
  return out;
}

std::optional<DamagedObject> DamagedObjectOf(const ObjectJson& json) {
  if (!json.is_object()) return std::nullopt;
  DamagedObject out;
  const std::pair<const char*, std::string*> texts[] = {{"format", &out.format}, {"name", &out.name}, {"kind", &out.kind}};
  for (const auto& [name, to] : texts) {
    const ObjectJson& text = FieldOf(json, name);
    if (!text.is_string()) return std::nullopt;
    *to = text.get<std::string>();
  }
  if (out.kind != "raw" && out.kind != "metadata" && out.kind != "unused") return std::nullopt;
  if (const ObjectJson& chunk = FieldOf(json, "chunk"); !chunk.is_null()) {
    out.chunk = IndicesOf(chunk);
    if (!out.chunk) return std::nullopt;
  }
  if (const ObjectJson& elements = FieldOf(json, "elements"); !elements.is_null()) {
    if (!elements.is_array() || elements.size() != 2) return std::nullopt;
    auto first = IndicesOf(elements[0]), last = IndicesOf(elements[1]);
    if (!first || !last || first->size() != last->size()) return std::nullopt;
    out.elements = {std::move(*first), std::move(*last)};
  }
  if (const ObjectJson& chunks = FieldOf(json, "chunks"); chunks.is_number_unsigned()) out.chunks = chunks.get<std::uint64_t>();
  if (const ObjectJson& filtered = FieldOf(json, "filtered"); filtered.is_boolean()) out.filtered = filtered.get<bool>();
  return out;
}

}  // namespace lzy
