#pragma once
// Files without a name beside a data file, for hashes that are too many for memory (merkle/tree, encode/leaves).

#include <string>

#include "merkle/tree.h"

namespace lzy {

/// Makes such files where the sidecar of `data_path` is: a sidecar of some gigabytes has its place there, too. A file
/// has a temporary name (sidecar/names) for a moment; if the process dies in it, an empty file is left, which
/// names/orphans removes. On NFS it has a name as long as it is open (.nfs...). `fs` must outlive the function.
ScratchMaker ScratchBeside(FileSystem& fs, const std::string& data_path);

}  // namespace lzy
