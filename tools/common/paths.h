#pragma once
// Paths in the commands that the tools print. Local to one process; nothing is written.

#include <string>

#include "base/file.h"

namespace lzy {

/// True if there is something of this name, also a link that leads nowhere.
bool IsThere(FileSystem& fs, const std::string& path);

/// `path` with ".away" behind it, and digits if there is such a file.
std::string FreeName(FileSystem& fs, const std::string& path);

/// A path below the working directory without the path of that; any other as it is.
std::string ShortPath(FileSystem& fs, const std::string& path);

/// True if files were renamed, made or removed since `text` was made, so that a move in it (`mv -n FILE TO`) is not possible any
/// more: FILE is gone, or TO is there. Moves that are joined by && are judged as if they were made one after the other.
bool HasOutdatedMove(FileSystem& fs, const std::string& text);

}  // namespace lzy
