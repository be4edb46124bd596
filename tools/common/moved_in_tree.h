#pragma once
// Looks for a lost file below the PATHs of the command. They may have directories without any sidecar, which are not in reach
// (names/reach.h): reports of other files must not depend on files that nobody protected. For advice only.
//
// Local to one process; nothing is written. Costs nothing until a file is sought that is in no directory in reach. Then the files below
// the PATHs are listed once.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "merkle/leaf_key.h"

namespace lzy {

/// Says where to look. `directories`: called at most once.
void LookForMovedIn(FileSystem& fs, std::function<std::vector<std::string>()> directories);

/// A file that was moved.
struct MovedFile {
  std::string path;
  bool whole = false;  ///< it has the committed content; else it may be what is left of the file
};
/// Finds a file with the size and mtime that the sidecar at the path `sidecar` committed, and with the content, or else with most of it.
/// The file has no sidecar, and is no member of a set. nullopt if there is none. Compares a few files.
std::optional<MovedFile> FindMoved(FileSystem& fs, const std::string& sidecar, const LeafKey* key);

}  // namespace lzy
