#pragma once
// What benchmarks under mpiexec have in common: errors as exceptions, the rank, times of the slowest rank, turns, and
// main() between MPI_Init and MPI_Finalize. Errors end all ranks, since the others would wait in a collective call.
//
// The ways that are compared take turns, so that disturbances of the machine meet all of them alike. What counts is the
// median. The least time tells what the machine can do if nothing disturbs it.

#include <fmt/format.h>
#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

/// Throws if `error`, which the MPI function `call` returned, is not MPI_SUCCESS.
inline void Check(int error, const char* call) {
  if (error != MPI_SUCCESS) throw std::runtime_error(fmt::format("{} failed", call));
}

/// Throws if a lzy::Status is not ok. A template, because not every benchmark links lzy's own types.
template <class Status>
void Check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

/// This process and the number of processes, in MPI_COMM_WORLD.
inline int Rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

inline int Ranks() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

/// The greatest value of all ranks, on all ranks. Collective.
inline double Most(double mine) {
  double all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

/// Processor time of this process, in user code and in the kernel. A way that spins while it waits takes it from other
/// ranks.
inline double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Elapsed seconds of `work` on the slowest rank; the same on all ranks. Collective. Adds this rank's processor time to
/// `*processor`. All ranks begin together.
///
/// The slowest rank counts, because a program goes on when all ranks are done. The mean would hide a rank that waits.
template <class Work>
double Timed(const Work& work, double* processor = nullptr) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double used = ProcessorSeconds();
  const double start = MPI_Wtime();
  work();
  const double mine = MPI_Wtime() - start;
  if (processor != nullptr) *processor += ProcessorSeconds() - used;
  return Most(mine);
}

/// Seconds of one way, one value for each round that counts, in the order of the rounds.
using Times = std::vector<double>;

/// The mean of the two middle values if their number is even. `times` must not be empty.
inline double Median(Times times) {
  std::sort(times.begin(), times.end());
  return (times[times.size() / 2] + times[(times.size() - 1) / 2]) / 2;
}

inline double Least(const Times& times) {
  return *std::min_element(times.begin(), times.end());
}

/// How long to go on: `least` rounds in any case, then until `most` rounds are made or `seconds` are spent.
struct Rounds {
  int least = 5;
  int most = 200;
  /// Of all ways together; sums of what the ways returned.
  double seconds = std::numeric_limits<double>::infinity();
  /// Rounds before the first that counts: they warm up memory, caches and connections.
  int uncounted = 1;
};

/// Calls `once(way, counted)`, which returns seconds, for the ways 0 to `ways` - 1 in each round. `counted` is false in
/// rounds that do not count. Returns the times by way.
///
/// If ranks do this together and `seconds` is limited, `once` must return the same on all ranks. Otherwise one rank
/// would end before the others, which then wait for it forever.
template <class Once>
std::vector<Times> TakeTurns(std::size_t ways, const Rounds& rounds, const Once& once) {
  std::vector<Times> times(ways);
  double spent = 0;
  for (int i = -rounds.uncounted; i < rounds.most && (i < rounds.least || spent < rounds.seconds); ++i) {
    for (std::size_t way = 0; way < ways; ++way) {
      const double seconds = once(way, i >= 0);
      if (i < 0) continue;
      spent += seconds;
      times[way].push_back(seconds);
    }
  }
  return times;
}

/// Runs `run(argc, argv)`, which may throw, between MPI_Init and MPI_Finalize. Returns the exit code for main(). If
/// `run` throws on any rank, that rank prints the error after `name` and its number, and all ranks end.
template <class Run>
int UnderMpi(const char* name, int argc, char** argv, const Run& run) {
  MPI_Init(&argc, &argv);
  int exit_code = 1;
  try {
    exit_code = run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: rank {}: {}\n", name, Rank(), error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return exit_code;
}
