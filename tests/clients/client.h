// What the small programs here have in common. Each writes one file through one library of the MPI-IO world, in one of
// several modes, and can read it back through the same library:
//
//   PROGRAM --list                               prints its modes, one a line
//   PROGRAM MODE FILE                            makes FILE
//   PROGRAM MODE FILE --again                    opens it again and changes it
//   PROGRAM MODE FILE --check [--again]          compares it with what the first run (or both) should have left
//   PROGRAM MODE FILE [--again] --pause PREFIX   stops in mid-run, right after a flush: tells by a byte through the
//                                                FIFO PREFIX.at, and goes on after a byte through PREFIX.go
//
// It prints nothing and exits with 0, or says what went wrong and ends all ranks.
#ifndef LZY_TESTS_CLIENTS_CLIENT_H_
#define LZY_TESTS_CLIENTS_CLIENT_H_

#include <fcntl.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  const char* mode;
  const char* file;
  const char* pause;
  bool check;
  bool again;
  int rank;
  int ranks;
} Client;

static Client client;

__attribute__((format(printf, 1, 2))) static inline _Noreturn void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "rank %d: %s %s: ", client.rank, client.mode ? client.mode : "", client.file ? client.file : "");
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  abort();
}

/// Is this what the program was asked to do?
static inline bool mode_is(const char* mode) {
  return strcmp(client.mode, mode) == 0;
}

/// Starts MPI and reads the command line; `modes` ends with NULL.
static inline void start(int argc, char** argv, const char* const* modes) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &client.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &client.ranks);
  if (argc == 2 && strcmp(argv[1], "--list") == 0) {
    for (; client.rank == 0 && *modes; ++modes) puts(*modes);
    MPI_Finalize();
    exit(0);
  }
  if (argc < 3) fail("usage: %s --list | MODE FILE [--again] [--check] [--pause PREFIX]", argv[0]);
  client.mode = argv[1];
  client.file = argv[2];
  while (*modes && strcmp(*modes, client.mode) != 0) ++modes;
  if (!*modes) fail("unknown mode; --list prints those there are");
  for (int i = 3; i < argc; ++i) {
    if (strcmp(argv[i], "--again") == 0) {
      client.again = true;
    } else if (strcmp(argv[i], "--check") == 0) {
      client.check = true;
    } else if (strcmp(argv[i], "--pause") == 0 && i + 1 < argc) {
      client.pause = argv[++i];
    } else {
      fail("unknown option %s", argv[i]);
    }
  }
}

static inline int client_fifo(const char* suffix, int flags) {
  char path[4096];
  snprintf(path, sizeof path, "%s%s", client.pause, suffix);
  const int fd = open(path, flags);
  if (fd < 0) fail("cannot open %s", path);
  return fd;
}

/// Collective: the place where --pause stops. Does nothing without it.
static inline void pause_here(void) {
  if (!client.pause) return;
  MPI_Barrier(MPI_COMM_WORLD);
  if (client.rank == 0) {
    char byte = '.';
    const int at = client_fifo(".at", O_WRONLY);
    if (write(at, &byte, 1) != 1) fail("nobody reads %s.at", client.pause);
    close(at);
    const int go = client_fifo(".go", O_RDONLY);
    if (read(go, &byte, 1) != 1) fail("nobody writes %s.go", client.pause);
    close(go);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// The number at place `index` of the variable `seed`; no two bytes of a file should be alike by chance.
static inline int32_t value_at(int seed, int64_t index) {
  uint64_t x = (uint64_t)index * 0x9E3779B97F4A7C15u + (uint64_t)seed * 0xD1B54A32D192ED03u;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  return (int32_t)(x >> 32);
}

/// New memory for `count` numbers of `seed`, from place `first` on. Freed by the caller.
static inline int32_t* values(int seed, int64_t first, int64_t count) {
  int32_t* memory = malloc((size_t)(count > 0 ? count : 1) * sizeof *memory);
  if (!memory) fail("out of memory");
  for (int64_t i = 0; i < count; ++i) memory[i] = value_at(seed, first + i);
  return memory;
}

/// Fails unless `found` holds `count` numbers of `seed` from place `first` on.
static inline void expect_values(const char* what, const int32_t* found, int seed, int64_t first, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const int32_t expected = value_at(seed, first + i);
    if (found[i] != expected) fail("%s: [%lld] is %d, not %d", what, (long long)(first + i), found[i], expected);
  }
}

/// The whole program: what the options ask for.
static inline int run_client(int argc, char** argv, const char* const* modes, void (*first_run)(void),
                             void (*second_run)(void), void (*check)(void)) {
  start(argc, argv, modes);
  (client.check ? check : client.again ? second_run : first_run)();
  MPI_Finalize();
  return 0;
}

#endif  // LZY_TESTS_CLIENTS_CLIENT_H_
