// bench_writer PATTERN FILE BYTES [--sync] [--also BYTES] [--sums M]: writes through MPI-IO as programs do.
// Prints one JSON object: `seconds` from the open until the close, and `commit`, those of the sync and the close
// alone, both of the slowest rank; `resident`, the largest resident size of each rank in KiB. Knows nothing about
// lzy; the script `run` starts it with the layer and without. All that a rank writes lies in its memory before, as
// the state of a simulation does.
//
// PATTERN is one of these; BYTES are those of each rank, unless it says otherwise:
//
//   contiguous            one file; the bytes of a rank follow each other
//   strided-collective    one file; pieces of 1 MiB go round, written through a view of a vector type
//   strided-independent   the same by independent calls
//   strided-odd           the same with pieces of 1,000,000 bytes, which end within blocks
//   set                   one file per rank, FILE.RANK
//   files                 as many files as BYTES has MiB, of 4 KiB each, FILE.RANK.NUMBER, one after the other
//   hdf5                  one dataset in a parallel HDF5 file, written collectively (if built with HDF5)
//   touch-contiguous      changes 1 % of the existing FILE of BYTES in all, in one place
//   touch-scattered       changes as much of it in blocks of 64 KiB, all over the file
//   touch-block           changes one such block
//   survivors             reads the files of a set but the last, and writes that one: the least that a restore can do
//   rewrite               reads the file of a set and writes --also BYTES to FILE.also.RANK: the least that protecting
//                         a set can do
//
// --sync: MPI_File_sync before the close.
// --sums M, with the first patterns: after each write, what was written is read once more and added to M sums, and before
// the close --also BYTES are written to FILE.also.RANK. That is the least that protecting a file can do: hashes come for
// nothing here, and so do messages between ranks and metadata.
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef BENCH_HAVE_HDF5
#include <hdf5.h>
#endif

#include "client.h"

// Bytes of a piece of the strided patterns, of a scattered write, of one call otherwise, of a name.
enum { PIECE = 1 << 20, BLOCK = 64 << 10, CALL = 16 << 20, NAME = 4096 };

// The command line, and what MPI tells.
static const char* pattern;
static const char* path;
static char* memory;
static int64_t bytes, also;
static int rank, ranks, sync_it, sum_count;
static char* sums;
// Seconds of sync and close on this rank.
static double commit;

static int is(const char* name) {
  return strcmp(pattern, name) == 0;
}

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// Data that cannot be taken for zeros, repeated or compressed: xorshift, seeded by rank and process.
static void fill(char* to, int64_t size) {
  uint64_t state = 0x9e3779b97f4a7c15u * (uint64_t)(rank + 1) + (uint64_t)getpid();
  for (int64_t i = 0; i + 8 <= size; i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    memcpy(to + i, &state, 8);
  }
}

// Adds bytes to the sums, piece by piece, as blocks are added to the sums of their rows. All stays in the cache but `from`.
static void add(const char* from, int64_t size) {
  for (int64_t done = 0; done < size; done += PIECE) {
    const uint64_t* piece = (const uint64_t*)(const void*)(from + done);
    const int64_t words = smaller(PIECE, size - done) / 8;
    for (int q = 0; q < sum_count; ++q) {
      uint64_t* sum = (uint64_t*)(void*)(sums + (int64_t)q * PIECE);
      for (int64_t i = 0; i < words; ++i) sum[i] ^= piece[i];
    }
  }
}

static MPI_File open_own(const char* infix, int mode);

// The parity: any bytes will do.
static void write_also(void) {
  if (sum_count == 0) return;
  MPI_File file = open_own(".also", MPI_MODE_CREATE | MPI_MODE_WRONLY);
  for (int64_t done = 0; done < also; done += PIECE)
    MPI(MPI_File_write_at(file, done, sums + done / PIECE % sum_count * PIECE, (int)smaller(PIECE, also - done), MPI_BYTE,
                          MPI_STATUS_IGNORE));
  if (sync_it) MPI(MPI_File_sync(file));
  MPI(MPI_File_close(&file));
}

// Sync and close, timed by themselves. The barrier keeps one rank's writing from counting as another's commit.
static void finish(MPI_File* file) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  write_also();
  if (sync_it) MPI(MPI_File_sync(*file));
  MPI(MPI_File_close(file));
  commit = MPI_Wtime() - start;
}

