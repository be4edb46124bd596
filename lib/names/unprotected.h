#pragma once
// Which files of a directory nothing protects. Local to one process; nothing is written, no data are read.

#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace lzy {

/// Regular files below `directory` that lzy-protect would protect and that have no sidecar: not hidden, nor below a hidden
/// directory, and no member of a protected set. Sorted. Fails if `directory` cannot be listed; what cannot be listed below
/// it is left out (ResolvePath reports it).
Result<std::vector<std::string>> FindUnprotected(FileSystem& fs, const std::string& directory);

}  // namespace lzy
