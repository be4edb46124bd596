#pragma once
// The two halves of the interposition library, and what they know of each other.
//
// liblzy_mpiio.so is what is preloaded into every process, or linked ahead of MPI. It has the wrapped calls and nothing
// else, and is linked to no MPI: in processes that use none (shells, launchers, ssh) it does nothing at all. At the
// first MPI_Init, MPI_File_open or MPI_File_delete it looks which MPI library the program uses, and loads the half that
// is built for it: liblzy_mpiio-<SONAME>.so, from its own directory. Without one that
// fits, every call passes through untouched.

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "hooks/layer/real.h"

namespace lzy::hooks {

/// An MPI handle out of the register it came in.
template <class Handle>
Handle As(Word word) {
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<Handle>(word);
  } else {
    return static_cast<Handle>(word);
  }
}

/// Where a call writes or reads.
enum class Place {
  kExplicit,       ///< at the offset in the call, in etypes of the view
  kOwnPointer,     ///< at the individual file pointer
  kSharedPointer,  ///< at the shared file pointer
  kOrdered,        ///< at the shared file pointer, one rank after the other
};

/// When a call is done, and whether it succeeded known.
enum class Done {
  kAtReturn,   ///< blocking
  kByRequest,  ///< nonblocking
  kAtEnd,      ///< the first half of a split collective
  kUntold,     ///< nonblocking and collective: ROMIO's requests of these never fail, whatever became of them
};

/// A call that writes or reads.
struct DataCall {
  Word fh;
  Place place;
  std::int64_t offset;  ///< kExplicit only
  const void* buffer;   ///< that of a read is written to, of course
  std::int64_t count;
  Word type;
  Done done;
  void** status;        ///< kAtReturn: where the MPI_Status* is that the real call is given; the layer may give another
  const void* request;  ///< kByRequest, kUntold: the MPI_Request that the call fills in
};

/// What `statuses` of a call that completes requests are of.
enum class Outcome {
  kOnly,     ///< of the only request
  kEach,     ///< of the requests, in their order
  kOne,      ///< of whichever is done
  kSome,     ///< of those at `indices`
  kUnknown,  ///< the request is given up
  kPeeked,   ///< of the only request, which goes on to be one; if `some` is set, it is done all the same
};

/// A call after which requests may be done: those are MPI_REQUEST_NULL then.
struct Completion {
  Outcome outcome;
  int count;
  const void* requests;  ///< MPI_Request[count]
  void** statuses;       ///< where the MPI_Status* is that the real call is given; the layer may give another. Or null
  const int* some = nullptr;  ///< kSome: how many; kPeeked: whether it is done
  const int* indices = nullptr;
};

/// What the loaded half does around the real calls. Every function calls `real` exactly once and returns its code
/// unchanged, except that Sync and Close return MPI_ERR_IO with on-error=fail when redundancy could not be made, that
/// with verify-reads Read, ReadEnd and Complete put right what was read, and fail where that cannot be, that ErrorClass
/// knows the layer's own errors, and that GetInfo adds the layer's hints to what the real one made. None throws.
/// Handles are of the program's MPI.
struct Layer {
  int (*Init)(RealCall real);
  int (*Finalize)(RealCall real);
  int (*SessionFinalize)(RealCall real, void* session);
  int (*Open)(RealCall real, Word comm, const char* name, int mode, Word info, Word* fh);
  int (*Close)(RealCall real, Word* fh);
  int (*Sync)(RealCall real, Word fh);
  int (*Delete)(RealCall real, const char* name, Word info);
  int (*SetView)(RealCall real, Word fh, std::int64_t displacement, Word etype, Word filetype,
                 const char* representation, Word info);
  int (*SetSize)(RealCall real, Word fh, std::int64_t size);
  int (*Preallocate)(RealCall real, Word fh, std::int64_t size);
  int (*Seek)(RealCall real, Word fh, std::int64_t offset, int whence);
  int (*SeekShared)(RealCall real, Word fh, std::int64_t offset, int whence);
  int (*GetInfo)(RealCall real, Word fh,
                 void* info);  ///< `info`: what an MPI_Info* points to is known to this half only
  int (*Write)(RealCall real, const DataCall& call);
  int (*WriteEnd)(RealCall real, Word fh, void** status);
  int (*Read)(RealCall real, const DataCall& call);
  int (*ReadEnd)(RealCall real, Word fh, void** status);
  int (*Complete)(RealCall real, const Completion& call);
  int (*ErrorClass)(RealCall real, int code, int* error_class);
  /// How many open files are tracked. While it is 0, reading and writing costs a look at it and no more.
  const std::atomic<int>* tracked_files;
  /// Of these, files whose reads are checked.
  const std::atomic<int>* checked_files;
  /// How many requests are known whose completion is of interest. While it is 0, completing any costs a look at it.
  const std::atomic<int>* pending_requests;
};

/// Both halves are of one build when this agrees; to be counted up whenever anything above changes.
inline constexpr std::uint32_t kLayerInterface = 6;

/// The one symbol of the loaded half. `mpi`: how the program's MPI calls itself. nullptr, and why in `refusal`, when
/// this half is not for it.
using LayerEntry = const Layer*(std::uint32_t interface_version, const char* mpi, const char** refusal);
inline constexpr const char* kLayerEntryName = "lzy_mpiio_layer";

}  // namespace lzy::hooks