// Independent writes of at most CALL bytes.
static void write_at(MPI_File file, int64_t offset, const char* from, int64_t size) {
  for (int64_t done = 0; done < size; done += CALL) {
    const int64_t part = smaller(CALL, size - done);
    MPI(MPI_File_write_at(file, offset + done, from + done, (int)part, MPI_BYTE, MPI_STATUS_IGNORE));
    add(from + done, part);
  }
}

// The bytes of a rank follow each other in the shared file, rank after rank.
static void contiguous(void) {
  MPI_File file = open_file(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY);
  write_at(file, rank * bytes, memory, bytes);
  finish(&file);
}

// A file of this rank alone: FILE, `infix`, and the rank.
static MPI_File open_own(const char* infix, int mode) {
  char name[NAME];
  snprintf(name, sizeof name, "%s%s.%d", path, infix, rank);
  return open_file(MPI_COMM_SELF, name, mode);
}

// Many small files. Each is opened, written and closed before the next one, as output of single time steps is.
static void files(void) {
  for (int64_t i = 0; i < bytes / PIECE; ++i) {
    char name[NAME];
    snprintf(name, sizeof name, "%s.%d.%d", path, rank, (int)i);
    MPI_File file = open_file(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_WRONLY);
    write_at(file, 0, memory, 4096);
    MPI(MPI_File_close(&file));
  }
}

static void set(void) {
  MPI_File file = open_own("", MPI_MODE_CREATE | MPI_MODE_WRONLY);
  write_at(file, 0, memory, bytes);
  finish(&file);
}

// Reads all of this rank's member of a set.
static MPI_File read_own(void) {
  MPI_File file = open_own("", MPI_MODE_RDONLY);
  for (int64_t done = 0; done < bytes; done += CALL)
    MPI(MPI_File_read_at(file, done, memory + done, (int)smaller(CALL, bytes - done), MPI_BYTE, MPI_STATUS_IGNORE));
  return file;
}

// Pieces of all ranks go round the file, through a view.
static void strided(void) {
  const int piece = is("strided-odd") ? 1000000 : PIECE;
  int (*write)(MPI_File, const void*, int, MPI_Datatype, MPI_Status*) =
      is("strided-collective") ? MPI_File_write_all : MPI_File_write;
  MPI_Datatype pieces;
  // All pieces of a rank are one vector, so that MPI may combine those of all ranks in a collective call.
  // RDWR, because ROMIO may read what lies between the pieces (data sieving).
  MPI_File file = open_file(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR);
  MPI(MPI_Type_vector((int)((bytes + piece - 1) / piece), piece, ranks * piece, MPI_BYTE, &pieces));
  MPI(MPI_Type_commit(&pieces));
  MPI(MPI_File_set_view(file, (MPI_Offset)rank * piece, MPI_BYTE, pieces, "native", MPI_INFO_NULL));
  for (int64_t done = 0; done < bytes; done += CALL) {
    const int64_t part = smaller(CALL, bytes - done);
    MPI(write(file, memory + done, (int)part, MPI_BYTE, MPI_STATUS_IGNORE));
    add(memory + done, part);
  }
  MPI(MPI_Type_free(&pieces));
  finish(&file);
}

// Changes 1 % of an existing file; every rank does its share. In one place, or in many: a commit must read what lies
// beside the changed bytes, so where they lie matters.
static void touch(void) {
  MPI_File file = open_file(MPI_COMM_WORLD, path, MPI_MODE_RDWR);
  if (is("touch-scattered")) {
    const int64_t blocks = bytes / BLOCK, touched = (blocks + 99) / 100;
    for (int64_t i = rank; i < touched; i += ranks) write_at(file, i * blocks / touched * BLOCK, memory, BLOCK);
  } else if (is("touch-block")) {
    if (rank == 0) write_at(file, bytes / 3 / BLOCK * BLOCK, memory, BLOCK);
  } else {
    const int64_t share = bytes / 100 / ranks;
    write_at(file, bytes / 3 + rank * share, memory, share);
  }
  finish(&file);
}

// `survivors` and `rewrite` know nothing of lzy either. They move the bytes that lzy must move, without hashes and
// sums.
//
// The least that a restore of one member can do: the other ranks read, the last one writes.
static void survivors(void) {
  if (rank == ranks - 1) {
    set();
    return;
  }
  MPI_File file = read_own();
  finish(&file);
}

// The least that protecting a set can do: every rank reads its member and writes as much as its sidecar has.
static void rewrite(void) {
  MPI_File from = read_own();
  MPI_File to = open_own(".also", MPI_MODE_CREATE | MPI_MODE_WRONLY);
  write_at(to, 0, memory, also);
  MPI(MPI_File_close(&from));
  finish(&to);
}

