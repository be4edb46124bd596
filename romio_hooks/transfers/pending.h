#pragma once
// Nonblocking calls of which something is to be done when the program completes their requests. Of writes that were captured
// when they began it is known then whether they succeeded: an epoch in which it is not known of all of them, or one failed, has
// no use of what it captured. Reads are checked then.

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "hooks/files/open_file.h"
#include "hooks/layer/layer.h"

namespace lzy::hooks {

/// How many requests are known here.
inline std::atomic<int> pending_requests{0};

/// A write of `bytes` bytes has begun. `request`: the MPI_Request that the call has filled in.
void BeginPending(OpenFile& file, const std::shared_ptr<Capture>& capture, const void* request, std::uint64_t bytes);

/// A read has begun that is to be checked when it is done. The call's code.
int WatchRead(const void* request, std::shared_ptr<UnfinishedRead> read);

/// Makes the call, and sees which of the requests are done by it.
int Complete(RealCall real, const Completion& call);

/// Gives a call the status `own` where the program does not want one: only statuses tell of writes that fell short.
void WantStatus(void** status, MPI_Status& own);
/// How many bytes a call transferred, as its MPI_Status tells; nothing where it does not.
std::optional<std::uint64_t> BytesTold(const void* status);
/// Whether all of a write was written, as far as an MPI_Status tells.
bool IsWhole(const void* status, std::uint64_t bytes);

}  // namespace lzy::hooks
