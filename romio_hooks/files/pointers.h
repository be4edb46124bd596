#pragma once
// Where the file pointers of a handle are, in etypes of its view. ROMIO needs a time that grows with the position to
// answer. So the layer follows the individual pointer itself, and asks MPI only if the pointer moved out of sight.
//
// A call that uses the individual pointer takes the known position before the real call (TakeOwnPosition) and puts the
// new one back after it (KeepOwnPosition). If the call fails or falls short, the position stays unknown. All functions
// here are local and lock OpenFile::mutex themselves.

#include <mpi.h>

#include <cstdint>
#include <utility>

#include "hooks/files/open_file.h"
#include "hooks/layer/layer.h"

namespace lzy::hooks {

/// Whether the program may make MPI calls in several threads at once. True if that cannot be told.
bool SeveralThreads();

/// Whether other ranks may move the pointer at `place` during a call.
inline bool IsShared(Place place) {
  return place == Place::kSharedPointer || place == Place::kOrdered;
}

/// Silences the error handler of a file: while this object lives, calls on the file only return their errors. Use it if
/// the layer may still repair the error, or if the program must not hear of it. The handler belongs to the file and not
/// to the call, so do not use it if several threads make calls.
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

  /// Puts the program's handler back. True if it was replaced: then the program has not been told of errors that were
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

/// The position that MPI tells, in etypes; -1 if it tells none. For a shared pointer the error handler is silenced,
/// unless the program has several threads.
MPI_Offset PositionOf(MPI_File fh, Place place);

/// The position at which `call` will work, in etypes; -1 if that cannot be told. Only for places that no other thread
/// or rank can move: an explicit offset, or the individual pointer. It forgets the known position until
/// KeepOwnPosition, because an error handler may jump out of the call.
MPI_Offset TakeOwnPosition(OpenFile& file, const DataCall& call);

/// Call it after a call that moved all of its `bytes` bytes, from etype number `position` on. No effect for other
/// places than the individual pointer, or if `bytes` is no multiple of `etype_size` (in bytes).
void KeepOwnPosition(OpenFile& file, const DataCall& call, MPI_Offset position, std::uint64_t bytes, std::uint64_t etype_size);
/// The pointer has moved by an unknown amount: ask MPI the next time.
void LoseOwnPosition(OpenFile& file);
/// The pointer may move at any time until the next commit, so KeepOwnPosition has no effect until then. ROMIO sets it
/// back while it waits for nonblocking collective calls, even for those with an explicit offset.
void LetPointerWander(OpenFile& file);

}  // namespace lzy::hooks
