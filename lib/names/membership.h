#pragma once
// Whether sets claim a file. Local to one process; nothing is written.

#include <string>

#include "base/file.h"

namespace lzy {

/// True if sidecars of a set beside the file say that it is one of its members.
bool IsClaimedByASet(FileSystem& fs, const std::string& path);

}  // namespace lzy
