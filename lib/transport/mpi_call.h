#pragma once
// MPI calls of lzy: errors as Status, and waiting that lets other processes run.
//
// The rooms transport, validated and mpi make all their MPI calls through this, and only under PMPI_ names, so tools
// of the program do not count them. MPI libraries wait in a loop that keeps the processor. So lzy makes nonblocking
// calls, and waits for them by MPI_Test (docs/performance/exchange.md, "Waiting"). Nothing here is collective by
// itself; the call that is made may be.

#include <mpi.h>

#include "base/status.h"

namespace lzy {

/// Ok if `error`, which `call` returned, is MPI_SUCCESS. Otherwise kMpi with the name of the call and the text that
/// MPI has for the error.
Status CheckMpi(int error, const char* call);

/// How to wait between two looks for something that has not come. At first it returns at once, then it offers the
/// processor to others (sched_yield), and after some milliseconds it sleeps 50 us at a time. What comes soon comes
/// before another process could be made to run. What takes long should not be disturbed. One object for one wait.
class Patience {
 public:
  static constexpr int kSpins = 100;
  /// Waits a little, longer each time. `spins`: how many of the first calls return at once.
  void Wait(int spins = kSpins);

 private:
  int waits_ = 0;  // calls so far, up to those after which it sleeps
};

/// Waits until `request` is done. `call` is the name of the call that made it, for the text of an error. While it
/// waits, it offers the processor to others. With two ranks on a core, the rank that is waited for needs it, and a
/// blocking call would last until the scheduler takes the processor away. An allreduce of 4 ranks on 2 cores takes 97
/// us this way instead of 6.6 ms (MPICH 4.0.2). With one core for each rank, it costs a microsecond more. Meanwhile it
/// answers other processes that prove messages of this one (Pump::Help). Do not call it from a validated::Task: that
/// runs under the lock of the pump, which Help would try to take again.
Status AwaitMpi(MPI_Request& request, const char* call);

/// Makes a call by its nonblocking form, `start(&request)`, and waits for it. `call` is the name for errors.
template <class Start>
Status CallMpi(const char* call, const Start& start) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int error = start(&request);
  return error == MPI_SUCCESS ? AwaitMpi(request, call) : CheckMpi(error, call);
}

}  // namespace lzy
