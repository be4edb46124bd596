#pragma once
// With which PATHs lzy-protect protects given files: the files themselves, or the patterns of their sets. lzy-run asks, for
// what a command wrote without MPI-IO. Local to one process; nothing is written, no data are read.

#include <map>
#include <string>
#include <vector>

#include "base/file.h"

namespace lzy {

struct ProtectPaths {
  std::vector<std::string> paths;  ///< for lzy-protect: files, and patterns of sets; each once
  /// The path among `paths` by which each of the files is protected.
  std::map<std::string, std::string> path_of;
};
/// `files`: absolute paths of regular files. A file is a member of a set, in this order:
///  - if one of the patterns `sets` says so (option set);
///  - if its sidecar, or those of its neighbours, say so;
///  - if it has no sidecar, and it and others of `files` are name.0 to name.N-1, and no other file matches that pattern.
/// Otherwise it is a file of its own.
ProtectPaths PathsToProtect(FileSystem& fs, const std::vector<std::string>& files, const std::vector<std::string>& sets);

}  // namespace lzy
