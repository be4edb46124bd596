#pragma once
// Rot in a file that is another one by its inode: put back from a backup, for example, and rotten since.
//
// Examine cannot tell such a file from any other file that has the same size and mtime by chance. Parity can: rot changes
// few bytes of a block.

#include "judge/examine.h"

namespace lzy {

/// For each file that Examine calls another one or unlike (FileView::is_another, is_unlike), and no sidecar proves: rebuilds blocks of it in
/// memory, and compares them with what is there. If three quarters of the bytes are the same, it is the committed file
/// after all, and what differs is damage: both become false. Blocks that cannot be rebuilt say nothing. Writes
/// nothing. Collective; the same on all ranks.
Status TellRotFromOthers(const Context& context, DatasetView& view, const Findings& findings);

}  // namespace lzy
