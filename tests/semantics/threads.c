// Several threads, each with files of its own or one they share.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "semantics.h"

enum { THREADS = 4, ROUNDS = 3, PIECE = 20000 };

typedef struct {
  int number;
  MPI_Comm comm;
  MPI_File file;
  int failed;  // calls
  char bytes[PIECE];
} Worker;

static Worker workers[THREADS];

static void make_bytes(Worker* self, int round) {
  for (int i = 0; i < PIECE; ++i) self->bytes[i] = (char)(i * 7 + rank * 31 + round * 13 + self->number);
}

static void check(Worker* self, int code) {
  if (code != MPI_SUCCESS) ++self->failed;
}

static int enough(void) {
  if (threads_level == MPI_THREAD_MULTIPLE) return 1;
  tell("unsupported");
  return 0;
}

static void in_threads(void* (*work)(void*)) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    workers[i].number = i;
    workers[i].failed = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
  }
  for (int i = 0; i < THREADS; ++i) {
    if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0) fail("pthread_create", "");
  }
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; ++i) {
    MPI_Comm_free(&workers[i].comm);
    tell("thread %d: %d calls failed", i, workers[i].failed);
  }
}

static void tell_count(Worker* self, MPI_Status* status) {
  int count = -1;
  MPI_Get_count(status, MPI_BYTE, &count);
  if (count != PIECE) ++self->failed;
}

// MPICH 4.0 and Open MPI 4.1 hang when several threads are in collective I/O of several processes.
static MPI_Comm comm_of(const Worker* self) {
  return ranks == 1 ? self->comm : MPI_COMM_SELF;
}

static void* with_own_file(void* argument) {
  Worker* self = argument;
  const int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
  char name[64];
  MPI_Status status;
  MPI_Request request;
  snprintf(name, sizeof name, "f.%d.of.%d", self->number, comm_of(self) == MPI_COMM_SELF ? rank : ranks);
  check(self, MPI_File_open(comm_of(self), name, mode, MPI_INFO_NULL, &self->file));
  for (int round = 0; round < ROUNDS; ++round) {
    const MPI_Offset at = 3 * PIECE * (MPI_Offset)(round * ranks + rank);
    make_bytes(self, round);
    check(self, MPI_File_write_at(self->file, at, self->bytes, PIECE, MPI_BYTE, &status));
    tell_count(self, &status);
    check(self, MPI_File_write_at_all(self->file, at + PIECE, self->bytes, PIECE, MPI_BYTE, &status));
    tell_count(self, &status);
    check(self, MPI_File_iwrite_at(self->file, at + 2 * PIECE, self->bytes, PIECE, MPI_BYTE, &request));
    check(self, MPI_Wait(&request, &status));
    tell_count(self, &status);
    if (round % 2 == 0) check(self, MPI_File_sync(self->file));
  }
  check(self, MPI_File_close(&self->file));
  return NULL;
}

static void files_of_threads(void) {
  if (enough()) in_threads(with_own_file);
}

// Opened and closed one after the other by all; written and synced by several threads at the same time.
static void* write_and_sync(void* argument) {
  Worker* self = argument;
  for (int round = 0; round < 2 * ROUNDS; ++round) {
    make_bytes(self, round);
    check(self, MPI_File_write_at(self->file, PIECE * (MPI_Offset)(round * ranks + rank), self->bytes, PIECE, MPI_BYTE,
                                  MPI_STATUS_IGNORE));
    check(self, MPI_File_sync(self->file));
  }
  return NULL;
}

static void syncs_of_threads(void) {
  if (!enough()) return;
  for (int i = 0; i < THREADS; ++i) {
    char name[64];
    snprintf(name, sizeof name, "f.%d", i);
    workers[i].file = create_file(name);
  }
  in_threads(write_and_sync);
  for (int i = 0; i < THREADS; ++i) close_file(&workers[i].file);
}

static void* open_and_close(void* argument) {
  Worker* self = argument;
  for (int round = 0; round < ROUNDS; ++round) {
    char name[64];
    snprintf(name, sizeof name, "f.%d.%d", self->number, round % 2);
    make_bytes(self, round);
    const int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    MPI_Comm comm = round % 2 ? MPI_COMM_SELF : comm_of(self);
    if (comm == MPI_COMM_SELF) snprintf(name, sizeof name, "f.%d.of.%d", self->number, rank);
    check(self, MPI_File_open(comm, name, mode, MPI_INFO_NULL, &self->file));
    check(self, MPI_File_write_at(self->file, rank * PIECE, self->bytes, PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
    check(self, MPI_File_close(&self->file));
  }
  return NULL;
}

static void opens_of_threads(void) {
  if (enough()) in_threads(open_and_close);
}

static MPI_File common;

static void* in_common_file(void* argument) {
  Worker* self = argument;
  for (int round = 0; round < 4 * ROUNDS; ++round) {
    const MPI_Offset at = PIECE * (MPI_Offset)((round * THREADS + self->number) * ranks + rank);
    make_bytes(self, round);
    check(self, MPI_File_write_at(common, at, self->bytes, PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
  }
  return NULL;
}

static void one_file_of_threads(void) {
  if (!enough()) return;
  common = create_file("file");
  in_threads(in_common_file);
  tell_code("sync", MPI_File_sync(common));
  in_threads(in_common_file);
  close_file(&common);
}

static void* by_pointer(void* argument) {
  Worker* self = argument;
  memset(self->bytes, 3, PIECE);
  for (int round = 0; round < 4 * ROUNDS; ++round) {
    check(self, MPI_File_write(common, self->bytes, PIECE / 10, MPI_BYTE, MPI_STATUS_IGNORE));
  }
  return NULL;
}

// All threads move one file pointer, and write the same.
static void one_pointer_of_threads(void) {
  if (!enough()) return;
  MPI_File_open(MPI_COMM_SELF,
                rank == 0   ? "f.0"
                : rank == 1 ? "f.1"
                            : "f.2",
                MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &common);
  in_threads(by_pointer);
  close_file(&common);
}

const Case kThreads[] = {{"files_of_threads", files_of_threads},
                         {"syncs_of_threads", syncs_of_threads},
                         {"opens_of_threads", opens_of_threads},
                         {"one_file_of_threads", one_file_of_threads},
                         {"one_pointer_of_threads", one_pointer_of_threads},
                         {NULL, NULL}};
