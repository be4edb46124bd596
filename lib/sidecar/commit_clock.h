#pragma once
// The clock by which a file system stamps its files, for commits (docs/design/commit.md §5, step 3).
//
// Whether an edit shows in the mtime of a file depends on this clock alone. The clock of the node is another one: the
// server of a network file system has its own, and many file systems keep whole seconds only.

#include <cstdint>

#include "base/file.h"

namespace lzy {

/// The mtime that the file system gives a file that is written now (ns since 1970): no change that begins after this call
/// gets an earlier one. `file` must be beside the data, and open for writing. Its last byte is written as it is; an empty
/// file gets one byte of zero. It is not synced. `past_cache`: another node may have written that byte, so it is not taken from the
/// page cache.
Result<std::int64_t> FileSystemClock(File& file, bool past_cache = false);

}  // namespace lzy
