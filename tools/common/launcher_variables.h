#pragma once
// The variables by which a tool detects an MPI launcher. lzy-run removes them for a tool that it starts by itself.

namespace lzy {

/// Environment variables of MPI launchers (PMI, PMIx, Open MPI, hydra). SLURM_PROCID is not among them, because it is also
/// set in batch scripts without MPI. srun sets the variables of PMI or PMIx for its tasks if it starts MPI programs.
inline constexpr const char* kLauncherVariables[] = {"PMI_RANK",        "PMI_SIZE",        "PMI_FD",
                                                     "PMI_PORT",        "PMIX_RANK",       "PMIX_NAMESPACE",
                                                     "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"};

}  // namespace lzy
