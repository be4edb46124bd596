#pragma once
// Decides by its name whether a file may be protected. Options include and exclude are applied after that (IsSelected in
// request/options.h).
//
// calls/open.cc calls these functions at every open and delete, before any other work for the file. Both are local. They
// look names up in the file system, and change nothing.

#include <string>

#include "base/file.h"

namespace lzy::hooks {

/// The path for `name` as passed to MPI_File_open or MPI_File_delete. ROMIO removes a file system prefix ("ufs:") from
/// names. If the names with and without the prefix both exist, or neither does, the prefix is removed here, too.
std::string PathOfName(FileSystem& fs, const std::string& name);

/// True for files that are never protected: lzy's own, ROMIO's helpers beside a file (shared file pointer, file system
/// probe), and everything in /proc, /sys and /dev (except /dev/shm). `path` is absolute, without symlinks.
bool IsNeverProtected(const std::string& path);

}  // namespace lzy::hooks
