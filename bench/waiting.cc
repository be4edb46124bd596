// What waiting for other ranks costs: a blocking MPI_Allreduce of one word, beside Communicator::AllReduceMax, which
// waits by MPI_Test and offers the processor to others. The two take turns, under mpiexec. With more ranks than
// cores, the difference is large (docs/performance/exchange.md).

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "mpi/mpi_communicator.h"
#include "under_mpi.h"

namespace {

constexpr int kRounds = 9;
constexpr int kCalls = 50;

// Mean microseconds of a call on this rank, over kCalls calls.
template <class Call>
double Microseconds(const Call& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < kCalls; ++i) call();
  return (MPI_Wtime() - begin) / kCalls * 1e6;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int Run(int, char**) {
  auto comm = lzy::MpiCommunicator(MPI_COMM_WORLD);
  if (!comm.ok()) throw std::runtime_error(comm.status().message());
  std::vector<double> blocking, yielding;
  for (int round = 0; round <= kRounds; ++round) {
    std::uint64_t value = 1, greatest = 0;
    const double one =
        Microseconds([&] { MPI_Allreduce(&value, &greatest, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD); });
    const double other = Microseconds([&] { (void)(*comm)->AllReduceMax(value); });
    // Connections are made in the first round.
    if (round == 0) continue;
    blocking.push_back(one);
    yielding.push_back(other);
  }
  if ((*comm)->rank() == 0) {
    fmt::print("| {} | {:.1f} | {:.1f} | {:.2f} |\n", (*comm)->size(), Median(blocking), Median(yielding),
               Median(blocking) / Median(yielding));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return UnderMpi("bench_waiting", argc, argv, Run);
}
