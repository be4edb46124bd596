// bench_idioms IDIOM FILE BYTES [own]: writes a file of BYTES bytes in all (a multiple of 64 KiB for each rank), opened
// and written in one of the ways that programs have for it. Whatever the idiom, the file ends up with the same bytes, so
// root and parity must be the same. Knows nothing about lzy. tests/hooks/idioms_test.py and the script `run` start it
// with the layer and without, and look at how much of the file the commit reads back (docs/design/commit.md "Capture").
//
// With "own", every rank does so with a file of its own, FILE.RANK, which has its part of the bytes.
//
// IDIOM is one of these:
//
//   plain             create, write, close
//   cut-to-zero       MPI_File_set_size(0) before the first write: the only way to truncate in MPI-IO
//   final-size        MPI_File_set_size(BYTES) before the first write
//   grow              a quarter is written, then MPI_File_set_size(BYTES), then the rest
//   shrink            all is written, then MPI_File_set_size(BYTES / 2), then the second half again
//   preallocate       MPI_File_preallocate(BYTES) before the first write
//   exclusive         MPI_MODE_CREATE | MPI_MODE_EXCL
//   delete            MPI_File_delete of the old file, then create, write, close
//   sync              MPI_File_sync after the first half
//   header-last       a header of 4000 bytes is written first, and again as the last thing before the close
//   header-in-place   every rank writes all of its part, then rank 0 writes 8 bytes of the first block again
//   random            blocks of 64 KiB, dealt to the ranks at random and written in random order
//   random-large      the same with pieces of 1 MiB
//   small             writes of 1000 bytes one after the other
//   backwards         writes of 100,000 bytes, the last one first
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "client.h"

enum { BLOCK = 64 << 10, CALL = 4 << 20, HEADER = 4000 };

static const char* idiom;
static const char* path;
static int64_t all, mine, first;  // bytes of the file; of this rank's part, and where it begins
static int rank, ranks;           // among those that write the file
static int64_t base;              // the contents are those of a file that this many bytes lie before
static MPI_Comm comm = MPI_COMM_WORLD;
static char* memory;  // what this rank's part has to contain

static int is(const char* name) {
  return strcmp(idiom, name) == 0;
}

// The byte that belongs at `offset`: no two blocks are alike.
static void fill(char* to, int64_t offset, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    const uint64_t at = (uint64_t)(base + offset + i);
    to[i] = (char)((at / 8 * 0x9e3779b97f4a7c15u) >> (56 - at % 8));
  }
}

static void write_at(MPI_File file, int64_t offset, const char* from, int64_t size) {
  MPI(MPI_File_write_at(file, offset, from, (int)size, MPI_BYTE, MPI_STATUS_IGNORE));
}

// [from, to) of this rank's part, in writes of at most `step` bytes.
static void write_part(MPI_File file, int64_t from, int64_t to, int64_t step) {
  for (int64_t at = from; at < to; at += step)
    write_at(file, first + at, memory + at, to - at < step ? to - at : step);
}

static void write_backwards(MPI_File file, int64_t step) {
  for (int64_t at = (mine - 1) / step * step; at >= 0; at -= step)
    write_at(file, first + at, memory + at, mine - at < step ? mine - at : step);
}

// Pieces of the whole file in random order, the same on all ranks. Each piece is of one rank, also by chance.
static void write_random(MPI_File file, int64_t piece) {
  const int64_t count = (all + piece - 1) / piece;
  int64_t* order = malloc((size_t)count * sizeof *order);
  char* bytes = malloc((size_t)piece);
  uint64_t state = 88172645463325252u;
  for (int64_t i = 0; i < count; ++i) order[i] = i;
  for (int64_t i = count - 1; i >= 0; --i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const int64_t other = (int64_t)(state % (uint64_t)(i + 1)), at = order[other];
    order[other] = order[i];
    order[i] = at;
    if ((int)((state >> 32) % (uint64_t)ranks) != rank) continue;
    const int64_t offset = at * piece, size = all - offset < piece ? all - offset : piece;
    fill(bytes, offset, size);
    write_at(file, offset, bytes, size);
  }
  free(bytes);
  free(order);
}

static MPI_File open_for(int mode) {
  return open_file(comm, path, mode);
}

