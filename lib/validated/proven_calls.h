#pragma once
// Calls from rank to rank by validated messages (comm/calls.h; docs/exchange.md, "Calls"). MpiCommunicator uses it.
//
// The thread that calls RunWithCalls makes all MPI calls, so a program needs no more than MPI_THREAD_FUNNELED. While a
// message with calls is on its way to a rank, further calls to this rank are collected for the next message. Each answer is
// a message of its own; several may be under way at the same time.

#include <mpi.h>

#include <functional>

#include "base/status.h"
#include "comm/calls.h"

namespace lzy::validated {

/// Runs `work` in a thread of its own, and meanwhile answers calls of other ranks by `handler`. Returns when `work` has
/// ended on all ranks. The status is an exception of `work`, or kMpi. Collective over `comm`, which is copied.
Status RunWithCalls(MPI_Comm comm, const CallHandler& handler, const std::function<void(Caller&)>& work);

}  // namespace lzy::validated
