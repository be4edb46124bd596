// Files of several communicators.
#include <stdio.h>

#include "semantics.h"

static MPI_File create_on(MPI_Comm comm, const char* name) {
  MPI_File file = MPI_FILE_NULL;
  tell_code("open", MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
  return file;
}

static void each_alone(void) {
  char name[64];
  snprintf(name, sizeof name, "f.%d", rank);
  MPI_File file = create_on(MPI_COMM_SELF, name);
  write_block(file, 0, rank);
  tell_code("sync", MPI_File_sync(file));
  write_block(file, 1, rank);
  close_file(&file);
}

// All of them one file, each for itself.
static void each_alone_in_one(void) {
  MPI_File file = create_on(MPI_COMM_SELF, "file");
  write_block(file, rank, rank);
  barrier();  // closes may come at the same time
  close_file(&file);
}

static void together_and_alone(void) {
  MPI_File together = create_on(MPI_COMM_WORLD, "file");
  MPI_File alone = create_on(MPI_COMM_SELF, "file");
  write_block(together, rank, rank);
  write_block(alone, ranks + rank, rank);
  barrier();
  tell_code("sync", MPI_File_sync(together));
  write_block(together, 2 * ranks + rank, rank);
  close_file(&together);
  barrier();
  write_block(alone, 3 * ranks + rank, rank);
  close_file(&alone);
}

static void halves(void) {
  MPI_Comm half = MPI_COMM_NULL;
  char name[64];
  const int color = rank % 2;
  MPI_Comm_split(MPI_COMM_WORLD, color, rank, &half);
  MPI_Comm_set_errhandler(half, comm_handler);
  snprintf(name, sizeof name, "f.%d", color);
  MPI_File file = create_on(half, name);
  MPI_Comm_free(&half);  // the file keeps what it needs
  for (int i = 0; i <= color; ++i) {
    write_block(file, rank + i, rank);
    tell_code("sync", MPI_File_sync(file));
  }
  write_block(file, 5 + rank, rank);
  close_file(&file);
}

// The others do not take part at all.
static void the_first_alone(void) {
  MPI_Comm some = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? 0 : MPI_UNDEFINED, 0, &some);
  if (some == MPI_COMM_NULL) return;
  MPI_File file = create_on(some, "file");
  write_block(file, 0, rank);
  close_file(&file);
  MPI_Comm_free(&some);
}

static void reversed(void) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
  MPI_File file = create_on(comm, "file");
  write_block(file, rank, rank);
  fill(rank);
  tell_code("ordered", MPI_File_write_ordered(file, block, 1000, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_code("sync", MPI_File_sync(file));
  write_block(file, ranks + rank, rank);
  close_file(&file);
  MPI_Comm_free(&comm);
}

static void several_at_once(void) {
  MPI_Comm reversed_comm = MPI_COMM_NULL;
  MPI_File files[4];
  char name[64];
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed_comm);
  for (int i = 0; i < 4; ++i) {
    snprintf(name, sizeof name, "f.%d", i);
    files[i] = create_on(i % 2 ? reversed_comm : MPI_COMM_WORLD, name);
  }
  MPI_Comm_free(&reversed_comm);
  for (int i = 0; i < 4; ++i) write_block(files[i], rank, rank + i);
  for (int i = 3; i >= 0; --i) tell_code("sync", MPI_File_sync(files[i]));
  for (int i = 0; i < 4; ++i) write_block(files[i], ranks + rank, rank + i);
  for (int i = 3; i >= 0; --i) close_file(&files[i]);
}

// Collectives of the program that are on their way on the file's communicator.
static void beside_other_collectives(void) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  int one = 1, sum = 0;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
  MPI_File file = create_on(comm, "file");
  write_block(file, rank, rank);
  tell_code("sync", MPI_File_sync(file));
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  tell("sum %d", sum);
  MPI_Ibarrier(comm, &request);
  close_file(&file);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&comm);
}

static int copies, deletes;

static int on_copy(MPI_Comm comm, int key, void* extra, void* in, void* out, int* flag) {
  (void)comm, (void)key, (void)extra;
  *(void**)out = in;
  *flag = 1;
  ++copies;
  return MPI_SUCCESS;
}

static int on_delete(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  ++deletes;
  return MPI_SUCCESS;
}

// The program's own attributes: whoever duplicates the communicator calls their callbacks.
static void attributes(void) {
  MPI_Comm comm = MPI_COMM_NULL;
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_create_keyval(on_copy, on_delete, &key, NULL);
  MPI_Comm_set_attr(comm, key, &copies);
  copies = deletes = 0;
  MPI_File file = create_on(comm, "file");
  tell("opened: copied %d, deleted %d", copies, deletes);
  write_block(file, rank, rank);
  tell_code("sync", MPI_File_sync(file));
  write_block(file, ranks + rank, rank);
  close_file(&file);
  tell("closed: copied %d, deleted %d", copies, deletes);
  MPI_Comm_delete_attr(comm, key);
  MPI_Comm_free_keyval(&key);
  MPI_Comm_free(&comm);
}

const Case kCommunicators[] = {{"each_alone", each_alone},
                               {"each_alone_in_one", each_alone_in_one},
                               {"together_and_alone", together_and_alone},
                               {"halves", halves},
                               {"the_first_alone", the_first_alone},
                               {"reversed", reversed},
                               {"several_at_once", several_at_once},
                               {"beside_other_collectives", beside_other_collectives},
                               {"attributes", attributes},
                               {NULL, NULL}};
