#pragma once
// Finds out whether data that were just written can be read back from the memory of this machine.

#include <string>

namespace lzy::hooks {

/// False if the file system of `path` is known not to keep written data in the memory of this machine. Then reading them
/// back asks a server or another process. True if this is not known. Costs one statfs.
bool PagesStay(const std::string& path);

}  // namespace lzy::hooks
