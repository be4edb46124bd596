#pragma once
// Finds the PATHs with which lzy-protect protects given files: the files themselves, or the patterns of their sets. lzy-run
// uses it for what a command wrote without MPI-IO. Local to one process; nothing is written, no data are read.

#include <map>
#include <string>
#include <vector>

#include "base/file.h"

namespace lzy {

struct ProtectPaths {
  std::vector<std::string> paths;  ///< for lzy-protect: files and patterns of sets, each once
  /// For each file: the entry of `paths` that protects it.
  std::map<std::string, std::string> path_of;
};
/// Finds the PATHs for `files` (absolute paths of regular files). A file is a member of a set in these cases, tried in this
/// order:
///  - one of the patterns `sets` (option set) matches it;
///  - its sidecar, or the sidecars of its neighbours, record it as a member;
///  - it has no sidecar, it and others of `files` are name.0 to name.N-1, and no other file matches that pattern.
/// Otherwise it is a shared file.
ProtectPaths PathsToProtect(FileSystem& fs, const std::vector<std::string>& files, const std::vector<std::string>& sets);

}  // namespace lzy
