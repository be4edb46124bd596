#pragma once
// Finds rot in a file that is not the committed one by inode and birth, for example because it was restored from a backup.
//
// Examine cannot distinguish such a file from a foreign one that has the same size and mtime by chance. Parity can: rot
// changes few bytes of a block.

#include <cstdint>

#include "judge/examine.h"

namespace lzy {

/// True if at least three quarters of the `total` compared bytes are the same (`same`): the file is another one with some
/// rot in it, or a similar version of it.
inline bool AreOfOneFile(std::uint64_t same, std::uint64_t total) {
  return total > 0 && 4 * same >= 3 * total;
}

/// Checks each file that Examine found to be another one or unlike the committed one (Identity), and that no sidecar
/// proves. Rebuilds some blocks of it in memory, and compares them with the file. If AreOfOneFile is true, the
/// differences are damage after all. If inode or birth differ, the file becomes Identity::Kind::kUnlike, so that a repair keeps
/// a copy. Blocks that cannot be rebuilt are not counted. Writes nothing.
/// Collective; the same on all ranks.
Status RecognizeRot(const Context& context, DatasetView& view, const Findings& findings);

}  // namespace lzy
