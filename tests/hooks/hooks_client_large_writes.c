// Actions of hooks_client that write slabs: so large that the layer captures them from the program's buffers.
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "hooks_client.h"

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

// Each rank a file of its own, in several writes. Ends in a part of a block.
static void set_slabs(void) {
  char name[NAME];
  own_name(name);
  MPI_File file = create(MPI_COMM_SELF, name);
  char* data = malloc(SLAB);
  if (data == NULL) fail("malloc", "");
  for (int i = 0; i < SLAB; ++i) data[i] = (char)(i / 7 * 31 + rank);
  for (int i = 0; i < REQUESTS; ++i) {
    const int length = i + 1 < REQUESTS ? PIECE : PIECE - 12345;
    check(MPI_File_write_at(file, (MPI_Offset)i * PIECE, data + i * PIECE, length, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
  }
  close_file(&file);
  free(data);
}

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

const Action large_write_actions[] = {
    ACTION(set_slabs),
    ACTION(slabs),
    ACTION(slabs_twice),
    ACTION(slabs_nonblocking),
    ACTION(slabs_split),
    ACTION(too_large),
    END_OF_ACTIONS,
};
