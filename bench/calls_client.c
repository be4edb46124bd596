// calls_client CASE FILE BYTES CALLS SPAN: reads or writes FILE through MPI-IO in one process, by CALLS calls of BYTES
// each, one after the other; behind SPAN bytes it begins again at offset 0. Knows nothing about lzy; the script `costs`
// runs it with the layer and without. Prints a line for each number:
//
//   seconds   from the open until the close has returned
//   call      nanoseconds of a call, without the open and the close
//   start     milliseconds until MPI_Init has returned
//   memory    largest resident size of the process, MiB
//
// CASE is one of these:
//
//   read           FILE is opened for reading
//   scattered      the same in an order in which no two neighbours follow each other
//   read-pointer   the same as read by the individual pointer, which stays at the end of FILE once it is there
//   write          FILE is opened for writing
//   write-beside   the same while FILE.beside is open, too
//   wait           MPI_Wait for null requests, while FILE is open for writing. The MPI library does almost nothing, so
//                  what the layer adds shows best. `write` of no bytes is for the same purpose.
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "client.h"

int main(int argc, char** argv) {
  // MPI_Wtime may not be called before MPI_Init, so its start is timed by the system's clock.
  struct timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  MPI_Init(&argc, &argv);
  clock_gettime(CLOCK_MONOTONIC, &after);
  check(argc == 6, "usage: calls_client CASE FILE BYTES CALLS SPAN;");
  const char* const what = argv[1];
  const int scattered = strcmp(what, "scattered") == 0, by_pointer = strcmp(what, "read-pointer") == 0;
  const int reading = scattered || by_pointer || strcmp(what, "read") == 0, waiting = strcmp(what, "wait") == 0;
  const int bytes = atoi(argv[3]);
  const long calls = atol(argv[4]), pieces = atol(argv[5]) / (bytes > 0 ? bytes : 1);
  check(calls > 0 && pieces > 0, "CALLS and SPAN, more than 0 and BYTES,");
  // The step shares no factor with the number of pieces, which is mostly a power of two. So every piece is read once.
  const long step = scattered ? 40503 % pieces : 1;
  char* const buffer = malloc((size_t)bytes + sizeof(long));
  for (long i = 0; i < bytes; ++i) buffer[i] = (char)(i * 31 + i / 251);
  const int writing = MPI_MODE_CREATE | MPI_MODE_WRONLY;
  MPI_File beside = MPI_FILE_NULL;
  if (strcmp(what, "write-beside") == 0) {
    char name[4096];
    snprintf(name, sizeof name, "%s.beside", argv[2]);
    beside = open_file(MPI_COMM_SELF, name, writing);
  }
  const double opening = MPI_Wtime();
  MPI_File file = open_file(MPI_COMM_SELF, argv[2], reading ? MPI_MODE_RDONLY : writing);
  const double start = MPI_Wtime();
  for (long i = 0, piece = 0; i < calls; ++i) {
    const MPI_Offset at = (MPI_Offset)piece * bytes;
    // No division here: with small calls it would be a part of the result.
    piece += step;
    if (piece >= pieces) piece -= pieces;
    if (waiting) {
      MPI_Request none = MPI_REQUEST_NULL;
      MPI(MPI_Wait(&none, MPI_STATUS_IGNORE));
    } else if (by_pointer) {
      MPI(MPI_File_read(file, buffer, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    } else if (reading) {
      MPI(MPI_File_read_at(file, at, buffer, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    } else {
      // No two pieces are the same.
      memcpy(buffer, &i, sizeof i);
      MPI(MPI_File_write_at(file, at, buffer, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    }
  }
  // The close is not part of a call, but of `seconds`: there the layer commits.
  const double looped = MPI_Wtime();
  MPI(MPI_File_close(&file));
  const double closed = MPI_Wtime();
  if (beside != MPI_FILE_NULL) MPI(MPI_File_close(&beside));
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const double init = (double)(after.tv_sec - before.tv_sec) * 1e3 + (double)(after.tv_nsec - before.tv_nsec) * 1e-6;
  printf("seconds %.6f\ncall %.2f\nstart %.3f\nmemory %.2f\n", closed - opening, (looped - start) * 1e9 / (double)calls,
         init, (double)usage.ru_maxrss / 1024);
  free(buffer);
  MPI_Finalize();
  return 0;
}
