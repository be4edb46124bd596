#pragma once
// What benchmarks under mpiexec have in common.

#include <fmt/format.h>
#include <mpi.h>

#include <exception>
#include <stdexcept>

inline void Check(int error, const char* call) {
  if (error != MPI_SUCCESS) throw std::runtime_error(fmt::format("{} failed", call));
}

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

/// Runs `run(argc, argv)`, which may throw, between MPI_Init and MPI_Finalize; the exit code for main().
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
