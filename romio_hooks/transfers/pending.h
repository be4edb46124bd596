#pragma once
// Nonblocking calls whose end matters. The list of pending requests has captured writes and reads that are to be
// checked. When MPI_Wait, MPI_Test or one of their variants completes a request (hook Complete), a write is confirmed
// or voids the capture of its epoch, and a read is checked.
//
// An epoch in which a captured write failed, or was not seen to succeed, does without its captures. Requests are known
// by their MPI_Request and a number of our own, because MPI reuses handles. All functions are local and thread-safe.

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "hooks/files/open_file.h"
#include "hooks/layer/layer.h"

namespace lzy::hooks {

/// How many requests are in the list. Only this module writes it. At 0, the exported calls go straight to MPI
/// (preload/exports.cc).
inline std::atomic<int> pending_requests{0};

/// After a nonblocking write of `bytes` bytes that succeeded in beginning: it is captured in `capture` and unconfirmed
/// from now on. `request`: the MPI_Request* that the call has filled in.
void BeginPending(OpenFile& file, const std::shared_ptr<Capture>& capture, const void* request, std::uint64_t bytes);

/// After a nonblocking read that succeeded in beginning: `read` is finished when its request is done, which may be now.
/// Returns the code for the program.
int WatchRead(const void* request, std::shared_ptr<UnfinishedRead> read);

/// The hook of all calls that complete requests: makes the real call once, and settles the requests that are done by
/// it. Returns its code, or another one if a read that it completed could not be put right.
int Complete(RealCall real, const Completion& call);

/// If the program ignores the status, gives the real call `own` instead: only a status tells that a transfer fell
/// short. `own` must live until the status has been looked at.
void WantStatus(void** status, MPI_Status& own);
/// How many bytes a call transferred by its MPI_Status; none if `status` is null or does not tell.
std::optional<std::uint64_t> BytesTold(const void* status);
/// Whether a write of `bytes` bytes was written in full. False without a status; true if the status does not tell a
/// count.
bool IsWhole(const void* status, std::uint64_t bytes);

}  // namespace lzy::hooks
