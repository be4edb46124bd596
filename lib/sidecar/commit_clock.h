#pragma once
// Reads the clock of a file system, which sets the times of files. For commits (docs/design/commit.md §5, step 3).
//
// Only this clock decides whether an edit changes the mtime of a file. The clock of the node may differ: the server of a
// network file system has its own clock, and many file systems store only whole seconds.

#include <cstdint>

#include "base/file.h"

namespace lzy {

/// The mtime that the file system gives to a file that is written now (ns since 1970). Changes that begin after this call
/// do not get an earlier mtime. `file` must be in the file system of the data, and open for writing. Writes its last byte
/// again; an empty file gets one zero byte. Does not sync. `past_cache`: another node may have written that byte, so it is
/// not read from the page cache.
Result<std::int64_t> FileSystemClock(File& file, bool past_cache = false);

}  // namespace lzy
