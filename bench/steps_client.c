// steps_client FILE STEPS BYTES SECONDS [--set] [--sync] [--again]: a simulation that computes for SECONDS, and then writes a
// checkpoint of BYTES on each rank, STEPS times. Prints one JSON object, each time that of the slowest rank in each step,
// added up: `blocked`, of sync and close; `checkpoint`, from the open until the close; `run`, from the first step until
// MPI_Finalize has returned (of rank 0). Knows nothing about lzy.
//
// --set: a file for each rank, FILE.RANK.STEP; otherwise one file, FILE.STEP. --sync: MPI_File_sync before the close. --again: two
// names in turn, so that a checkpoint replaces that of the step before the last.
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client.h"

enum { NAME = 4096, CALL = 16 << 20 };

static int rank, ranks, set, sync_it, again;
static double blocked, checkpoint;
static volatile double sink;

// Also after MPI_Finalize.
static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

// On a core of its own, as a simulation does: the processor is busy.
static void compute(double seconds) {
  const double end = now() + seconds;
  double x = 1;
  while (now() < end) {
    for (int i = 0; i < 1000; ++i) x = x * 1.0000001 + 1e-9;
  }
  sink = x;
}

static double slowest(double mine) {
  double all = 0;
  MPI(MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
  return all;
}

static void step(const char* path, int number, const char* memory, int64_t bytes) {
  char name[NAME];
  if (again) number %= 2;
  if (set) {
    snprintf(name, sizeof name, "%s.%d.%d", path, rank, number);
  } else {
    snprintf(name, sizeof name, "%s.%d", path, number);
  }
  MPI(MPI_Barrier(MPI_COMM_WORLD));
  const double start = now();
  MPI_File file = open_file(set ? MPI_COMM_SELF : MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY);
  const int64_t base = set ? 0 : rank * bytes;
  for (int64_t at = 0; at < bytes; at += CALL) {
    const int64_t size = bytes - at < CALL ? bytes - at : CALL;
    MPI(MPI_File_write_at(file, base + at, memory + at, (int)size, MPI_BYTE, MPI_STATUS_IGNORE));
  }
  const double written = now();
  if (sync_it) MPI(MPI_File_sync(file));
  MPI(MPI_File_close(&file));
  const double end = now();
  blocked += slowest(end - written);
  checkpoint += slowest(end - start);
}

int main(int argc, char** argv) {
  MPI(MPI_Init(&argc, &argv));
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  check(argc >= 5, "usage");
  const int steps = atoi(argv[2]);
  const int64_t bytes = atoll(argv[3]);
  const double seconds = atof(argv[4]);
  for (int i = 5; i < argc; ++i) {
    set |= strcmp(argv[i], "--set") == 0;
    sync_it |= strcmp(argv[i], "--sync") == 0;
    again |= strcmp(argv[i], "--again") == 0;
  }
  char* const memory = malloc((size_t)bytes);
  check(memory != NULL, "malloc");
  uint64_t state = (uint64_t)rank * 0x9e3779b97f4a7c15u + 88172645463325252u;
  for (int64_t i = 0; i + 8 <= bytes; i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    memcpy(memory + i, &state, 8);
  }
  MPI(MPI_Barrier(MPI_COMM_WORLD));
  const double start = now();
  for (int number = 0; number < steps; ++number) {
    compute(seconds);
    step(argv[1], number, memory, bytes);
  }
  compute(seconds);
  free(memory);
  MPI(MPI_Finalize());
  if (rank == 0) {
    printf("{\"blocked\": %.6f, \"checkpoint\": %.6f, \"run\": %.6f}\n", blocked, checkpoint, now() - start);
  }
  return 0;
}
