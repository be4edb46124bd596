#pragma once
// Finds the unprotected files of a directory. Local to one process; nothing is written, no data are read.

#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace lzy {

/// Regular files below `directory` that lzy-protect would protect and that are not protected: no hidden files, nothing below
/// hidden directories, and no members of protected sets. Sorted. Fails if `directory` cannot be listed. Directories below it
/// that cannot be listed are left out (ResolvePath reports them).
Result<std::vector<std::string>> FindUnprotected(FileSystem& fs, const std::string& directory);

}  // namespace lzy
