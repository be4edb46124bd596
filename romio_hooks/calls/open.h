#pragma once
// Opening and deleting files: decides whether a file is protected or its reads are checked, and removes the sidecars of
// deleted files.
//
// Open and Delete are hooks (layer.h). After Open, the registry has the handle on all ranks of its communicator or on none.
// The other hooks find the handle there.

#include <string>

#include "hooks/contract/layer.h"

namespace lzy::hooks {

/// The hook of MPI_File_open. Collective over `comm`, as the call itself. On `comm` the layer only calls MPI_Allreduce, and
/// not even that for a file opened for reading without verify-reads. All other messages use a duplicate of `comm`.
int Open(RealCall real, Word comm, const char* name, int mode, Word info, Word* fh);

/// The hook of MPI_File_delete. Removes the sidecar together with the file. Local, as the call itself.
int Delete(RealCall real, const char* name, Word info);

/// Call it after the close of a file that was opened with MPI_MODE_DELETE_ON_CLOSE. Removes the sidecar of `path` if the
/// file is gone. All ranks call it, because any rank may delete the file.
void AfterCloseOfDoomed(const std::string& path);

}  // namespace lzy::hooks
