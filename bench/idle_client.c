// idle_client CASE FILE CALLS: small independent reads or writes, as fast as a loop can make them. Prints nanoseconds
// per call, seconds until MPI_Init has returned, and the largest resident size of the process in KiB. Knows nothing
// about lzy; the script `idle` runs it with the layer and without.
//
// CASE: read (FILE is opened for reading); read-pointer (the same by the individual pointer, mostly at its end); wait
// (for null requests, while FILE is open); write; write-beside (FILE.beside is open for writing, too); empty (writes
// of nothing: the MPI library does little, so what the layer adds shows best).
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "client.h"

// Bytes of a call, of the part of FILE that is used, of a name.
enum { SIZE = 8, SPAN = 1 << 20, NAME = 4096 };

// MPI_Wtime may not be called before MPI_Init, so its start is timed by the system's clock.
int main(int argc, char** argv) {
  struct timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  MPI_Init(&argc, &argv);
  clock_gettime(CLOCK_MONOTONIC, &after);
  check(argc == 4, "usage: idle_client CASE FILE CALLS;");
  const char* what = argv[1];
  const int reading = strcmp(what, "read") == 0, by_pointer = strcmp(what, "read-pointer") == 0;
  const int waiting = strcmp(what, "wait") == 0;
  const int count = strcmp(what, "empty") == 0 ? 0 : SIZE;
  const long calls = atol(argv[3]);
  char buffer[SIZE] = "1234567";
  char name[NAME];
  const int writing = MPI_MODE_CREATE | MPI_MODE_RDWR;
  MPI_File file = open_file(MPI_COMM_SELF, argv[2], reading || by_pointer ? MPI_MODE_RDONLY : writing);
  MPI_File beside = MPI_FILE_NULL;
  if (strcmp(what, "write-beside") == 0) {
    snprintf(name, sizeof name, "%s.beside", argv[2]);
    beside = open_file(MPI_COMM_SELF, name, writing);
  }
  // With the layer, some calls pass through its wrappers. What these add is the difference between the two runs.
  // Return codes are not checked in the loop, because it is timed.
  const double start = MPI_Wtime();
  for (long i = 0; i < calls; ++i) {
    const MPI_Offset at = i * SIZE % SPAN;
    if (waiting) {
      MPI_Request none = MPI_REQUEST_NULL;
      MPI_Wait(&none, MPI_STATUS_IGNORE);
    } else if (by_pointer) {
      MPI_File_read(file, buffer, count, MPI_BYTE, MPI_STATUS_IGNORE);
    } else if (reading) {
      MPI_File_read_at(file, at, buffer, count, MPI_BYTE, MPI_STATUS_IGNORE);
    } else {
      MPI_File_write_at(file, at, buffer, count, MPI_BYTE, MPI_STATUS_IGNORE);
    }
  }
  const double seconds = MPI_Wtime() - start;
  MPI(MPI_File_close(&file));
  if (beside != MPI_FILE_NULL) MPI(MPI_File_close(&beside));
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("%.2f %.6f %ld\n", seconds * 1e9 / (double)calls,
         (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) * 1e-9, usage.ru_maxrss);
  MPI_Finalize();
  return 0;
}
