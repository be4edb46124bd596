// Calls that fail, and who hears of it.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "semantics.h"

static const struct {
  const char* name;
  int mode;
} kBadOpens[] = {
    {"missing", MPI_MODE_RDWR},
    {"missing", MPI_MODE_RDONLY},
    {"missing", MPI_MODE_WRONLY},
    {"no/such/directory", MPI_MODE_CREATE | MPI_MODE_RDWR},
    {"plain", MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR},
    {"plain/below", MPI_MODE_CREATE | MPI_MODE_RDWR},
    {"directory", MPI_MODE_RDWR},
    {"directory", MPI_MODE_CREATE | MPI_MODE_WRONLY},
    {"loop", MPI_MODE_CREATE | MPI_MODE_RDWR},
    {"plain.new", 0},
    {"plain.new", MPI_MODE_CREATE},
    {"plain.new", MPI_MODE_RDONLY | MPI_MODE_RDWR},
    {"plain.new", MPI_MODE_RDONLY | MPI_MODE_CREATE},
    {"plain.new", MPI_MODE_RDONLY | MPI_MODE_EXCL},
    {"plain.new", MPI_MODE_WRONLY | MPI_MODE_RDWR | MPI_MODE_CREATE},
    {"plain.new", MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL | MPI_MODE_CREATE},
};

static void try_bad_opens(MPI_Comm comm) {
  for (size_t i = 0; i < sizeof kBadOpens / sizeof kBadOpens[0]; ++i) {
    MPI_File file = MPI_FILE_NULL;
    tell("open %s %d", kBadOpens[i].name, kBadOpens[i].mode);
    tell_code("open", MPI_File_open(comm, kBadOpens[i].name, kBadOpens[i].mode, MPI_INFO_NULL, &file));
    if (file != MPI_FILE_NULL) close_file(&file);
    barrier();
  }
}

static void make_obstacles(void) {
  if (rank == 0) {
    make_plain("plain", "here before");
    if (mkdir("directory", 0777) != 0 || symlink("loop", "loop") != 0) fail("mkdir", "directory");
  }
  barrier();
}

static void open_errors(void) {
  make_obstacles();
  try_bad_opens(MPI_COMM_WORLD);
}

static void open_errors_alone(void) {
  make_obstacles();
  if (rank == 0) {
    for (size_t i = 0; i < sizeof kBadOpens / sizeof kBadOpens[0]; ++i) {
      MPI_File file = MPI_FILE_NULL;
      tell_code("open", MPI_File_open(MPI_COMM_SELF, kBadOpens[i].name, kBadOpens[i].mode, MPI_INFO_NULL, &file));
      if (file != MPI_FILE_NULL) close_file(&file);
    }
  }
}

static void open_errors_handled(void) {
  MPI_Errhandler before = MPI_ERRHANDLER_NULL;
  make_obstacles();
  tell_code("get", MPI_File_get_errhandler(MPI_FILE_NULL, &before));
  tell("returns by default: %d", before == MPI_ERRORS_RETURN);
  tell_code("set", MPI_File_set_errhandler(MPI_FILE_NULL, file_handler));
  try_bad_opens(MPI_COMM_WORLD);
  tell_code("set", MPI_File_set_errhandler(MPI_FILE_NULL, before));
}

