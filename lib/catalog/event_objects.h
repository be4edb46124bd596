#pragma once
// The names of what a damage lies in, as an event of the catalogue keeps them.

#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "request/report.h"

namespace lzy {

/// Of one event. What is more is only counted.
inline constexpr std::size_t kMostEventObjects = 16, kMostEventObjectBytes = 8192;

/// The text that is stored: a JSON document, or nothing if nothing is named.
std::string EncodeEventObjects(const Damage& damage);
/// Fills in `objects` and `objects_left_off`. Whatever EncodeEventObjects does not make is left out.
void DecodeEventObjects(const std::string& text, CatalogEvent& event);

}  // namespace lzy
