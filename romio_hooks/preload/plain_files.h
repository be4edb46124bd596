#pragma once
// The descriptors with which the program writes files without MPI-IO, for the exported calls (plain_exports.cc).
//
// A descriptor belongs to a file of the layer (PlainFile). Duplicates of it belong to the same file, and when the last one is
// closed, the layer commits the file. Files that are opened before MPI_Init wait here until the layer is loaded.
//
// In a child process, which has copies of the descriptors, nothing here does anything. Nothing throws, and errno stays as it
// was. Thread-safe. A signal handler may call in while its thread is in here: then the call is not tracked.

#include <cstddef>

#include "hooks/contract/layer.h"

namespace lzy::hooks {

/// Marks a call of MPI or of the layer: what such a call opens, renames or removes is not tracked. The wrappers of
/// exports.cc hold one.
class InsideMpi {
 public:
  InsideMpi() noexcept;
  ~InsideMpi();
  InsideMpi(const InsideMpi&) = delete;
  InsideMpi& operator=(const InsideMpi&) = delete;
};

/// An open of `path` for writing. Make it before the real call, and call End after it.
class PlainOpen {
 public:
  /// `directory`: descriptor from which a relative path starts, or AT_FDCWD. `caller`: the return address of the exported
  /// call. Does nothing unless `writes`, and the name may match.
  PlainOpen(int directory, const char* path, bool writes, const void* caller) noexcept;
  /// `descriptor`: what the real call made, or -1.
  void End(int descriptor) noexcept;
  /// For a call that changed or made the file without a descriptor: the file is complete again.
  void EndWithoutDescriptor(bool done) noexcept;

 private:
  bool counts_ = false;
  PlainFile file_ = 0;
  char path_[4096 + 32];
};

/// A rename (`to` is set) or a removal of `from`.
class PlainMove {
 public:
  PlainMove(int from_directory, const char* from, int to_directory, const char* to, const void* caller) noexcept;
  PlainMove(int directory, const char* path, const void* caller) noexcept;
  void End(bool done) noexcept;

 private:
  const Layer* layer_ = nullptr;
  void* token_ = nullptr;
  bool removes_ = false;
};

/// Before a call that closes `descriptor`. Returns the file that the descriptor wrote, or 0; pass it to Closed after the call.
PlainFile TakeDescriptor(int descriptor) noexcept;
void Closed(PlainFile file) noexcept;
/// Instead of Closed: `descriptor` still has `file` open.
void GiveBack(int descriptor, PlainFile file) noexcept;
/// The descriptors from `first` to `last` were closed by one call.
void ClosedRange(unsigned first, unsigned last) noexcept;
/// `copy` is a new descriptor of what `original` has open. Call TakeDescriptor for `copy` before, if it may have been open.
void Duplicated(int original, int copy) noexcept;
/// Before the program's MPI_Init: this process is the one that tracks. Without it, the first process that opens a file that matches
/// would be, and that may be a child.
void OwnPlainFiles() noexcept;
/// When the layer was loaded: it takes the files that are open already.
void AdoptPlainFiles(const Layer& layer) noexcept;

}  // namespace lzy::hooks