static void open_on_no_communicator(void) {
  MPI_File file = MPI_FILE_NULL;
  tell_code("open", MPI_File_open(MPI_COMM_NULL, "file", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
  tell("%d", file == MPI_FILE_NULL);
}

static void open_on_intercommunicator(void) {
  MPI_Comm half = MPI_COMM_NULL, between = MPI_COMM_NULL;
  MPI_File file = MPI_FILE_NULL;
  if (ranks < 2) return;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &between);
  MPI_Comm_set_errhandler(between, comm_handler);
  tell_code("open", MPI_File_open(between, "file", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
  if (file != MPI_FILE_NULL) close_file(&file);
  MPI_Comm_free(&between);
  MPI_Comm_free(&half);
}

static void modes_that_differ(void) {
  MPI_File file = MPI_FILE_NULL;
  const int mode = rank == 0 ? MPI_MODE_RDWR : MPI_MODE_WRONLY;
  tell_code("open", MPI_File_open(MPI_COMM_WORLD, "file", MPI_MODE_CREATE | mode, MPI_INFO_NULL, &file));
  if (file == MPI_FILE_NULL) return;
  write_block(file, rank, rank);
  close_file(&file);
}

// As another user where this one is root.
static void no_permission(void) {
  const int root = geteuid() == 0;
  MPI_File file = MPI_FILE_NULL;
  if (rank == 0) {
    make_plain("plain.secret", "secret");
    make_plain("plain.readable", "readable");
    if (chmod("plain.secret", 0) != 0 || chmod("plain.readable", 0444) != 0 || chmod(".", 0755) != 0)
      fail("chmod", ".");
  }
  barrier();
  if (root && seteuid(65534) != 0) fail("seteuid", "65534");
  file = open_file("plain.secret", MPI_MODE_RDWR);
  file = open_file("plain.readable", MPI_MODE_RDWR);
  file = open_file("plain.readable", MPI_MODE_RDONLY);
  tell_code("write", MPI_File_write(file, block, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  close_file(&file);
  if (root) {
    file = open_file("plain.new", MPI_MODE_CREATE | MPI_MODE_RDWR);
    barrier();
    if (rank == 0) tell_code("delete", MPI_File_delete("plain.secret", MPI_INFO_NULL));
  }
  barrier();
  if (root && seteuid(0) != 0) fail("seteuid", "0");
}

// Calls that are wrong on a file that may be written.
static void wrong_calls(MPI_File file) {
  MPI_Datatype uncommitted = MPI_DATATYPE_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  fill(rank);
  MPI_Type_contiguous(4, MPI_BYTE, &uncommitted);
  tell_code("negative count", MPI_File_write(file, block, -1, MPI_BYTE, &status));
  tell_code("negative count, at", MPI_File_write_at(file, 0, block, -1, MPI_BYTE, &status));
  tell_code("negative offset", MPI_File_write_at(file, -8, block, 8, MPI_BYTE, &status));
  tell_code("negative offset, nonblocking", MPI_File_iwrite_at(file, -8, block, 8, MPI_BYTE, &request));
  tell_code("no type", MPI_File_write(file, block, 8, MPI_DATATYPE_NULL, &status));
  tell_code("no type, at", MPI_File_write_at(file, 0, block, 8, MPI_DATATYPE_NULL, &status));
  tell_code("no type, nonblocking", MPI_File_iwrite(file, block, 8, MPI_DATATYPE_NULL, &request));
  tell_code("no type, shared", MPI_File_write_shared(file, block, 8, MPI_DATATYPE_NULL, &status));
  tell_code("uncommitted type", MPI_File_write_at(file, 0, block, 1, uncommitted, &status));
  tell("request %s", request == MPI_REQUEST_NULL ? "null" : "made");
  tell_code("seek before the beginning", MPI_File_seek(file, -1, MPI_SEEK_SET));
  tell_code("seek nowhere", MPI_File_seek(file, 1, 12345));
  tell_code("negative size", MPI_File_set_size(file, -1));
  tell_code("negative preallocation", MPI_File_preallocate(file, -1));
  tell_code("negative displacement", MPI_File_set_view(file, -1, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  tell_code("unknown representation", MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "nonsense", MPI_INFO_NULL));
  tell_code("no etype", MPI_File_set_view(file, 0, MPI_DATATYPE_NULL, MPI_BYTE, "native", MPI_INFO_NULL));
  tell_code("no filetype", MPI_File_set_view(file, 0, MPI_BYTE, MPI_DATATYPE_NULL, "native", MPI_INFO_NULL));
  tell_code("end of nothing", MPI_File_write_all_end(file, block, &status));
  MPI_Type_free(&uncommitted);
}

static void errors_returned(void) {
  MPI_File file = create_file("file");
  wrong_calls(file);
  write_block(file, rank, rank);
  tell_code("sync", MPI_File_sync(file));
  close_file(&file);
}

static void errors_handled(void) {
  MPI_File file = create_file("file");
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  tell_code("set", MPI_File_set_errhandler(file, file_handler));
  wrong_calls(file);
  write_block(file, rank, rank);
  tell_code("get", MPI_File_get_errhandler(file, &handler));
  tell("still ours: %d", handler == file_handler);
  tell_code("call", MPI_File_call_errhandler(file, MPI_ERR_IO));
  tell_code("sync", MPI_File_sync(file));
  write_block(file, rank + 5, rank);
  close_file(&file);
}

// Nothing wrong happens, so nobody is called, whatever the layer asks MPI.
static void handlers_of_what_goes_well(void) {
  MPI_File file = MPI_FILE_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Datatype etype = MPI_DATATYPE_NULL, type = MPI_DATATYPE_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, comm_handler);
  MPI_File_set_errhandler(MPI_FILE_NULL, file_handler);
  tell_code("open", MPI_File_open(comm, "file", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
  tell_code("set", MPI_File_set_errhandler(file, file_handler));
  MPI_Type_contiguous(2, MPI_DOUBLE, &etype);
  MPI_Type_commit(&etype);
  type = interleaved(8, 2, etype);
  tell_code("view", MPI_File_set_view(file, rank * 32, etype, type, "native", MPI_INFO_NULL));
  MPI_Type_free(&etype);
  MPI_Type_free(&type);
  fill(rank);
  tell_code("write", MPI_File_write_all(file, block, 320, MPI_DOUBLE, MPI_STATUS_IGNORE));
  tell_code("write", MPI_File_write_at(file, 1000, block, 32, MPI_DOUBLE, MPI_STATUS_IGNORE));
  tell_code("sync", MPI_File_sync(file));
  tell_code("write", MPI_File_write(file, block, 32, MPI_DOUBLE, MPI_STATUS_IGNORE));
  tell_code("size", MPI_File_set_size(file, 50000));
  close_file(&file);
  MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
  MPI_Comm_free(&comm);
}

static void read_only(void) {
  MPI_File file = MPI_FILE_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  char byte = 'x';
  if (rank == 0) make_plain("plain", "to be read");
  barrier();
  file = open_file("plain", MPI_MODE_RDONLY);
  MPI_File_set_errhandler(file, file_handler);
  tell_code("write", MPI_File_write(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_code("write_at", MPI_File_write_at(file, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_code("write_at_all", MPI_File_write_at_all(file, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_code("iwrite", MPI_File_iwrite(file, &byte, 1, MPI_BYTE, &request));
  tell_code("set_size", MPI_File_set_size(file, 3));
  tell_code("preallocate", MPI_File_preallocate(file, 300));
  tell_code("sync", MPI_File_sync(file));
  tell_code("read", MPI_File_read_at(file, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  tell("%c", byte);
  close_file(&file);
}

static void write_only(void) {
  MPI_File file = open_file("file", MPI_MODE_CREATE | MPI_MODE_WRONLY);
  MPI_File_set_errhandler(file, file_handler);
  write_block(file, rank, rank);
  tell_code("read", MPI_File_read_at(file, 0, block, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_code("sync", MPI_File_sync(file));
  write_block(file, rank + 3, rank);
  close_file(&file);
}

static void no_file(void) {
  MPI_File file = MPI_FILE_NULL;
  MPI_Offset offset = 0;
  tell_code("set", MPI_File_set_errhandler(MPI_FILE_NULL, file_handler));
  tell_code("write", MPI_File_write(file, block, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_code("write_at_all", MPI_File_write_at_all(file, 0, block, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_code("sync", MPI_File_sync(file));
  tell_code("set_view", MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  tell_code("set_size", MPI_File_set_size(file, 0));
  tell_code("get_size", MPI_File_get_size(file, &offset));
  tell_code("close", MPI_File_close(&file));
  file = create_file("file");
  write_block(file, rank, rank);
  close_file(&file);
  tell_code("close again", MPI_File_close(&file));
  tell_code("set", MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
}

static void delete_errors(void) {
  if (rank == 0) {
    if (mkdir("directory", 0777) != 0) fail("mkdir", "directory");
    MPI_File_set_errhandler(MPI_FILE_NULL, file_handler);
    tell_code("missing", MPI_File_delete("missing", MPI_INFO_NULL));
    tell_code("in no directory", MPI_File_delete("no/such", MPI_INFO_NULL));
    tell_code("directory", MPI_File_delete("directory", MPI_INFO_NULL));
    tell_code("empty", MPI_File_delete("", MPI_INFO_NULL));
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    tell_code("missing", MPI_File_delete("missing", MPI_INFO_NULL));
  }
}

// A handler inherited from MPI_FILE_NULL is the file's own, and is called for the file's errors.
static void handler_inherited(void) {
  MPI_File file = MPI_FILE_NULL;
  MPI_File_set_errhandler(MPI_FILE_NULL, file_handler);
  file = create_file("file");
  MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
  tell_code("negative count", MPI_File_write(file, block, -1, MPI_BYTE, MPI_STATUS_IGNORE));
  write_block(file, rank, rank);
  close_file(&file);
}

const Case kErrors[] = {{"open_errors", open_errors},
                        {"open_errors_alone", open_errors_alone},
                        {"open_errors_handled", open_errors_handled},
                        {"open_on_no_communicator", open_on_no_communicator},
                        {"open_on_intercommunicator", open_on_intercommunicator},
                        {"modes_that_differ", modes_that_differ},
                        {"no_permission", no_permission},
                        {"errors_returned", errors_returned},
                        {"errors_handled", errors_handled},
                        {"handlers_of_what_goes_well", handlers_of_what_goes_well},
                        {"read_only", read_only},
                        {"write_only", write_only},
                        {"no_file", no_file},
                        {"delete_errors", delete_errors},
                        {"handler_inherited", handler_inherited},
                        {NULL, NULL}};
