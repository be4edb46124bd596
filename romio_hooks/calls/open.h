#pragma once
// Whether a file that was just opened is protected, or its reads are checked, and its entry.

#include <mpi.h>

#include "hooks/layer/real.h"

namespace lzy::hooks {

/// After the real MPI_File_open returned `code`, for files that outlive their close. Collective over `comm`, on which nothing
/// but MPI_Allreduce is done (none for a file opened for reading without verify-reads): everything else goes over a duplicate.
void AfterOpen(MPI_Comm comm, const char* name, int mode, MPI_Info info, int code, Word handle);

}  // namespace lzy::hooks
