#pragma once
// Compares the content of a file with what a sidecar committed, block by block.
//
// Local to one process; nothing is written. `key`: the key of a sealed dataset; without it, a sealed sidecar matches nothing,
// and with it, one without a seal matches nothing, because it may be forged.

#include <cstdint>
#include <string>

#include "base/file.h"
#include "base/status.h"
#include "merkle/leaf_key.h"
#include "sidecar/sidecar.h"

namespace lzy {

/// True if every block of the file `data` has its leaf in `sidecar`. False for an empty file, because it would match the
/// sidecar of any empty file. Fails only if the data cannot be read. Reads up to the first block that differs.
Result<bool> HoldsCommitted(FileSystem& fs, const std::string& data, const Sidecar& sidecar, const LeafKey* key);
/// The same for the sidecar at a path. False if it cannot be loaded or was never committed.
Result<bool> HoldsCommitted(FileSystem& fs, const std::string& data, const std::string& sidecar, const LeafKey* key);

/// True if at least half of the blocks of a file are as `sidecar` committed them, or three quarters of the bytes of a file of one
/// block, which its parity can show. A file that also has the committed size and
/// mtime is the committed one, damaged since: it was renamed, and is a copy (from a backup, or on another file system). Reads
/// the whole file.
bool IsMostlyAs(FileSystem& fs, const std::string& data, Sidecar& sidecar, const LeafKey* key);
/// The same for the sidecar at a path. False if it cannot be loaded.
bool IsMostlyAs(FileSystem& fs, const std::string& data, const std::string& sidecar, const LeafKey* key);
/// True if a file with the committed size and mtime, whose stat is `stat`, may be what is left of the committed one: it is that
/// file by inode and birth, or a block of it is as committed.
bool MayBeRottenFrom(FileSystem& fs, const std::string& data, const FileStat& stat, const Sidecar& sidecar, const LeafKey* key);
/// False if the file differs from what the sidecar at the path `own` committed as no rot does: in more than half of its blocks,
/// or, if it has one block, in more than a quarter of its bytes.
bool MayBeRot(FileSystem& fs, const std::string& data, const std::string& own, const LeafKey* key);

}  // namespace lzy
