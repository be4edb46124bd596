#pragma once
// The objects in a damaged range, as an event of the catalogue stores them.

#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "request/report.h"

namespace lzy {

/// The limits for one event. Further objects are only counted.
inline constexpr std::size_t kMostEventObjects = 16, kMostEventObjectBytes = 8192;

/// The text to store: a JSON document, or nothing if there are no objects.
std::string EncodeEventObjects(const Damage& damage);
/// Fills in `objects` and `objects_left_off`. Ignores everything that EncodeEventObjects does not make.
void DecodeEventObjects(const std::string& text, CatalogEvent& event);

}  // namespace lzy
