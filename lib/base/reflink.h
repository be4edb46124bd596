#pragma once
// Copies of files that share their blocks.

#include "base/file.h"

namespace lzy {

/// Makes `to`, which must be empty, share all blocks of `from` (a reflink). False if the file system cannot do that: then nothing is
/// changed, and the bytes must be copied.
bool Reflink(File& from, File& to);

}  // namespace lzy
