#pragma once
// The thread level of MPI. Commits in the background need MPI_THREAD_MULTIPLE, so with LZY_COMMIT=background the layer asks
// MPI for it, whatever the program asks for. The program gets the answers that it would get without lzy, and the layer
// itself treats the program as one of that level.

#include "hooks/contract/layer.h"

namespace lzy::hooks {

/// Makes the program's MPI_Init or MPI_Init_thread. If `raise`, by MPI_Init_thread with MPI_THREAD_MULTIPLE; the program
/// still gets the level that it asked for, or a lower one if MPI provides less. Returns the code of the real call.
int StartWithLevel(const Starting& start, bool raise);

/// The level that the program knows, if MPI provides `provided`.
int LevelOfProgram(int provided);

/// Whether a thread of the layer may make MPI calls beside the program. False before MPI_Init, after MPI_Finalize, and in
/// programs that use only sessions. The same answer for the whole run of the program from MPI_Init on.
bool MpiAllowsThreads();

}  // namespace lzy::hooks
