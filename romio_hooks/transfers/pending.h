#pragma once
// The list of pending requests: captured nonblocking writes, and nonblocking reads to be checked. When MPI_Wait, MPI_Test
// or one of their variants completes a request (hook Complete), a write is confirmed or voids the capture of its epoch, and
// a read is checked.
//
// The captures of an epoch are not used if a captured write failed, or was not seen to succeed. A request is identified by
// its MPI_Request and a number of our own, because MPI reuses handles. All functions are local and thread-safe.

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "hooks/contract/layer.h"
#include "hooks/files/open_file.h"

namespace lzy::hooks {

/// Number of requests in the list. Only this module changes it. At 0, the exported calls go straight to MPI
/// (preload/exports.cc).
inline std::atomic<int> pending_requests{0};

/// Call it after a nonblocking write of `bytes` bytes has begun without an error, and was captured in `capture`. The write
/// is unconfirmed until its request completes. `request`: the MPI_Request* that the call has set.
void BeginPending(OpenFile& file, const std::shared_ptr<Capture>& capture, const void* request, std::uint64_t bytes);

/// Call it after a nonblocking read has begun without an error. `read` is finished when its request completes, which may be
/// now. Returns the code for the program.
int WatchRead(const void* request, std::shared_ptr<UnfinishedRead> read);

/// The hook of all calls that complete requests: makes the real call once, and handles the requests that it completed.
/// Returns its code, or another one if a completed read could not be corrected.
int Complete(RealCall real, const Completion& call);

/// If the program ignores the status, passes `own` to the real call instead, because only a status shows a short transfer.
/// `own` must live until the status was examined.
void WantStatus(void** status, MPI_Status& own);
/// Number of bytes that a call transferred, from its MPI_Status; nullopt if `status` is null or has no count.
std::optional<std::uint64_t> BytesTold(const void* status);
/// True if all `bytes` bytes of a write were written. False without a status; true if the status has no count.
bool IsWhole(const void* status, std::uint64_t bytes);

}  // namespace lzy::hooks
