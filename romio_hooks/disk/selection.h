#pragma once
// Which files the layer protects, as far as their names tell. Options include and exclude come on top (IsSelected in
// request/options.h).
//
// calls/open.cc asks at every open and delete, before anything else is done for the file. Both functions are local.
// They look names up in the file system, and change nothing.

#include <string>

#include "base/file.h"

namespace lzy::hooks {

/// `name` as given to MPI_File_open or MPI_File_delete, without the file system prefix ("ufs:") that ROMIO takes off
/// it. Where both readings name a file or neither does, ROMIO's counts.
std::string PathOfName(FileSystem& fs, const std::string& name);

/// Names that are never protected: lzy's own, ROMIO's helpers beside a file (shared file pointer, file system probe),
/// and what lies in /proc, /sys or /dev (but /dev/shm). `path` is absolute, symlinks resolved.
bool IsNeverProtected(const std::string& path);

}  // namespace lzy::hooks
