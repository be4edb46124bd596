#pragma once
// Asks another process for the objects in ranges of a file (tools/objects_helper). That process may crash or hang on a
// hostile file; then only names are missing.

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
  std::chrono::seconds most_time{30};       ///< until it is killed
  std::uint64_t most_bytes = std::uint64_t{1} << 30;  ///< the largest answer
  std::function<bool()> stop = {};          ///< true: the user wants the tool to end
};

/// A sealed map. If the helper failed, the map has the objects reported before, and `failed` has the error.
struct Answer {
  ObjectMap map;
  Status failed;
  std::vector<std::uint8_t> frames;  ///< of an answer to a request for everything
};

/// The helper reads the open `file`, even if its name means another file now.
Answer Ask(const Helper& helper, const File& file, const MapRequest& request);

/// Whether files that begin so are of a format that can be asked about. False if it cannot be read.
bool HasObjects(File& file);

/// Fills in `objects` in the data entries of one file. The status has the error if some names may be missing.
Status NameObjects(const Helper& helper, const File& file, const std::vector<Damage*>& damage);
/// The same by a map from when the file was whole.
void NameObjects(const ObjectMap& index, const std::vector<Damage*>& damage);

/// "/fields/T (raw data, chunk [3, 0], elements [768, 0] to [1023, 511])". Names are as they are, not printable.
std::string Text(const DamagedObject& object);
/// "/fields/T chunk [3, 0]".
std::string ShortText(const DamagedObject& object);

}  // namespace lzy
