#pragma once
// MPI calls of lzy: errors as Status, and waiting that lets other processes run.
//
// The rooms transport, validated and mpi make all their MPI calls through this header, and only under PMPI_ names, so tools
// of the program do not count them. MPI libraries wait in a loop that occupies the processor. So lzy makes nonblocking
// calls, and waits for them by MPI_Test (docs/performance/exchange.md, "Waiting"). The functions are collective if the MPI
// call is.

#include <mpi.h>

#include "base/status.h"

namespace lzy {

/// Ok if `error`, the result of `call`, is MPI_SUCCESS. Otherwise kMpi with the name of the call and MPI's text for the
/// error.
Status CheckMpi(int error, const char* call);

/// Makes `copy` a new communicator of the ranks of `comm`, in the same order, with MPI_ERRORS_RETURN. Collective.
Status CopyComm(MPI_Comm comm, MPI_Comm& copy);

/// Waits between two tests of a condition. The first calls return at once, later ones yield the processor (sched_yield),
/// and after some milliseconds they sleep 50 us at a time. Results often come before another process could run; a long
/// operation should not be disturbed. A thread beside the program (transport/beside.h) sleeps almost from the beginning,
/// longer each time, up to 2 ms. Use one object for one wait.
class Patience {
 public:
  static constexpr int kSpins = 100;
  /// Waits a little, longer each time. `spins`: how many of the first calls return at once.
  void Wait(int spins = kSpins);

 private:
  void WaitBeside();

  int waits_ = 0;  // calls so far, up to those after which it sleeps
  int nap_ns_ = 0;  // the last nap of a thread beside the program
};

/// Waits until `request` is done. `call` is the name of the call that made it, for errors. Yields the processor while
/// waiting: with two ranks on a core, the awaited rank needs it, and a blocking call would last until the scheduler takes
/// the processor away. An allreduce of 4 ranks on 2 cores takes 97 us this way instead of 6.6 ms (MPICH 4.0.2). With one
/// core for each rank, it costs a microsecond more. Meanwhile answers other processes that prove messages of this one
/// (Pump::Help). Do not call it from a validated::Task: that runs under the lock of the pump, which Help would try to take
/// again.
Status AwaitMpi(MPI_Request& request, const char* call);

/// Makes a call by its nonblocking form, `start(&request)`, and waits for it. `call` is the name for errors.
template <class Start>
Status CallMpi(const char* call, const Start& start) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int error = start(&request);
  return error == MPI_SUCCESS ? AwaitMpi(request, call) : CheckMpi(error, call);
}

/// Sends and receives bytes. Continues after an error, so that messages for other ranks are sent if possible. Keeps the
/// first error. Every request must be awaited before its memory is used again.
class Transfers {
 public:
  Transfers(MPI_Comm comm, int tag) : comm_(comm), tag_(tag) {}
  void Send(const void* from, int bytes, int to, MPI_Request& request) {
    Note(CheckMpi(PMPI_Isend(from, bytes, MPI_BYTE, to, tag_, comm_, &request), "MPI_Isend"));
  }
  void Receive(void* to, int bytes, int from, MPI_Request& request) {
    Note(CheckMpi(PMPI_Irecv(to, bytes, MPI_BYTE, from, tag_, comm_, &request), "MPI_Irecv"));
  }
  /// Does nothing for MPI_REQUEST_NULL. `call`: the name of the call that made the request.
  void Await(MPI_Request& request, const char* call) {
    if (request != MPI_REQUEST_NULL) Note(AwaitMpi(request, call));
  }
  const Status& status() const { return status_; }

 private:
  void Note(const Status& one) {
    if (status_.ok()) status_ = one;
  }

  const MPI_Comm comm_;
  const int tag_;
  Status status_;
};

}  // namespace lzy
