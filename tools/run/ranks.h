#pragma once
// Detects that a launcher started one lzy-run in each rank, so that only one of them does the common work.

#include <optional>
#include <string>

namespace lzy {

/// The rank of this process, from variables of launchers (hydra, PMIx, Open MPI, Slurm); "0" if there is none.
std::string OwnRank();

/// Waits until the other ranks of the same launcher on this machine have ended. Returns at once if no launcher started this
/// process.
void WaitForOtherRanks();

}  // namespace lzy
