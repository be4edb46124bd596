#pragma once
// How a tool sees that an MPI launcher started it, and how lzy-run hides that from a tool that it starts by itself.

namespace lzy {

/// What MPI launchers (PMI, PMIx, Open MPI, hydra) leave in the environment. SLURM_PROCID is not among them: it is also set in
/// batch scripts, where no MPI was started. srun gives its tasks the variables of PMI or PMIx if it is to start MPI programs.
inline constexpr const char* kLauncherVariables[] = {"PMI_RANK",        "PMI_SIZE",        "PMI_FD",
                                                     "PMI_PORT",        "PMIX_RANK",       "PMIX_NAMESPACE",
                                                     "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"};

}  // namespace lzy
