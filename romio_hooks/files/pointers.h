#pragma once
// Follows the file pointers of a handle, in etypes of its view. ROMIO needs a time proportional to the position to report
// it. So the layer follows the individual pointer itself, and asks MPI only if it lost track.
//
// A call that uses the individual pointer takes the known position before the real call (TakeOwnPosition) and puts the
// new one back after it (KeepOwnPosition). If the call fails or falls short, the position stays unknown. All functions
// here are local and lock OpenFile::mutex themselves.

#include <mpi.h>

#include <cstdint>
#include <utility>

#include "hooks/contract/layer.h"
#include "hooks/files/open_file.h"

namespace lzy::hooks {

/// Whether the program may make MPI calls in several threads at once. True if that cannot be told. Threads of the layer do
/// not count.
bool SeveralThreads();

/// Whether other ranks may move the pointer at `place` during a call.
inline bool IsShared(Place place) {
  return place == Place::kSharedPointer || place == Place::kOrdered;
}

/// While this object lives, calls on the file only return their errors, and the error handler of the file is not called.
/// Use it if the layer may still repair the error, or if the error is not the program's. The handler belongs to the file
/// and not to the call, so do not use it if several threads make calls.
class QuietErrors {
 public:
  explicit QuietErrors(MPI_File file) : file_(file) {
    if (PMPI_File_get_errhandler(file_, &handler_) != MPI_SUCCESS) {
      handler_ = MPI_ERRHANDLER_NULL;
    } else if (handler_ != MPI_ERRORS_RETURN) {
      changed_ = PMPI_File_set_errhandler(file_, MPI_ERRORS_RETURN) == MPI_SUCCESS;
    }
  }
  ~QuietErrors() { End(); }
  QuietErrors(const QuietErrors&) = delete;
  QuietErrors& operator=(const QuietErrors&) = delete;

  /// Restores the program's handler. True if it had been replaced: then the handler was not called for errors that calls
  /// returned meanwhile.
  bool End() {
    const bool was_changed = std::exchange(changed_, false);
    if (was_changed) PMPI_File_set_errhandler(file_, handler_);
    if (handler_ != MPI_ERRHANDLER_NULL) PMPI_Errhandler_free(&handler_);
    handler_ = MPI_ERRHANDLER_NULL;
    return was_changed;
  }

 private:
  const MPI_File file_;
  MPI_Errhandler handler_ = MPI_ERRHANDLER_NULL;
  bool changed_ = false;
};

/// The position that MPI reports, in etypes; -1 if it reports none. For a shared pointer the error handler is silenced,
/// unless the program has several threads.
MPI_Offset PositionOf(MPI_File fh, Place place);

/// The position at which `call` will work, in etypes; -1 if it is not known. Only for an explicit offset or the individual
/// pointer, which no other thread or rank moves. Forgets the known position until KeepOwnPosition, because an error handler
/// may jump out of the call.
MPI_Offset TakeOwnPosition(OpenFile& file, const DataCall& call);

/// Call it after a call that transferred all of its `bytes` bytes from etype number `position` on. No effect for other
/// places than the individual pointer, or if `bytes` is no multiple of `etype_size` (in bytes).
void KeepOwnPosition(OpenFile& file, const DataCall& call, MPI_Offset position, std::uint64_t bytes, std::uint64_t etype_size);
/// Call it if the pointer has moved by an unknown amount: MPI is asked the next time.
void LoseOwnPosition(OpenFile& file);
/// Call it if the pointer may move at any time until the next commit: KeepOwnPosition has no effect until then. ROMIO
/// resets the pointer while it waits for nonblocking collective calls, even for those with an explicit offset.
void LetPointerWander(OpenFile& file);

}  // namespace lzy::hooks
