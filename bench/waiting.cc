// What waiting for other ranks costs: a blocking MPI_Allreduce of one word, beside Communicator::AllReduceMax, which
// waits by MPI_Test and offers the processor to others. The two take turns, under mpiexec. With more ranks than
// cores, the difference is large (docs/performance/exchange.md).

#include <fmt/format.h>
#include <mpi.h>

#include <cstdint>
#include <vector>

#include "mpi/mpi_communicator.h"
#include "under_mpi.h"

namespace {

// Rounds that count; calls that are timed together, because the clock is too coarse for one.
constexpr int kRounds = 9;
constexpr int kCalls = 50;

// Mean microseconds of a call on this rank, over kCalls calls. All ranks begin together; rank 0 prints its own.
template <class Call>
double Microseconds(const Call& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < kCalls; ++i) call();
  return (MPI_Wtime() - begin) / kCalls * 1e6;
}

int Run(int, char**) {
  auto comm = lzy::MpiCommunicator(MPI_COMM_WORLD);
  Check(comm.status());
  std::uint64_t value = 1, greatest = 0;
  // Connections are made in the round that does not count. The number of rounds is fixed, so each rank may have times
  // of its own.
  const std::vector<Times> times = TakeTurns(2, {.least = kRounds, .most = kRounds}, [&](std::size_t way, bool) {
    return way == 0 ? Microseconds(
                          [&] { MPI_Allreduce(&value, &greatest, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD); })
                    : Microseconds([&] { (void)(*comm)->AllReduceMax(value); });
  });
  if (Rank() == 0) {
    const double blocking = Median(times[0]), yielding = Median(times[1]);
    fmt::print("| {} | {:.1f} | {:.1f} | {:.2f} |\n", Ranks(), blocking, yielding, blocking / yielding);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return UnderMpi("bench_waiting", argc, argv, Run);
}
