#include "hooks/files/pointers.h"

#include <mutex>
#include <utility>

#include "hooks/files/thread_level.h"

namespace lzy::hooks {

bool SeveralThreads() {
  static const bool several = [] {
    int initialized = 0;
    int provided = MPI_THREAD_SINGLE;
    // A session has a thread level of its own. In a program that uses only sessions, MPI_Query_thread may not be
    // called.
    if (PMPI_Initialized(&initialized) != MPI_SUCCESS || !initialized) return true;
    // A file that is written without MPI-IO may be the first that is committed, after MPI_Finalize.
    int finalized = 0;
    if (PMPI_Finalized(&finalized) != MPI_SUCCESS || finalized) return true;
    return PMPI_Query_thread(&provided) == MPI_SUCCESS && LevelOfProgram(provided) == MPI_THREAD_MULTIPLE;
  }();
  return several;
}

MPI_Offset PositionOf(MPI_File fh, Place place) {
  MPI_Offset at = -1;
  // The program did not ask for the shared position, so it must not get an error of this call. With several threads,
  // silencing the handler would hide errors of other calls.
  std::optional<QuietErrors> quiet;
  if (IsShared(place) && !SeveralThreads()) quiet.emplace(fh);
  const int code = IsShared(place) ? PMPI_File_get_position_shared(fh, &at) : PMPI_File_get_position(fh, &at);
  return code == MPI_SUCCESS ? at : -1;
}

MPI_Offset TakeOwnPosition(OpenFile& file, const DataCall& call) {
  if (call.place == Place::kExplicit) return call.offset;
  {
    const std::lock_guard lock(file.mutex);
    if (const auto known = std::exchange(file.own_pointer, std::nullopt)) return *known;
  }
  return PositionOf(As<MPI_File>(call.fh), call.place);
}

void KeepOwnPosition(OpenFile& file, const DataCall& call, MPI_Offset position, std::uint64_t bytes, std::uint64_t etype_size) {
  if (call.place != Place::kOwnPointer || position < 0 || bytes % etype_size != 0) return;
  const std::lock_guard lock(file.mutex);
  if (!file.own_pointer_wanders) file.own_pointer = position + static_cast<MPI_Offset>(bytes / etype_size);
}

void LoseOwnPosition(OpenFile& file) {
  const std::lock_guard lock(file.mutex);
  file.own_pointer.reset();
}

void LetPointerWander(OpenFile& file) {
  const std::lock_guard lock(file.mutex);
  file.own_pointer.reset();
  file.own_pointer_wanders = true;
}

}  // namespace lzy::hooks
