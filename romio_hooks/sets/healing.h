#pragma once
// Option heal: restores file sets before the program opens them (lzy-run --heal; docs/design/repair.md "Heal at startup").
//
// Sets::Heal calls this in the hook of MPI_Init. That is the one moment at which all ranks are known to make the same
// calls. Nothing here fails: what cannot be healed is left as it is, and a message says so.

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace lzy::hooks {

/// Looks at the sets that `patterns` stand for, by their metadata alone (no data are read). It rebuilds sets with
/// members that are missing, have no sidecar, or are shorter with the mtime as committed. A set that is stale, in an
/// epoch or of another commit is left to the program. Rank 0 says what was done, or why something could not be done.
/// Collective over `world`, all ranks of the program. The patterns are absolute; those of rank 0 count.
void HealSets(Communicator& world, std::vector<std::string> patterns);

}  // namespace lzy::hooks
