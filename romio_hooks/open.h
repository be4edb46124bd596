#pragma once
// Whether a file that was just opened is protected, and its entry.

#include <mpi.h>

#include "real.h"

namespace lzy::hooks {

/// After the real MPI_File_open returned `code`, for modes in which the file can change. Collective over `comm`, on
/// which nothing but one MPI_Allreduce is done: everything else goes over a duplicate.
void AfterOpen(MPI_Comm comm, const char* name, int mode, MPI_Info info, int code, Word handle);

/// Modes in which a file can be changed and lives on.
bool IsProtectableMode(int mode);

}  // namespace lzy::hooks
