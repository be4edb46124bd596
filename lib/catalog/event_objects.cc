#include "catalog/event_objects.h"

#include <nlohmann/json.hpp>

#include "request/object_json.h"

namespace lzy {

std::string EncodeEventObjects(const Damage& damage) {
  if (damage.objects.empty() && damage.objects_left_off == 0) return "";
  std::string all;
  std::uint64_t left_off = damage.objects_left_off;
  std::size_t count = 0;
  for (const DamagedObject& object : damage.objects) {
    // Names need not be UTF-8; JSON must be.
    const std::string text = ToJson(object).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    if (count == kMostEventObjects || all.size() + text.size() > kMostEventObjectBytes - 64) {
      ++left_off;
      continue;
    }
    all += (all.empty() ? "" : ",") + text;
    ++count;
  }
  return "{\"objects\":[" + all + "],\"left_off\":" + std::to_string(left_off) + "}";
}

// Checks the size first, so depth and number of values do not matter.
void DecodeEventObjects(const std::string& text, CatalogEvent& event) {
  if (text.empty() || text.size() > kMostEventObjectBytes) return;
  const auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  if (const auto objects = json.find("objects"); objects != json.end() && objects->is_array()) {
    for (const auto& one : *objects) {
      if (event.objects.size() == kMostEventObjects) break;
      if (auto object = DamagedObjectOf(one)) event.objects.push_back(std::move(*object));
    }
  }
  const auto left_off = json.find("left_off");
  if (left_off != json.end() && left_off->is_number_unsigned()) event.objects_left_off = left_off->get<std::uint64_t>();
}

}  // namespace lzy
