#pragma once
// Option heal: restores file sets before the program opens them (lzy-run --heal; docs/design/repair.md "Heal at startup").
//
// Sets::Heal calls this in the hook of MPI_Init, the only moment at which all ranks are known to make the same calls.
// HealSets never fails: sets that cannot be healed stay as they are, and a message says so.

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace lzy::hooks {

/// Checks the sets of `patterns` by their metadata only (reads no data). Rebuilds sets with members that are missing, have
/// no sidecar, or are shorter than committed with the committed mtime. Leaves sets that are stale, in an epoch or of
/// another commit to the program. Rank 0 reports repairs, and reasons for leaving a set. Collective over `world`, all ranks
/// of the program. The patterns are absolute; those of rank 0 are used.
void HealSets(Communicator& world, std::vector<std::string> patterns);

}  // namespace lzy::hooks
