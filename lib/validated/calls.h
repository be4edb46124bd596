#pragma once
// Calls from rank to rank by validated messages (comm/calls.h; docs/exchange.md, "Calls"). MpiCommunicator uses it.
//
// The thread that calls RunWithCalls makes all MPI calls, so a program needs no more than MPI_THREAD_FUNNELED. Calls to
// one rank that are made while another one is on its way travel together in one message. Answers travel one by one, up
// to the number of calls side by side.

#include <mpi.h>

#include <functional>

#include "base/status.h"
#include "comm/calls.h"

namespace lzy::validated {

/// Runs `work` in a thread of its own, and meanwhile answers calls of other ranks by `handler`. Returns when `work` has
/// ended on all ranks; with what it threw, or kMpi. Collective over `comm`, which is copied.
Status RunWithCalls(MPI_Comm comm, const CallHandler& handler, const std::function<void(Caller&)>& work);

}  // namespace lzy::validated
