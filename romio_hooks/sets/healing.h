#pragma once
// Option heal: file sets are mended before the program opens them (lzy-run --heal).

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace lzy::hooks {

/// Looks at the sets that these patterns stand for, by their metadata alone, and rebuilds those with members that are missing,
/// without a sidecar, or shorter with the mtime as committed. What is stale, or in an epoch, or of another commit, is left to the
/// program. Says, by rank 0, what was done, or why something could not be. Collective over all ranks of the program; `patterns`
/// are absolute, and rank 0's count.
void HealSets(Communicator& world, std::vector<std::string> patterns);

}  // namespace lzy::hooks
