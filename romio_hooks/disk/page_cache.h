#pragma once
// Whether reading back what was just written is cheap.

#include <string>

namespace lzy::hooks {

/// False if the file system that `path` is on is known not to keep what a program wrote in the memory of this machine.
/// Then reading it back asks a server, or another process. True if nobody knows. One statfs.
bool PagesStay(const std::string& path);

}  // namespace lzy::hooks
