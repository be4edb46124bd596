#pragma once
// What the clients of bench/ share. They are C programs that use MPI-IO as a user's program does, and know nothing
// about lzy. The scripts run them bare and with the layer preloaded.

//
// They are in C, since most programs that use MPI-IO are, and so that no runtime of another language is in their
// memory.

#include <mpi.h>
#include <stdio.h>

// Ends the program on all ranks unless `good`. `what` was to be done; it goes into the message.
static inline void check(int good, const char* what) {
  int rank = 0;
  // First, since it is called in loops that are timed.
  if (good) return;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fprintf(stderr, "bench: rank %d: %s failed\n", rank, what);
  // The other ranks would wait for this one for ever.
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// An MPI call that must succeed. Its text is the message.
#define MPI(call) check((call) == MPI_SUCCESS, #call)

// Collective over `comm`. `mode`: of MPI_File_open.
static inline MPI_File open_file(MPI_Comm comm, const char* name, int mode) {
  MPI_File file;
  char what[4200];
  snprintf(what, sizeof what, "MPI_File_open of %s", name);
  check(MPI_File_open(comm, name, mode, MPI_INFO_NULL, &file) == MPI_SUCCESS, what);
  return file;
}
