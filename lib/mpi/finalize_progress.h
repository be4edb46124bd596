#pragma once
// MPI_Finalize of MPICH before 4.2 over UCX can wait for ever (pmodels/mpich pull 6596). Each rank closes its connections, and
// then waits for the other ranks in a read from the launcher. In this read it does not serve the network. If closing a
// connection of a late rank needs an answer of such a rank, both wait. The messages of lzy make connections, too, so programs
// hang that do not hang without it.
//
// Messages cannot prevent this: after the last of them, connections are still to be closed. So this makes that read serve the
// network until there is something to read.

#include <string_view>

namespace lzy {

/// Call it before MPI_Init; further calls do nothing. Does nothing unless MPI is MPICH before 4.2 over UCX. Has no effect
/// if MPI waits in another library (Slurm's libpmi, PMIx). Replaces four functions that the MPI library calls, for the MPI
/// library only: read, and three of UCX. Reads of the program and of other libraries are never changed. Reads of MPI are
/// changed only between the first ucp_disconnect_nb and the end of the last worker, in the thread that is in MPI_Finalize.
void ServeNetworkInFinalize() noexcept;

/// Whether an MPI has the fault, by what MPI_Get_library_version says.
bool WaitsDeafInFinalize(std::string_view library_version);

}  // namespace lzy
