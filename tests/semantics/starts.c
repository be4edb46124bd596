// How MPI is started and ended. Each of these has its process to itself, in the directory it was started in.
#include <stdio.h>
#include <stdlib.h>

#include "semantics.h"

static void write_and_close(MPI_File* file) {
  write_block(*file, rank, rank);
  tell_code("sync", MPI_File_sync(*file));
  write_block(*file, ranks + rank, rank);
  tell_code("seek", MPI_File_seek(*file, BLOCK * (MPI_Offset)(2 * ranks + rank), MPI_SEEK_SET));
  tell_code("write", MPI_File_write(*file, block, 10, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_code("ordered", MPI_File_write_ordered(*file, block, 10, MPI_BYTE, MPI_STATUS_IGNORE));
  close_file(file);
}

static void write_file(const char* name) {
  MPI_File file = create_file(name);
  write_and_close(&file);
}

static void finish(void) {
  tell_code("finalize", MPI_Finalize());
}

static void init_null(void) {
  const int code = MPI_Init(NULL, NULL);
  begin_world();
  tell_code("init", code);
  write_file("file");
  finish();
}

static void with_level(int level) {
  const int code = MPI_Init_thread(NULL, NULL, level, &threads_level);
  begin_world();
  tell_code("init", code);
  tell("enough: %d", threads_level >= level);
  write_file("file");
  finish();
}

static void init_single(void) {
  with_level(MPI_THREAD_SINGLE);
}

static void init_funneled(void) {
  with_level(MPI_THREAD_FUNNELED);
}

static void init_serialized(void) {
  with_level(MPI_THREAD_SERIALIZED);
}

static void init_profiling(void) {
  const int code = PMPI_Init(NULL, NULL);
  begin_world();
  tell_code("init", code);
  write_file("file");
  tell_code("finalize", PMPI_Finalize());
}

static MPI_File left;

static int close_late(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  write_block(left, 2, 7);  // the same by all ranks
  close_file(&left);
  return MPI_SUCCESS;
}

static void set_callback(void) {
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, close_late, &key, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
  MPI_Comm_free_keyval(&key);
}

// HDF5 closes its files in such a callback. Before the open or after it: callbacks run in reverse order.
static void closed_in_finalize(void) {
  char name[32];
  MPI_Init(NULL, NULL);
  begin_world();
  snprintf(name, sizeof name, "f.%d", rank);
  set_callback();
  tell_code("open", MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &left));
  write_block(left, 0, rank);
  finish();
}

static void closed_in_finalize_set_later(void) {
  char name[32];
  MPI_Init(NULL, NULL);
  begin_world();
  snprintf(name, sizeof name, "f.%d", rank);
  tell_code("open", MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &left));
  set_callback();
  write_block(left, 0, rank);
  tell_code("sync", MPI_File_sync(left));
  finish();
}

static void shared_closed_in_finalize(void) {
  MPI_Init(NULL, NULL);
  begin_world();
  set_callback();
  left = create_file("file");
  write_block(left, 3 + rank, rank);
  finish();
}

static void left_open(void) {
  MPI_Init(NULL, NULL);
  begin_world();
  left = create_file("file");
  write_block(left, rank, rank);
  finish();
}

static void left_open_unwritten(void) {
  MPI_Init(NULL, NULL);
  begin_world();
  left = create_file("plain");
  finish();
}

static void finalize_after_errors(void) {
  MPI_Init(NULL, NULL);
  begin_world();
  open_file("missing", MPI_MODE_RDWR);
  MPI_File file = create_file("file");
  write_block(file, rank, rank);
  tell_code("bad", MPI_File_write(file, block, -1, MPI_BYTE, MPI_STATUS_IGNORE));
  close_file(&file);
  tell_code("bad", MPI_File_delete("missing", MPI_INFO_NULL));
  finish();
}

static void fatal(void) {
  MPI_Init(NULL, NULL);
  begin_world();
  MPI_File file = create_file("file");
  write_block(file, rank, rank);
  tell_code("set", MPI_File_set_errhandler(file, MPI_ERRORS_ARE_FATAL));
  tell_code("sync", MPI_File_sync(file));
  barrier();
  MPI_File_write_at(file, 0, block, -1, MPI_BYTE, MPI_STATUS_IGNORE);
  tell("not reached");
}

static void fatal_open(void) {
  MPI_Init(NULL, NULL);
  begin_world();
  tell_code("set", MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL));
  MPI_File file = create_file("file");
  write_block(file, rank, rank);
  close_file(&file);
  barrier();
  open_file("missing", MPI_MODE_RDWR);
  tell("not reached");
}

// What is a program that never starts MPI and never uses it.
static void no_mpi(void) {
  int flag = -1;
  MPI_Initialized(&flag);
  tell("initialized %d", flag);
  MPI_Finalized(&flag);
  tell("finalized %d", flag);
}

#if MPI_VERSION >= 4
static void write_in_session(const char* name) {
  MPI_Session session = MPI_SESSION_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_File file = MPI_FILE_NULL;
  const int started = MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
  if (started == MPI_SUCCESS) {
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "lzy.semantics", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Group_free(&group);
    MPI_Comm_rank(comm, &rank);  // nothing is told before: whose transcript would it be?
    MPI_Comm_size(comm, &ranks);
  }
  if (tell_code("session", started) != MPI_SUCCESS) return;
  tell_code("open", MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
  write_and_close(&file);
  MPI_Comm_free(&comm);
  tell_code("session", MPI_Session_finalize(&session));
}
#else
static void write_in_session(const char* name) {
  tell("sessions unsupported");
  (void)name;
}
#endif

static void session(void) {
  write_in_session("file");
}

static void session_after_session(void) {
  write_in_session("file");
  write_in_session("other");
}

static void session_within_world(void) {
  MPI_Init(NULL, NULL);
  begin_world();
  write_in_session("file");
  write_file("other");
  finish();
}

static void world_after_session(void) {
  write_in_session("file");
  MPI_Init(NULL, NULL);
  begin_world();
  write_file("other");
  finish();
}

const Case kStarts[] = {{"init_null", init_null},
                        {"init_single", init_single},
                        {"init_funneled", init_funneled},
                        {"init_serialized", init_serialized},
                        {"init_profiling", init_profiling},
                        {"closed_in_finalize", closed_in_finalize},
                        {"closed_in_finalize_set_later", closed_in_finalize_set_later},
                        {"shared_closed_in_finalize", shared_closed_in_finalize},
                        {"left_open", left_open},
                        {"left_open_unwritten", left_open_unwritten},
                        {"finalize_after_errors", finalize_after_errors},
                        {"fatal", fatal},
                        {"fatal_open", fatal_open},
                        {"no_mpi", no_mpi},
                        {"session", session},
                        {"session_after_session", session_after_session},
                        {"session_within_world", session_within_world},
                        {"world_after_session", world_after_session},
                        {NULL, NULL}};
