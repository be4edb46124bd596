#pragma once
// The interface between the two halves of the layer.
//
// liblzy_mpiio.so is preloaded into every process, or linked ahead of MPI. It has only the wrapped calls, and is linked to
// no MPI: in processes without MPI (shells, launchers, ssh) it does nothing. At the first MPI_Init, MPI_File_open or
// MPI_File_delete it finds out which MPI library the program uses, and loads the half that is built for it,
// liblzy_mpiio-<SONAME>.so, from its own directory. If there is none, every call passes through unchanged.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "hooks/contract/real.h"

namespace lzy::hooks {

/// Converts a machine word back to an MPI handle.
template <class Handle>
Handle As(Word word) {
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<Handle>(word);
  } else {
    return static_cast<Handle>(word);
  }
}

/// The position in the file at which a call reads or writes.
enum class Place {
  kExplicit,       ///< at the offset in the call, in etypes of the view
  kOwnPointer,     ///< at the individual file pointer
  kSharedPointer,  ///< at the shared file pointer
  kOrdered,        ///< at the shared file pointer, one rank after the other
};

/// The moment at which a call is complete; says whether its success is known then.
enum class Done {
  kAtReturn,   ///< blocking
  kByRequest,  ///< nonblocking
  kAtEnd,      ///< the first half of a split collective
  kUntold,     ///< nonblocking and collective: ROMIO's requests never report a failure
};

/// The arguments of a call that writes or reads.
struct DataCall {
  Word fh;
  Place place;
  std::int64_t offset;  ///< kExplicit only
  const void* buffer;   ///< a read writes to this buffer
  std::int64_t count;
  Word type;
  Done done;
  void** status;        ///< kAtReturn: where the real call's MPI_Status* is; the layer may replace it
  const void* request;  ///< kByRequest, kUntold: the MPI_Request that the call sets
};

/// A program's MPI_Init or MPI_Init_thread.
struct Starting {
  RealCall real;             ///< the program's own call
  RealCall with_level;       ///< MPI_Init_thread with the level `*level` instead; sets `*got`
  int* level;
  const int* got;
  const int* required;       ///< the level that the program asked for; null: it called MPI_Init
  int* provided;             ///< where the program gets its level; null: it called MPI_Init
};

/// The requests to which the `statuses` of a completing call belong.
enum class Outcome {
  kOnly,     ///< the only request
  kEach,     ///< all requests, in their order
  kOne,      ///< the request that completed
  kSome,     ///< the requests at `indices`
  kUnknown,  ///< none: the program gives up the request
  kPeeked,   ///< the only request, which stays valid (MPI_Request_get_status); `some` says whether it is complete
};

/// A call that may complete requests. It sets completed requests to MPI_REQUEST_NULL.
struct Completion {
  Outcome outcome;
  int count;
  const void* requests;  ///< MPI_Request[count]
  void** statuses;       ///< where the real call's MPI_Status* is, or null; the layer may replace it
  const int* some = nullptr;  ///< kSome: number of completed requests; kPeeked: whether the request is complete
  const int* indices = nullptr;
};

/// A file that the program writes without MPI-IO, as the layer knows it. 0: the layer does not track it.
using PlainFile = std::uint64_t;

/// The hooks. Every hook calls `real` exactly once and returns its code unchanged, with these exceptions. With
/// on-error=fail, Sync, Close and Finalize return MPI_ERR_IO if a commit failed. With commit=background, Init asks MPI for
/// a higher thread level, and QueryThread answers with the level that the program asked for. With verify-reads, Read, ReadEnd and Complete
/// correct the data that were read, and fail if they cannot. ErrorClass knows the layer's own errors. GetInfo adds the
/// layer's hints. No hook throws. Handles belong to the program's MPI.
struct Layer {
  int (*Init)(const Starting& start);
  int (*QueryThread)(RealCall real, int* provided);
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
                 void* info);  ///< an MPI_Info*; only this half knows the type
  int (*Write)(RealCall real, const DataCall& call);
  int (*WriteEnd)(RealCall real, Word fh, void** status);
  int (*Read)(RealCall real, const DataCall& call);
  int (*ReadEnd)(RealCall real, Word fh, void** status);
  int (*Complete)(RealCall real, const Completion& call);
  int (*ErrorClass)(RealCall real, int code, int* error_class);
  /// Waits until commits in the background have ended: that of the file `path`, or all if it is null, for at most
  /// `seconds` (negative: without a limit). Returns a CommitWait; `why` gets the message of a failure, cut to fit.
  int (*AwaitCommits)(const char* path, double seconds, char* why, std::size_t why_size);
  /// Files that the program writes without MPI-IO (option posix). Paths are as the program gave them, or relative to an open directory
  /// as /proc/self/fd/N/NAME. None of these hooks makes a real call.
  ///
  /// Before a call that opens `path` for writing. If there is a file to protect, its epoch begins here, before the call can
  /// change it. Returns 0 if there is none.
  PlainFile (*PlainWillOpen)(const char* path);
  /// After that call. `file`: the result of PlainWillOpen. If it is 0 and `opened`, the call may have made the file: its
  /// epoch begins here. Returns the file that the new descriptor writes, or 0.
  PlainFile (*PlainDidOpen)(const char* path, PlainFile file, bool opened);
  /// The last descriptor of `file` that could write it is closed: its commit begins, and goes on in the background.
  void (*PlainDidClose)(PlainFile file);
  /// Around a rename of `from` to `to`. The first returns a token for the second, which deletes it.
  void* (*PlainWillRename)(const char* from, const char* to);
  void (*PlainDidRename)(void* token, bool renamed);
  /// Around a call that removes `path`. The first returns a token for the second, which deletes it.
  void* (*PlainWillRemove)(const char* path);
  void (*PlainDidRemove)(void* token, bool removed);
  /// Number of tracked open files. While it is 0, a read or a write costs one look at this number.
  const std::atomic<int>* tracked_files;
  /// Number of these files with checked reads.
  const std::atomic<int>* checked_files;
  /// Number of pending requests that the layer watches. While it is 0, completing a request costs one look at this number.
  const std::atomic<int>* pending_requests;
};

/// What AwaitCommits returns. liblzy.so knows these numbers, too (lib/capi).
enum class CommitWait : int { kDone = 0, kFailed = 1, kStillUnderWay = 2 };

/// If the numbers of both halves agree, they are of one build. Increase it whenever anything above changes.
inline constexpr std::uint32_t kLayerInterface = 8;

/// The only symbol of the loaded half. `mpi` is the version string of the program's MPI. Returns nullptr if this half does
/// not fit that MPI, with the reason in `refusal`.
using LayerEntry = const Layer*(std::uint32_t interface_version, const char* mpi, const char** refusal);
inline constexpr const char* kLayerEntryName = "lzy_mpiio_layer";

}  // namespace lzy::hooks
