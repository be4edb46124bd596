#pragma once
// Files without a name beside a data file, for hashes that are too many for memory (merkle/tree, encode/leaves).

#include <string>

#include "merkle/tree.h"

namespace lzy {

/// Returns a function that makes such files in the directory of the sidecar of `data_path`, which has room for large
/// sidecars. Each file has a temporary name (sidecar/names) for a moment; if the process dies in that moment, an empty file
/// remains, which names/orphans removes. On NFS it has a name as long as it is open (.nfs...). `fs` must outlive the
/// function.
ScratchMaker ScratchBeside(FileSystem& fs, const std::string& data_path);

}  // namespace lzy
