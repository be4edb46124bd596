#pragma once
#include <mpi.h>

#include <memory>

#include "comm/communicator.h"

namespace lzy {

/// A Communicator over a private duplicate of `comm` (collective), with MPI_ERRORS_RETURN set on it. Freed on destruction
/// unless MPI is finalized by then.
Result<std::unique_ptr<Communicator>> MpiCommunicator(MPI_Comm comm);

}  // namespace lzy
