#pragma once
// Opening and deleting: whether a file is protected or its reads are checked, and what becomes of the sidecar of a file
// that goes.
//
// Both functions are hooks (layer.h). After the open, the handle is in the registry on all ranks of its communicator or
// on none. The other hooks find it there.

#include <string>

#include "hooks/layer/layer.h"

namespace lzy::hooks {

/// The hook of MPI_File_open. Collective over `comm`, as the call itself. On `comm` the layer does nothing but
/// MPI_Allreduce (none for a file opened for reading without verify-reads); everything else goes over a duplicate.
int Open(RealCall real, Word comm, const char* name, int mode, Word info, Word* fh);

/// The hook of MPI_File_delete. The sidecar goes with the file. Local, as the call itself.
int Delete(RealCall real, const char* name, Word info);

/// After the close of a file opened with MPI_MODE_DELETE_ON_CLOSE: removes the sidecar of `path`, if the file is gone.
/// Any rank may be the one that deletes it, so all of them look.
void AfterCloseOfDoomed(const std::string& path);

}  // namespace lzy::hooks
