#pragma once
// Whether sets claim a file. Local to one process; nothing is written.

#include <optional>
#include <string>

#include "base/file.h"

namespace lzy {

/// True if sidecars of a set beside the file say that it is one of its members.
bool IsClaimedByASet(FileSystem& fs, const std::string& path);
/// A single file was given the name of a member, and left its own sidecar behind: `path` has the sidecar of a member of this name,
/// but belongs to the sidecar `found` of a single file, which has another name. Then returns the path of the member's sidecar, which
/// the set needs; else nullopt.
std::optional<std::string> SidecarOfDisplaced(FileSystem& fs, const std::string& path, const std::string& found);

}  // namespace lzy
