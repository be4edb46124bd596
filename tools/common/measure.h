#pragma once
// Measures how fast a directory is written and read, and how fast this machine computes parity: for lzy-plan --measure.

#include <string>

#include "base/file.h"

namespace lzy {

struct MeasuredRates {
  double read = 0, write = 0, parity = 0;  ///< bytes a second
  std::uint64_t bytes = 0;                 ///< written and read
};

/// Writes a file of up to 256 MiB in `directory`, for a few seconds at most, syncs it, and reads it back past the page cache.
/// Removes the name of the file before writing, so nothing remains even if the process is killed. Uses one thread.
/// kInvalidArgument: there is no such directory, or less than 64 MiB is free.
Result<MeasuredRates> MeasureRates(FileSystem& fs, const std::string& directory);

}  // namespace lzy
