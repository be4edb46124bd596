#pragma once
// Rot in a file that is another one by its inode: put back from a backup, for example, and rotten since.
//
// Examine cannot tell such a file from any other file that has the same size and mtime by chance. Parity can: rot changes
// few bytes of a block.

#include <cstdint>

#include "judge/examine.h"

namespace lzy {

/// Whether a file is another one with some rot in it, if `same` of `total` bytes that were compared are the same: three quarters of them.
inline bool AreOfOneFile(std::uint64_t same, std::uint64_t total) {
  return total > 0 && 4 * same >= 3 * total;
}

/// For each file that Examine calls another one or unlike (Identity), and no sidecar proves: rebuilds blocks of it in
/// memory, and compares them with what is there. If AreOfOneFile says so, it is the committed file
/// after all, and what differs is damage. Blocks that cannot be rebuilt say nothing. Writes
/// nothing. Collective; the same on all ranks.
Status TellRotFromOthers(const Context& context, DatasetView& view, const Findings& findings);

}  // namespace lzy
