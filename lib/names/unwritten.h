#pragma once
// Whether anybody has written to a file since a commit, by its stamp. A file that nobody has written to can differ only by damage.

#include <cstdint>

#include "base/file.h"
#include "names/peek.h"

namespace lzy {

/// True if the file is the one of `stamp` (IsSameFile) and has its mtime, but another size: it was cut off or has grown, and that is damage,
/// because an edit sets the mtime. Not if the edit may have come within the tick of the commit, or if the commit was of an empty file.
inline bool HasLostItsSize(const FileStat& file, const Stamp& stamp, std::int64_t commit_clock_ns) {
  return file.size != stamp.size && stamp.size > 0 && file.mtime_ns == stamp.mtime_ns && IsSameFile(file, stamp) && !IsRacy(stamp, commit_clock_ns);
}

/// HasSizeAndTime or HasLostItsSize.
inline bool LooksUnwritten(const FileStat& file, const Stamp& stamp, std::int64_t commit_clock_ns) {
  return HasSizeAndTime(file, stamp) || HasLostItsSize(file, stamp, commit_clock_ns);
}

}  // namespace lzy
