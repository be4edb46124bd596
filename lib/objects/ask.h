#pragma once
// Asks another process for the objects in ranges of a file (tools/objects_helper). If that process crashes or hangs on a
// hostile file, only names of objects are missing.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "objects/frames.h"
#include "objects/object_map.h"
#include "request/report.h"

namespace lzy {

struct Helper {
  std::string program;                      ///< path
  std::chrono::seconds most_time{30};       ///< time after which it is killed
  std::uint64_t most_bytes = std::uint64_t{1} << 30;  ///< the largest answer
  std::function<bool()> stop = {};          ///< true: the user wants to end the tool
};

/// A sealed map. If the helper failed, the map has the objects that it reported before, and `failed` has the error.
struct Answer {
  ObjectMap map;
  Status failed;
  std::vector<std::uint8_t> frames;  ///< of an answer to a request for everything
};

/// The helper reads the open `file`, even if another file has its name now.
Answer Ask(const Helper& helper, const File& file, const MapRequest& request);

/// Whether the beginning of the file shows a format that the helper knows. False if the file cannot be read.
bool HasObjects(File& file);

/// Fills in `objects` in the data entries of one file. If some names may be missing, the status has the error.
Status NameObjects(const Helper& helper, const File& file, const std::vector<Damage*>& damage);
/// The same with a map that was made while the file was intact.
void NameObjects(const ObjectMap& index, const std::vector<Damage*>& damage);

/// "/fields/T (raw data, chunk [3, 0], elements [768, 0] to [1023, 511])". Does not make names printable.
std::string Text(const DamagedObject& object);
/// "/fields/T chunk [3, 0]".
std::string ShortText(const DamagedObject& object);

}  // namespace lzy
