#pragma once
// What benchmarks under mpiexec have in common: errors as exceptions, the rank, and main() between MPI_Init and
// MPI_Finalize.

#include <fmt/format.h>
#include <mpi.h>

#include <exception>
#include <stdexcept>

/// Throws if `error`, which the MPI function `call` returned, is not MPI_SUCCESS.
inline void Check(int error, const char* call) {
  if (error != MPI_SUCCESS) throw std::runtime_error(fmt::format("{} failed", call));
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

/// Runs `run(argc, argv)`, which may throw, between MPI_Init and MPI_Finalize. Returns the exit code for main(). An
/// exception on one rank ends all of them: the others would wait in a collective call.
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
