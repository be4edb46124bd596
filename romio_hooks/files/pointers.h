#pragma once
// Where the pointers of a file are. MPI libraries (ROMIO) answer in a time that grows with the position, so the individual
// one is followed, and asked for only when it was moved out of sight.

#include <mpi.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "hooks/files/open_file.h"
#include "hooks/layer/layer.h"

namespace lzy::hooks {

/// Whether the program may make calls in several threads at once.
bool SeveralThreads();

/// Whether others may move that pointer meanwhile.
inline bool IsShared(Place place) {
  return place == Place::kSharedPointer || place == Place::kOrdered;
}

/// While it lives, errors of calls on the file are returned and nobody is told: perhaps there will be none.
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

  /// Whether an error that was returned since has been told nobody.
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

/// What MPI says; -1 where it does not. The file's error handler is not told.
MPI_Offset PositionOf(MPI_File fh, Place place);

/// Where a call works whose place only this thread can change; -1 when that cannot be told. The individual pointer is not
/// known any more then, until it is kept again: an error handler may jump out of the call.
MPI_Offset TakeOwnPosition(OpenFile& file, const DataCall& call);

/// The call has moved `bytes` bytes of data, all that it was to move, from etype number `position` on.
void KeepOwnPosition(OpenFile& file, const DataCall& call, MPI_Offset position, std::uint64_t bytes, std::uint64_t etype_size);
/// It has moved something, nobody knows how much.
void LoseOwnPosition(OpenFile& file);
/// Something may move it at any time until the next commit: ROMIO sets it back while it waits for nonblocking collective
/// calls, those with an offset too.
void LetPointerWander(OpenFile& file);

}  // namespace lzy::hooks
