#pragma once
#include <mpi.h>

#include "base/status.h"

namespace lzy {

/// kMpi with MPI's own text unless `error`, which `call` returned, is MPI_SUCCESS.
Status CheckMpi(int error, const char* call);

}  // namespace lzy
