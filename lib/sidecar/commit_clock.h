#pragma once
// The clock by which a file system stamps its files, for commits (docs/design/commit.md §5, step 3).
//
// Whether an edit shows in the mtime of a file depends on this clock alone. The clock of the node is another one: the
// server of a network file system has its own, and many file systems keep whole seconds only.

#include <cstdint>

#include "base/file.h"

namespace lzy {

/// The mtime that the file system gives to a file written now (ns since 1970): a change that begins after this call gets no
/// earlier one. `file` must be beside the data, and open for writing. Writes its last byte again; an empty file gets one
/// zero byte. Does not sync. `past_cache`: another node may have written that byte, so it is not read from the page cache.
Result<std::int64_t> FileSystemClock(File& file, bool past_cache = false);

}  // namespace lzy