// One dataset, written collectively. The time of the commit begins when all have written, as in finish().
// Without HDF5, the program fails; bench/run then says so in its page.
static void hdf5(void) {
#ifdef BENCH_HAVE_HDF5
  const hsize_t all = (hsize_t)(bytes / 8) * (hsize_t)ranks, mine = (hsize_t)(bytes / 8), at = mine * (hsize_t)rank;
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
  check(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0, "H5Pset_fapl_mpio");
  check(H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE) >= 0, "H5Pset_dxpl_mpio");
  const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
  const hid_t space = H5Screate_simple(1, &all, NULL), part = H5Screate_simple(1, &mine, NULL);
  const hid_t data = H5Dcreate2(file, "state", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  check(H5Sselect_hyperslab(space, H5S_SELECT_SET, &at, NULL, &mine, NULL) >= 0, "H5Sselect_hyperslab");
  check(H5Dwrite(data, H5T_NATIVE_DOUBLE, part, space, transfer, memory) >= 0, "H5Dwrite");
  add(memory, bytes);
  H5Dclose(data);
  H5Sclose(part);
  H5Sclose(space);
  H5Pclose(transfer);
  H5Pclose(access);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  write_also();
  if (sync_it) check(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, "H5Fflush");
  check(H5Fclose(file) >= 0, "H5Fclose");
  commit = MPI_Wtime() - start;
#else
  check(0, "HDF5: built without it;");
#endif
}

// A pattern that stands for several names looks at `pattern` itself.
static const struct {
  const char* name;
  void (*run)(void);
} patterns[] = {
    {"contiguous", contiguous}, {"strided-collective", strided}, {"strided-independent", strided},
    {"strided-odd", strided},   {"set", set},                    {"hdf5", hdf5},
    {"files", files},           {"touch-block", touch},          {"touch-contiguous", touch},
    {"touch-scattered", touch}, {"survivors", survivors},        {"rewrite", rewrite},
};

static void work(void) {
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; ++i) {
    if (is(patterns[i].name)) {
      patterns[i].run();
      return;
    }
  }
  check(0, "the pattern is not one of these at the top of writer.c;");
}

// One line of JSON by rank 0: times of the slowest rank, memory of every rank.
static void report(double seconds) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  double mine[2] = {seconds, commit}, slowest[2];
  long* resident = malloc((size_t)ranks * sizeof *resident);
  MPI_Reduce(mine, slowest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Gather(&usage.ru_maxrss, 1, MPI_LONG, resident, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("{\"seconds\": %.6f, \"commit\": %.6f, \"resident\": [", slowest[0], slowest[1]);
    for (int i = 0; i < ranks; ++i) printf("%s%ld", i > 0 ? ", " : "", resident[i]);
    printf("]}\n");
  }
  free(resident);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  pattern = argc > 1 ? argv[1] : "";
  path = argc > 2 ? argv[2] : "";
  bytes = argc > 3 ? atoll(argv[3]) : 0;
  for (int i = 4; i < argc; ++i) {
    if (strcmp(argv[i], "--sync") == 0)
      sync_it = 1;
    else if (strcmp(argv[i], "--also") == 0 && i + 1 < argc)
      also = atoll(argv[++i]);
    else if (strcmp(argv[i], "--sums") == 0 && i + 1 < argc)
      sum_count = atoi(argv[++i]);
    else
      check(0, argv[i]);
  }
  check(bytes > 0 && bytes % PIECE == 0, "BYTES, a multiple of 1 MiB,");
  check(also >= 0 && also <= bytes, "--also, at most BYTES,");
  // The touch patterns write little, so they hold little in memory.
  const int64_t held = strncmp(pattern, "touch", 5) == 0 ? bytes / 64 : bytes;
  memory = malloc((size_t)held);
  check(memory != NULL, "malloc");
  fill(memory, held);
  check(sum_count >= 0 && sum_count < 255, "--sums, a number below 255,");
  sums = malloc((size_t)(sum_count + 1) * PIECE);
  check(sums != NULL, "malloc");
  memset(sums, 1, (size_t)(sum_count + 1) * PIECE);
  // From here on, the slowest rank counts; making the data must not be in the time.
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  work();
  report(MPI_Wtime() - start);
  free(memory);
  free(sums);
  MPI_Finalize();
  return 0;
}
