#pragma once
// Finds out whether a launcher started several lzy-run, one in each rank, so that only one of them does the common work.

#include <optional>
#include <string>

namespace lzy {

/// The rank of this process in variables of launchers (hydra, PMIx, Open MPI, Slurm); "0" if there is none.
std::string OwnRank();

/// Waits until the processes of other ranks that the same launcher started on this machine have ended. Returns at once if no
/// launcher did.
void WaitForOtherRanks();

}  // namespace lzy
