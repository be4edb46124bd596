// hooks_client ACTION FILE [ARGUMENT]: a program that does to FILE what careful programs do not, or what the ones in
// clients/ have no use for. It knows nothing about lzy. What its calls return is printed where tests want to know.
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BLOCK = 100000, NAME = 4096 };

static int rank, ranks;
static const char* path;
static const char* argument;
static char block[BLOCK];

static void fail(const char* what, const char* why) {
  fprintf(stderr, "hooks_client: rank %d: %s: %s: %s\n", rank, path, what, why);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static int check(int code, const char* call) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (code == MPI_SUCCESS) return code;
  MPI_Error_string(code, text, &length);
  fail(call, text);
  return code;
}

static void fill(int seed) {
  uint64_t state = (uint64_t)seed * 0x9e3779b97f4a7c15u + 1;
  for (int i = 0; i < BLOCK; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    block[i] = (char)state;
  }
}

static MPI_File open_with(MPI_Comm comm, const char* name, int mode, MPI_Info info) {
  MPI_File file = MPI_FILE_NULL;
  check(MPI_File_open(comm, name, mode, info, &file), "MPI_File_open");
  return file;
}

static MPI_File create(MPI_Comm comm, const char* name) {
  return open_with(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL);
}

static void write_block(MPI_File file, int number, int seed) {
  fill(seed);
  check(MPI_File_write_at(file, (MPI_Offset)number * BLOCK, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
}

static void close_file(MPI_File* file) {
  check(MPI_File_close(file), "MPI_File_close");
}

static void print_code(const char* call, int code) {
  int class = code;
  MPI_Error_class(code, &class);
  printf("%s %d %s\n", call, rank, class == MPI_SUCCESS ? "ok" : class == MPI_ERR_IO ? "MPI_ERR_IO" : "other");
  fflush(stdout);
}

// Ends this process as a crash does, without MPI_Finalize. Launchers may then kill the other ranks, wherever they are,
// lose what was printed and call the whole run a failure; so what is to be known afterwards is a file: CRASHED.RANK.
static void crash(void) {
  char name[NAME];
  snprintf(name, sizeof name, "CRASHED.%d", rank);
  const int note = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (note < 0 || close(note) != 0) fail(name, strerror(errno));
  MPI_Barrier(MPI_COMM_WORLD);  // nobody is killed before all have noted that they came here
  _exit(0);
}

// Waits for the test: it finds STEP.number, does what it wants to, and makes GO.number.
static void hold(int number) {
  char name[NAME];
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    snprintf(name, sizeof name, "STEP.%d", number);
    const int step = open(name, O_WRONLY | O_CREAT, 0666);
    if (step < 0 || close(step) != 0) fail(name, strerror(errno));
    snprintf(name, sizeof name, "GO.%d", number);
    while (access(name, F_OK) != 0) usleep(10000);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static void print_time(const char* what, double since) {
  printf("%s %d took %.3f\n", what, rank, MPI_Wtime() - since);
  fflush(stdout);
}

// FILE.RANK; or where FILE has an @, the rank in its place.
static void own_name(char* name) {
  const char* at = strchr(path, '@');
  if (at != NULL) {
    snprintf(name, NAME, "%.*s%d%s", (int)(at - path), path, rank, at + 1);
  } else {
    snprintf(name, NAME, "%s.%d", path, rank);
  }
}

// ----------------------------------------------------------------------------------------------------- Shared files

static void plain(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  write_block(file, rank, rank);
  close_file(&file);
}

// Sync between rounds, each of which changes one rank's block; everything is durable and committed after the last.
static void rounds(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  for (int round = 0; round < 3; ++round) {
    if (round == 0 || round % ranks == rank) write_block(file, rank, 10 * round + rank);
    check(MPI_File_sync(file), "MPI_File_sync");
  }
  close_file(&file);
}

// A commit, a write of one block after it, and a sudden end.
static void crash_after_sync(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  write_block(file, rank, rank);
  check(MPI_File_sync(file), "MPI_File_sync");
  if (rank == ranks - 1) write_block(file, rank, 100);
  crash();
}

static void crash_after_commit(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  write_block(file, rank, rank);
  check(MPI_File_sync(file), "MPI_File_sync");
  crash();
}

// A header put in by POSIX calls, when all have written.
static void patched(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  fill(rank);
  check(MPI_File_write_at_all(file, (MPI_Offset)rank * BLOCK, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE), "write_at_all");
  MPI_Barrier(MPI_COMM_WORLD);
  usleep(50000);  // more than the clock's tick
  if (rank == 0) {
    const int fd = open(path, O_WRONLY);
    if (fd < 0 || pwrite(fd, "HEADER", 6, 0) != 6 || close(fd) != 0) fail("pwrite", strerror(errno));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  close_file(&file);
}

// A block behind those that others write, and a sudden end.
static void write_and_crash(void) {
  MPI_File file = open_with(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL);
  write_block(file, 2, 55);
  crash();
}

// What the test does comes between the write and the close; or the sync.
static void held_up(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  write_block(file, rank, 60 + rank);
  hold(1);
  const double start = MPI_Wtime();
  print_code("close", MPI_File_close(&file));
  print_time("close", start);
}

// Both codes after what the test does, and what is there can still be read.
static void held_up_codes(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  write_block(file, rank, rank);
  check(MPI_File_sync(file), "MPI_File_sync");
  hold(1);
  const int code =
      MPI_File_write_at(file, (MPI_Offset)rank * BLOCK, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE);
  print_code("write", code);
  print_code("sync", MPI_File_sync(file));
  print_code("close", MPI_File_close(&file));
}

static void timed_open(void) {
  const double start = MPI_Wtime();
  MPI_File file = create(MPI_COMM_WORLD, path);
  print_time("open", start);
  close_file(&file);
}

static void held_up_at_sync(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  write_block(file, rank, 60 + rank);
  hold(1);
  print_code("sync", MPI_File_sync(file));
  hold(2);
  write_block(file, rank, 70 + rank);
  crash();
}

// Each opens it for itself, but only rank 0 writes; the others close it before rank 0 does.
static void one_of_several_writes(void) {
  MPI_File file = MPI_FILE_NULL;
  for (int turn = 0; turn < ranks; ++turn) {
    if (turn == rank) file = create(MPI_COMM_SELF, path);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (rank == 0) write_block(file, 0, 1);
  for (int turn = ranks - 1; turn >= 0; --turn) {
    if (turn == rank) close_file(&file);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

static void not_closed(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  write_block(file, rank, rank);
}

static void only_read(void) {
  MPI_File file = open_with(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL);
  check(MPI_File_read_at(file, 0, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE), "read_at");
  close_file(&file);
}

static void two_handles(void) {
  MPI_File first = create(MPI_COMM_WORLD, path);
  MPI_File second = create(MPI_COMM_WORLD, path);
  write_block(first, rank, rank);
  write_block(second, ranks + rank, ranks + rank);
  close_file(&first);
  write_block(second, rank, 50 + rank);
  close_file(&second);
}

static void alone_and_together(void) {
  MPI_File together = create(MPI_COMM_WORLD, path);
  MPI_File alone = MPI_FILE_NULL;
  if (rank == 0) alone = create(MPI_COMM_SELF, path);
  write_block(together, rank, rank);
  close_file(&together);
  if (rank == 0) {
    write_block(alone, 0, 70);
    close_file(&alone);
  }
}

// Nobody coordinates these: every rank opens the file for itself.
static void each_alone(void) {
  MPI_File file = create(MPI_COMM_SELF, path);
  write_block(file, rank, rank);
  close_file(&file);
}

static void renamed_while_open(void) {
  char other[NAME];
  snprintf(other, sizeof other, "%s.final", path);
  MPI_File file = create(MPI_COMM_WORLD, path);
  write_block(file, rank, rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0 && rename(path, other) != 0) fail("rename", strerror(errno));
  MPI_Barrier(MPI_COMM_WORLD);
  close_file(&file);
}

static void deleted_while_open(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  write_block(file, rank, rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) check(MPI_File_delete(path, MPI_INFO_NULL), "MPI_File_delete");
  MPI_Barrier(MPI_COMM_WORLD);
  write_block(file, ranks + rank, rank);
  close_file(&file);
}

static void deleted_by_posix(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  write_block(file, rank, rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0 && unlink(path) != 0) fail("unlink", strerror(errno));
  MPI_Barrier(MPI_COMM_WORLD);
  close_file(&file);
}

static void delete_it(void) {
  if (rank == 0) check(MPI_File_delete(path, MPI_INFO_NULL), "MPI_File_delete");
}

// As PnetCDF does to a file that it writes anew.
static void truncated_by_posix(void) {
  MPI_File file = open_with(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL);
  if (rank == 0 && truncate(path, 0) != 0) fail("truncate", strerror(errno));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == ranks - 1) write_block(file, 1, 33);
  close_file(&file);
}

// The program makes it shorter itself, and writes.
static void cut_and_write(void) {
  MPI_File file = open_with(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL);
  MPI_Offset size = 0;
  check(MPI_File_get_size(file, &size), "get_size");
  check(MPI_File_set_size(file, size - 1000), "set_size");
  write_block(file, rank, 5);
  close_file(&file);
}

// In the middle of an epoch, and written beyond the new end.
static void truncated_amid_writes(void) {
  MPI_File file = open_with(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL);
  check(MPI_File_write_at(file, rank, "x", 1, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0 && truncate(path, 1000) != 0) fail("truncate", strerror(errno));
  MPI_Barrier(MPI_COMM_WORLD);
  check(MPI_File_write_at(file, BLOCK + rank, "y", 1, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
  close_file(&file);
}

// Smaller by MPI, which says what is touched: nothing else is.
static void smaller(void) {
  MPI_File file = open_with(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL);
  check(MPI_File_set_size(file, 2 * BLOCK), "MPI_File_set_size");
  close_file(&file);
}

// ROMIO refuses a filetype with a negative lower bound, and goes on with it all the same.
static void written_after_a_refused_view(void) {
  MPI_File file = open_with(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL);
  const int lengths[] = {8, 8};
  const MPI_Aint offsets[] = {0, 2048};
  MPI_Datatype blocks, type;
  check(MPI_Type_create_hindexed(2, lengths, offsets, MPI_BYTE, &blocks), "MPI_Type_create_hindexed");
  check(MPI_Type_create_resized(blocks, -31, 4000, &type), "MPI_Type_create_resized");
  check(MPI_Type_commit(&type), "MPI_Type_commit");
  MPI_File_set_view(file, 8192, MPI_BYTE, type, "native", MPI_INFO_NULL);
  fill(77);
  MPI_File_write_at(file, 40 + 64 * rank, block, 64, MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_Type_free(&type);
  MPI_Type_free(&blocks);
  close_file(&file);
}

// ARGUMENT, BYTES or BYTES,RANK: from now on no file may be larger, in that rank or in all.
static void limit_files(void) {
  const char* comma = strchr(argument, ',');
  if (*argument == '\0' || (comma != NULL && atoi(comma + 1) != rank)) return;
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = (rlim_t)atol(argument);
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) fail("setrlimit", strerror(errno));
}

static void codes(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  write_block(file, rank, rank);
  limit_files();
  print_code("sync", MPI_File_sync(file));
  print_code("close", MPI_File_close(&file));
}

// ARGUMENT: key=value, a hint for MPI_File_open.
static void with_hint(void) {
  char key[MPI_MAX_INFO_KEY + 1] = "";
  const char* equals = strchr(argument, '=');
  if (!equals) fail("hint", argument);
  memcpy(key, argument, (size_t)(equals - argument));
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, key, equals + 1);
  MPI_File file = open_with(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info);
  write_block(file, rank, rank);
  print_code("close", MPI_File_close(&file));
  MPI_Info_free(&info);
}

// Calls that MPI refuses; what it says must not change.
// ARGUMENT: key=value:key=value, hints for MPI_File_open. Rank 0 prints what hints there are then.
static void hints(void) {
  char text[NAME];
  MPI_Info info;
  MPI_File file;
  int keys = 0;
  snprintf(text, sizeof text, "%s", argument);
  check(MPI_Info_create(&info), "MPI_Info_create");
  for (char* rest = text; *rest;) {
    char* key = strsep(&rest, ":");
    char* value = strchr(key, '=');
    if (!value) fail("hint", key);
    *value++ = '\0';
    check(MPI_Info_set(info, key, value), "MPI_Info_set");
    if (!rest) break;
  }
  file = open_with(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info);
  check(MPI_Info_free(&info), "MPI_Info_free");
  check(MPI_File_get_info(file, &info), "MPI_File_get_info");
  check(MPI_Info_get_nkeys(info, &keys), "MPI_Info_get_nkeys");
  for (int i = 0; rank == 0 && i < keys; ++i) {
    char key[MPI_MAX_INFO_KEY + 1], value[NAME];
    int found = 0;
    check(MPI_Info_get_nthkey(info, i, key), "MPI_Info_get_nthkey");
    check(MPI_Info_get(info, key, NAME - 1, value, &found), "MPI_Info_get");
    printf("%s=%s\n", key, value);
  }
  check(MPI_Info_free(&info), "MPI_Info_free");
  close_file(&file);
}

static void nothing(void) {
  MPI_File file = open_with(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL);
  close_file(&file);
}

static void refused(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  int class = 0;
  const int results[] = {
      MPI_File_write_at(file, -1, block, 1, MPI_BYTE, MPI_STATUS_IGNORE),
      MPI_File_write_at(file, 0, block, -1, MPI_BYTE, MPI_STATUS_IGNORE),
      MPI_File_write_at(file, 0, block, 1, MPI_DATATYPE_NULL, MPI_STATUS_IGNORE),
      MPI_File_set_size(file, -5),
      MPI_File_open(MPI_COMM_WORLD, "/does/not/exist", MPI_MODE_RDWR, MPI_INFO_NULL, &(MPI_File){MPI_FILE_NULL}),
      MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_RDONLY, MPI_INFO_NULL, &(MPI_File){MPI_FILE_NULL}),
      MPI_File_delete("/does/not/exist", MPI_INFO_NULL),
  };
  for (size_t i = 0; i < sizeof results / sizeof results[0]; ++i) {
    MPI_Error_class(results[i], &class);
    if (rank == 0) printf("%d ", class);
  }
  write_block(file, rank, rank);
  close_file(&file);
}

static void close_nothing(void) {
  int class = 0;
  MPI_Error_class(MPI_File_close(&(MPI_File){MPI_FILE_NULL}), &class);
  if (rank == 0) printf("%d ", class);
}

// Writes in sequential mode, where there are no positions to ask for.
static void sequential(void) {
  MPI_File file =
      open_with(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL);
  fill(rank);
  check(MPI_File_write_ordered(file, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE), "write_ordered");
  close_file(&file);
}

// Every block in an order of its own by its own rank, after a commit, in pieces that are no blocks of anybody's.
static void scattered_updates(void) {
  MPI_File file = open_with(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL);
  fill(99 + rank);
  for (int i = 0; i < 50; ++i) {
    const MPI_Offset at = (MPI_Offset)((i * 7919 + rank * 104729) % (ranks * BLOCK - 20));
    check(MPI_File_seek(file, at, MPI_SEEK_SET), "seek");
    check(MPI_File_write(file, block + i, 13, MPI_BYTE, MPI_STATUS_IGNORE), "write");
  }
  close_file(&file);
}

enum { SLAB = 2 << 20 };

// Each rank a slab of its own, in one piece: by itself, all together, and out of every other int in memory.
static void write_slabs(MPI_File file, int seed) {
  int* data = malloc(2 * SLAB);
  if (data == NULL) fail("malloc", "");
  for (int i = 0; i < 2 * SLAB / (int)sizeof *data; ++i) data[i] = (int)((unsigned)i * 48271u) + rank * 7 + seed;
  const MPI_Offset at = (MPI_Offset)rank * SLAB;
  const MPI_Offset all = (MPI_Offset)ranks * SLAB;
  MPI_Datatype every_other;
  MPI_Type_vector(SLAB / (int)sizeof *data, 1, 2, MPI_INT, &every_other);
  MPI_Type_commit(&every_other);
  check(MPI_File_write_at(file, at, data, SLAB, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
  check(MPI_File_write_at_all(file, all + at, data, SLAB, MPI_BYTE, MPI_STATUS_IGNORE), "write_at_all");
  check(MPI_File_write_at_all(file, 2 * all + at, data, 1, every_other, MPI_STATUS_IGNORE), "write_at_all");
  MPI_Type_free(&every_other);
  free(data);
}

static void slabs(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  write_slabs(file, 0);
  close_file(&file);
}

static void slabs_twice(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  write_slabs(file, 1);
  write_slabs(file, 2);
  close_file(&file);
}

enum { REQUESTS = 4, PIECE = SLAB / REQUESTS };

// Completes all of them by the call that ARGUMENT names.
static void complete(MPI_Request requests[REQUESTS]) {
  MPI_Status statuses[REQUESTS];
  MPI_Status* volatile ignored = MPI_STATUSES_IGNORE;  // compilers warn of what MPICH takes for it
  int indices[REQUESTS];
  int done = 0, some = 0, index = 0;
  if (strcmp(argument, "wait") == 0) {
    for (int i = 0; i < REQUESTS; ++i) check(MPI_Wait(&requests[i], i % 2 ? &statuses[i] : MPI_STATUS_IGNORE), argument);
  } else if (strcmp(argument, "test") == 0) {
    for (int i = 0; i < REQUESTS; ++i) {
      for (done = 0; !done;) check(MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE), argument);
    }
  } else if (strcmp(argument, "waitall") == 0) {
    check(MPI_Waitall(REQUESTS, requests, ignored), argument);
  } else if (strcmp(argument, "testall") == 0) {
    // MPICH 4.0 aborts in Testall when it has seen several that were not all done.
    for (int i = 1; i < REQUESTS; ++i) check(MPI_Wait(&requests[i], MPI_STATUS_IGNORE), "wait");
    while (!done) check(MPI_Testall(REQUESTS, requests, &done, statuses), argument);
  } else if (strcmp(argument, "waitany") == 0) {
    for (int i = 0; i < REQUESTS; ++i) check(MPI_Waitany(REQUESTS, requests, &index, &statuses[0]), argument);
  } else if (strcmp(argument, "testany") == 0) {
    for (int i = 0; i < REQUESTS; i += done) check(MPI_Testany(REQUESTS, requests, &index, &done, MPI_STATUS_IGNORE), argument);
  } else if (strcmp(argument, "waitsome") == 0) {
    for (int i = 0; i < REQUESTS; i += some) check(MPI_Waitsome(REQUESTS, requests, &some, indices, statuses), argument);
  } else if (strcmp(argument, "testsome") == 0) {
    for (int i = 0; i < REQUESTS; i += some) {
      check(MPI_Testsome(REQUESTS, requests, &some, indices, ignored), argument);
    }
  } else {
    fail("complete", argument);
  }
  for (int i = 0; i < REQUESTS; ++i) {
    if (requests[i] != MPI_REQUEST_NULL) fail("complete", "a request is left");
  }
}

// Each rank a slab of its own, in several nonblocking writes.
static void slabs_nonblocking(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  MPI_Request requests[REQUESTS];
  char* data = malloc(SLAB);
  if (data == NULL) fail("malloc", "");
  for (int i = 0; i < SLAB; ++i) data[i] = (char)(i / 7 * 31 + rank);
  const MPI_Offset at = (MPI_Offset)rank * SLAB;
  check(MPI_File_seek(file, at + PIECE, MPI_SEEK_SET), "seek");
  check(MPI_File_iwrite_at(file, at, data, PIECE, MPI_BYTE, &requests[0]), "iwrite_at");
  check(MPI_File_iwrite(file, data + PIECE, PIECE, MPI_BYTE, &requests[1]), "iwrite");
  check(MPI_File_iwrite(file, data + 2 * PIECE, PIECE, MPI_BYTE, &requests[2]), "iwrite");
  check(MPI_File_iwrite_at(file, at + 3 * PIECE, data + 3 * PIECE, PIECE, MPI_BYTE, &requests[3]), "iwrite_at");
  complete(requests);
  close_file(&file);
  free(data);
}

// The same by split collectives.
static void slabs_split(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  char* data = malloc(SLAB);
  MPI_Status status;
  if (data == NULL) fail("malloc", "");
  for (int i = 0; i < SLAB; ++i) data[i] = (char)(i / 7 * 31 + rank);
  const MPI_Offset at = (MPI_Offset)rank * SLAB;
  check(MPI_File_write_at_all_begin(file, at, data, SLAB / 2, MPI_BYTE), "write_at_all_begin");
  check(MPI_File_write_at_all_end(file, data, &status), "write_at_all_end");
  check(MPI_File_seek(file, at + SLAB / 2, MPI_SEEK_SET), "seek");
  check(MPI_File_write_all_begin(file, data + SLAB / 2, SLAB / 2, MPI_BYTE), "write_all_begin");
  check(MPI_File_write_all_end(file, data + SLAB / 2, MPI_STATUS_IGNORE), "write_all_end");
  close_file(&file);
  free(data);
}

// After a commit, a write of which only a part is allowed, by the call that ARGUMENT names. The program does not look.
static void too_large(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  char* data = malloc(SLAB);
  if (data == NULL) fail("malloc", "");
  memset(data, 'n', SLAB);
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  const struct rlimit none = limit;
  limit.rlim_cur = SLAB / 2 + 1000;
  signal(SIGXFSZ, SIG_IGN);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_File_write_at(file, 0, data, SLAB, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
  check(MPI_File_sync(file), "sync");
  setrlimit(RLIMIT_FSIZE, &limit);
  memset(data, 'm', SLAB);
  if (strcmp(argument, "write_at") == 0) {
    MPI_File_write_at(file, 0, data, SLAB, MPI_BYTE, MPI_STATUS_IGNORE);
  } else if (strcmp(argument, "write_at_all_begin") == 0) {
    if (MPI_File_write_at_all_begin(file, 0, data, SLAB, MPI_BYTE) == MPI_SUCCESS) {
      MPI_File_write_at_all_end(file, data, MPI_STATUS_IGNORE);
    }
  } else {
    const int code = strcmp(argument, "iwrite_at") == 0 ? MPI_File_iwrite_at(file, 0, data, SLAB, MPI_BYTE, &request)
                                                        : MPI_File_iwrite_at_all(file, 0, data, SLAB, MPI_BYTE, &request);
    if (code == MPI_SUCCESS) MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  setrlimit(RLIMIT_FSIZE, &none);
  close_file(&file);
  free(data);
}

// ROMIO sets the individual pointer back while it waits for collective calls, of others and of its own.
static void pointer_set_back(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  MPI_Request request;
  char some[100];
  fill(rank);
  check(MPI_File_set_view(file, rank * (MPI_Offset)BLOCK, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), "set_view");
  check(MPI_File_write(file, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE), "write");
  check(MPI_File_sync(file), "sync");
  for (int round = 0; round < 2; ++round) {
    check(MPI_File_seek(file, 10000, MPI_SEEK_SET), "seek");
    if (round == 0) {
      check(MPI_File_iread_at_all(file, 5, some, sizeof some, MPI_BYTE, &request), "iread_at_all");
    } else {
      check(MPI_File_iwrite_at_all(file, 5, block + 900, sizeof some, MPI_BYTE, &request), "iwrite_at_all");
    }
    check(MPI_File_write(file, block + 1000, 4096, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_Wait(&request, MPI_STATUS_IGNORE), "wait");
    check(MPI_File_write(file, block + 7000, 4096, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_File_sync(file), "sync");
  }
  close_file(&file);
}

// A program that changes its mind, or asks, between writes by the individual pointer. What it leaves is printed.
static void own_pointer(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  MPI_Offset at = 0;
  MPI_Datatype every_other;
  MPI_Request request;
  char some[9000];
  fill(rank);
  MPI_Type_vector(2, 100, 200 * ranks, MPI_BYTE, &every_other);
  MPI_Type_commit(&every_other);
  check(MPI_File_set_view(file, rank * 100, MPI_BYTE, every_other, "native", MPI_INFO_NULL), "set_view");
  check(MPI_File_write(file, block, 40000, MPI_BYTE, MPI_STATUS_IGNORE), "write");
  check(MPI_File_sync(file), "sync");
  for (int round = 0; round < 3; ++round) {
    check(MPI_File_seek(file, 20000, MPI_SEEK_SET), "seek");
    check(MPI_File_read(file, some, sizeof some, MPI_BYTE, MPI_STATUS_IGNORE), "read");
    check(MPI_File_write(file, block + round, 300, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_File_sync(file), "sync");
    check(MPI_File_seek(file, at, MPI_SEEK_SET), "seek");
    check(MPI_File_write(file, block, 1234, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_File_write(file, block + 50000, 0, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_File_iwrite(file, block + 1234, 777, MPI_BYTE, &request), "iwrite");
    check(MPI_Wait(&request, MPI_STATUS_IGNORE), "wait");
    check(MPI_File_seek(file, -500, MPI_SEEK_CUR), "seek");
    check(MPI_File_write_all(file, block + 3000, 900, MPI_BYTE, MPI_STATUS_IGNORE), "write_all");
    check(MPI_File_seek(file, 100, MPI_SEEK_SET), "seek");
    check(MPI_File_read(file, some, 1000, MPI_BYTE, MPI_STATUS_IGNORE), "read");
    check(MPI_File_write(file, some, 300, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_File_write_all_begin(file, block + 4000, 333, MPI_BYTE), "write_all_begin");
    check(MPI_File_write_all_end(file, block + 4000, MPI_STATUS_IGNORE), "write_all_end");
    check(MPI_File_iread(file, some, 10, MPI_BYTE, &request), "iread");
    check(MPI_Wait(&request, MPI_STATUS_IGNORE), "wait");
    check(MPI_File_write(file, block + 5000, 200, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_File_sync(file), "sync");
    check(MPI_File_write(file, block + 6000, 200, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_File_get_position(file, &at), "get_position");
    check(MPI_File_seek(file, 0, MPI_SEEK_END), "seek");
    check(MPI_File_write(file, block + 7000, 200, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_File_sync(file), "sync");
  }
  MPI_Type_free(&every_other);
  close_file(&file);
  printf("%d: %lld\n", rank, (long long)at);
}

// Threads with a file each, and all of them with one more by its individual pointer. Their own files are not shared
// with other ranks: ROMIO (MPICH 4.0.2) holds its one lock during the barrier in MPI_File_close, so two ranks that
// close two files from two threads lock each other out.
enum { THREADS = 4 };
static MPI_File everybodys;

static void* one_thread(void* of) {
  const int number = rank * THREADS + *(const int*)of;
  char name[NAME];
  char data[1000];
  memset(data, 'a' + number, sizeof data);
  snprintf(name, sizeof name, "%s.%d", path, number);
  for (int again = 0; again < 3; ++again) {
    MPI_File file = create(MPI_COMM_SELF, name);
    for (int i = 0; i < 50; ++i) {
      check(MPI_File_write_at(file, (MPI_Offset)i * (MPI_Offset)sizeof data, data, sizeof data, MPI_BYTE,
                              MPI_STATUS_IGNORE),
            "write_at");
      if (i == 25) check(MPI_File_sync(file), "MPI_File_sync");
      check(MPI_File_write(everybodys, data, sizeof data, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    }
    close_file(&file);
  }
  return NULL;
}

static void threads(void) {
  pthread_t running[THREADS];
  int numbers[THREADS];
  everybodys = create(MPI_COMM_WORLD, path);
  check(MPI_File_seek(everybodys, rank * (MPI_Offset)1000000, MPI_SEEK_SET), "seek");
  for (int i = 0; i < THREADS; ++i) {
    numbers[i] = i;
    pthread_create(&running[i], NULL, one_thread, &numbers[i]);
  }
  for (int i = 0; i < THREADS; ++i) pthread_join(running[i], NULL);
  close_file(&everybodys);
}

// --------------------------------------------------------------------------------------------------------- File sets

static void close_member(MPI_File* file) {
  const double start = MPI_Wtime();
  print_code("close", MPI_File_close(file));
  print_time("close", start);
}

static MPI_File write_member(void) {
  char name[NAME];
  own_name(name);
  MPI_File file = create(MPI_COMM_SELF, name);
  write_block(file, 0, rank);
  return file;
}

static void set(void) {
  MPI_File file = write_member();
  close_member(&file);
}

// With option set-sync both calls commit. ARGUMENT as of codes.
static void set_codes(void) {
  MPI_File file = write_member();
  limit_files();
  print_code("sync", MPI_File_sync(file));
  print_code("close", MPI_File_close(&file));
}

// Rank ARGUMENT's member gets another name while it is open.
static void set_renamed(void) {
  MPI_File file = write_member();
  char name[NAME], other[NAME + 8];
  own_name(name);
  snprintf(other, sizeof other, "%s.away", name);
  if (rank == atoi(argument) && rename(name, other) != 0) fail("rename", strerror(errno));
  close_member(&file);
}

// All open their members, rank ARGUMENT does not write its own.
static void set_but_one(void) {
  char name[NAME];
  own_name(name);
  MPI_File file = create(MPI_COMM_SELF, name);
  if (rank != atoi(argument)) write_block(file, 0, 80 + rank);
  close_member(&file);
}

// Steps, written by the same ranks in the same order, each to files of its own: FILE.STEP.RANK
static void set_steps(void) {
  for (int step = 0; step < 3; ++step) {
    char name[NAME];
    snprintf(name, sizeof name, "%s.%d.%d", path, step, rank);
    MPI_File file = create(MPI_COMM_SELF, name);
    write_block(file, 0, 100 * step + rank);
    close_file(&file);
  }
}

static void set_again(void) {
  for (int step = 0; step < 3; ++step) {
    MPI_File file = write_member();
    write_block(file, 1 + step, 100 * step + rank);
    close_file(&file);
  }
}

static void set_sync(void) {
  MPI_File file = write_member();
  check(MPI_File_sync(file), "MPI_File_sync");
  crash();
}

// A member written, and on disk already, so that its close has nothing to wait for but the other ranks.
static MPI_File write_member_durably(void) {
  MPI_File file = write_member();
  check(MPI_File_sync(file), "MPI_File_sync");
  return file;
}

// Rank ARGUMENT never opens its member. The others are all there when the first of them closes its own.
static void set_missing(void) {
  const int missing = rank == atoi(argument);
  MPI_File file = missing ? MPI_FILE_NULL : write_member_durably();
  MPI_Barrier(MPI_COMM_WORLD);
  if (!missing) close_member(&file);
}

// Rank ARGUMENT closes its member when all others are done with theirs.
static void set_late(void) {
  const int late = rank == atoi(argument);
  MPI_File file = write_member_durably();
  MPI_Barrier(MPI_COMM_WORLD);
  if (!late) close_member(&file);
  MPI_Barrier(MPI_COMM_WORLD);
  if (late) close_member(&file);
}

// Rank 0 opens the file of rank 1.
static void set_wrong_rank(void) {
  char name[NAME];
  snprintf(name, sizeof name, "%s.%d", path, (rank + 1) % ranks);
  MPI_File file = create(MPI_COMM_SELF, name);
  write_block(file, 0, rank);
  close_file(&file);
}

static void set_hint(void) {
  char name[NAME], pattern[NAME];
  own_name(name);
  snprintf(pattern, sizeof pattern, "%s.%%r", path);
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "lzy_set", pattern);
  MPI_File file = open_with(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info);
  write_block(file, 0, rank);
  close_file(&file);
  MPI_Info_free(&info);
}

// A file of as many bytes as the argument says, at most BLOCK, committed twice: at a sync, and after one more byte.
static void small(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  fill(1);
  if (rank == 0) check(MPI_File_write_at(file, 0, block, atoi(argument), MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
  check(MPI_File_sync(file), "sync");
  if (rank == ranks - 1) check(MPI_File_write_at(file, 0, "x", 1, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
  check(MPI_File_close(&file), "close");
}

typedef struct {
  const char* name;
  void (*act)(void);
} Action;

#define ACTION(name) \
  { #name, name }
static const Action actions[] = {
    ACTION(plain),
    ACTION(rounds),
    ACTION(patched),
    ACTION(crash_after_sync),
    ACTION(crash_after_commit),
    ACTION(write_and_crash),
    ACTION(held_up),
    ACTION(held_up_codes),
    ACTION(timed_open),
    ACTION(held_up_at_sync),
    ACTION(one_of_several_writes),
    ACTION(not_closed),
    ACTION(only_read),
    ACTION(two_handles),
    ACTION(alone_and_together),
    ACTION(each_alone),
    ACTION(delete_it),
    ACTION(renamed_while_open),
    ACTION(deleted_while_open),
    ACTION(deleted_by_posix),
    ACTION(codes),
    ACTION(truncated_by_posix),
    ACTION(truncated_amid_writes),
    ACTION(cut_and_write),
    ACTION(small),
    ACTION(smaller),
    ACTION(written_after_a_refused_view),
    ACTION(with_hint),
    ACTION(hints),
    ACTION(nothing),
    ACTION(refused),
    ACTION(close_nothing),
    ACTION(sequential),
    ACTION(scattered_updates),
    ACTION(slabs),
    ACTION(slabs_twice),
    ACTION(slabs_nonblocking),
    ACTION(slabs_split),
    ACTION(too_large),
    ACTION(pointer_set_back),
    ACTION(own_pointer),
    ACTION(set),
    ACTION(set_but_one),
    ACTION(set_renamed),
    ACTION(set_steps),
    ACTION(set_again),
    ACTION(set_codes),
    ACTION(set_sync),
    ACTION(set_missing),
    ACTION(threads),
    ACTION(set_late),
    ACTION(set_wrong_rank),
    ACTION(set_hint),
};

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, argc > 1 && strcmp(argv[1], "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                  &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  path = argc > 2 ? argv[2] : "";
  argument = argc > 3 ? argv[3] : "";
  int found = 0;
  for (size_t i = 0; argc > 2 && i < sizeof actions / sizeof actions[0]; ++i) {
    if (strcmp(argv[1], actions[i].name) != 0) continue;
    found = 1;
    actions[i].act();
  }
  if (!found && rank == 0) fprintf(stderr, "usage: hooks_client ACTION FILE [ARGUMENT]\n");
  MPI_Finalize();
  return found ? 0 : 2;
}
