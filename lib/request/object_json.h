#pragma once
// Names of objects as JSON, in reports of tools and in the catalogue. If you add a field, add it to docs/reference/tools.md
// "Names of what is damaged", too.

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "request/report.h"

namespace lzy {

/// Chunk and elements are null where they say nothing.
nlohmann::ordered_json ToJson(const DamagedObject& object);
/// The inverse. None: `json` is nothing that ToJson makes. Safe for any `json`.
std::optional<DamagedObject> DamagedObjectOf(const nlohmann::ordered_json& json);

}  // namespace lzy
