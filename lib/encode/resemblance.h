#pragma once
// Finds rot in a file whose inode or time of birth are not the committed ones, for example because the file was restored from
// a backup.
//
// Examine cannot distinguish such a file from a foreign file that has the same size and mtime by chance. Parity can: rot
// changes few bytes of a block, so most bytes of a rebuilt block are equal to those in the file.

#include <cstdint>

#include "judge/examine.h"

namespace lzy {

/// True if at least three quarters of the `total` compared bytes of two files are the same (`same`). Then one file is the other
/// one with some rot in it, or a similar version of it.
inline bool AreOfOneFile(std::uint64_t same, std::uint64_t total) {
  return total > 0 && 4 * same >= 3 * total;
}

/// Checks each file for which Examine set Identity::Kind::kAnother or kUnlike. Rebuilds some of its blocks in memory, and
/// compares them with the file. If AreOfOneFile is true, the differences are damage after all. Then, if inode or birth differ,
/// the file becomes kUnlike, so that a repair keeps a copy. Also checks kRenamed files if births are unknown. Blocks that
/// cannot be rebuilt do not count. Writes nothing. Collective; the same on all ranks.
Status RecognizeRot(const Context& context, DatasetView& view, const Findings& findings);

}  // namespace lzy