// All ranks see the file gone before one of them creates it again.
static void delete_old(void) {
  if (rank == 0) MPI_File_delete(path, MPI_INFO_NULL);
  MPI_Barrier(comm);
}

static void write_grown(MPI_File file) {
  if (rank == 0) write_part(file, 0, mine / 4, CALL);
  MPI(MPI_File_set_size(file, all));
  write_part(file, rank == 0 ? mine / 4 : 0, mine, CALL);
}

// Every rank writes again what lies in the second half of the file.
static void write_shrunk(MPI_File file) {
  write_part(file, 0, mine, CALL);
  MPI(MPI_File_set_size(file, all / 2));
  const int64_t from = all / 2 > first ? all / 2 - first : 0;
  if (from < mine) write_part(file, from, mine, CALL);
}

static void write_with_header(MPI_File file) {
  if (rank == 0) write_at(file, 0, memory, HEADER);
  write_part(file, rank == 0 ? HEADER : 0, mine, CALL);
  if (rank == 0) write_at(file, 0, memory, HEADER);
}

static void work(void) {
  if (is("delete") || is("exclusive")) delete_old();
  MPI_File file = open_for(MPI_MODE_CREATE | MPI_MODE_RDWR | (is("exclusive") ? MPI_MODE_EXCL : 0));
  if (is("cut-to-zero")) MPI(MPI_File_set_size(file, 0));
  if (is("final-size")) MPI(MPI_File_set_size(file, all));
  if (is("preallocate")) MPI(MPI_File_preallocate(file, all));
  if (is("grow")) {
    write_grown(file);
  } else if (is("shrink")) {
    write_shrunk(file);
  } else if (is("header-last")) {
    write_with_header(file);
  } else if (is("random") || is("random-large")) {
    write_random(file, is("random") ? BLOCK : 1 << 20);
  } else if (is("small")) {
    write_part(file, 0, mine, 1000);
  } else if (is("backwards")) {
    write_backwards(file, 100000);
  } else if (is("sync")) {
    write_part(file, 0, mine / 2, CALL);
    MPI(MPI_File_sync(file));
    write_part(file, mine / 2, mine, CALL);
  } else {
    write_part(file, 0, mine, CALL);
    if (is("header-in-place") && rank == 0) write_at(file, 0, memory, 8);
  }
  MPI(MPI_File_close(&file));
}

// From here on, this rank writes its part to a file of its own.
static void be_alone(void) {
  static char name[4096];
  snprintf(name, sizeof name, "%s.%d", path, rank);
  path = name;
  base = first;
  all = mine;
  first = 0;
  rank = 0;
  ranks = 1;
  comm = MPI_COMM_SELF;
}

// One line of JSON by rank 0, with the names that bench_writer has. The largest process, in KiB.
static void report(double seconds) {
  struct rusage usage;
  long most = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  getrusage(RUSAGE_SELF, &usage);
  MPI_Reduce(&usage.ru_maxrss, &most, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("{\"seconds\": %.6f, \"resident\": [%ld]}\n", seconds, most);
}

int main(int argc, char** argv) {
  static const char* const known[] = {"plain",       "cut-to-zero", "final-size",      "grow",   "shrink",
                                      "preallocate", "exclusive",   "delete",          "sync",   "header-last",
                                      "header-in-place", "random",  "random-large",    "small",  "backwards"};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  idiom = argc > 1 ? argv[1] : "";
  path = argc > 2 ? argv[2] : "";
  all = argc > 3 ? atoll(argv[3]) : 0;
  int found = 0;
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) found |= is(known[i]);
  check(found, "an IDIOM of those at the top of idioms.c");
  check(all > 0 && all % ((int64_t)ranks * BLOCK) == 0, "BYTES, a multiple of 64 KiB for each rank,");
  mine = all / ranks;
  first = rank * mine;
  if (argc > 4 && strcmp(argv[4], "own") == 0) be_alone();
  memory = malloc((size_t)mine);
  check(memory != NULL, "malloc");
  fill(memory, first, mine);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  work();
  MPI_Barrier(MPI_COMM_WORLD);
  report(MPI_Wtime() - start);
  free(memory);
  MPI_Finalize();
  return 0;
}
