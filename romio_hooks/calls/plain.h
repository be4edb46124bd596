#pragma once
// The hooks of files that the program writes without MPI-IO (option posix; docs/design/posix.md).
//
// The layer does not see such writes. It only needs to know when a file is begun, so that its epoch begins, and when it is
// complete. The data are then read back from the page cache, as for most commits of sets. A file that matches option set is
// this rank's member of that set. Any other is committed by this process alone.
//
// All hooks are local. Tokens and PlainFile are described in contract/layer.h.

#include <memory>

#include "hooks/contract/layer.h"
#include "hooks/sets/sets.h"

namespace lzy::hooks {

PlainFile PlainWillOpen(const char* path);
PlainFile PlainDidOpen(const char* path, PlainFile file, bool opened);
void PlainDidClose(PlainFile file);
void* PlainWillRename(const char* from, const char* to);
void PlainDidRename(void* token, bool renamed);
void* PlainWillRemove(const char* path);
void PlainDidRemove(void* token, bool removed);

/// For Sets::Start: how members of sets that are written without MPI-IO are committed.
Sets::PlainCalls CallsOfPlainMembers();

/// At the end of MPI_Finalize: says which members are still open. They can no longer be committed.
void ReportOpenMembers();

/// True if the environment asks for sets of such files, so that commits go on beside the program (files/thread_level.h).
/// Usable before MPI_Init.
bool EnvironmentAnnouncesMembers();

}  // namespace lzy::hooks
