// Modes, views, positions and sizes.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "semantics.h"

static void tell_place(const char* what, MPI_File file) {
  MPI_Offset own = -1, shared = -1, size = -1, byte = -1;
  // A shared pointer moves when other ranks write; here they all stand still.
  barrier();
  MPI_File_get_position(file, &own);
  MPI_File_get_position_shared(file, &shared);
  MPI_File_get_size(file, &size);
  const int code = MPI_File_get_byte_offset(file, 7, &byte);
  barrier();
  tell("%s: position %lld, shared %lld, size %lld, byte offset of 7: %lld (%s)", what, (long long)own,
       (long long)shared, (long long)size, (long long)byte, class_name(code));
}

static void tell_view(const char* what, MPI_File file) {
  char representation[MPI_MAX_DATAREP_STRING] = "";
  MPI_Offset displacement = -1;
  MPI_Datatype etype = MPI_DATATYPE_NULL, type = MPI_DATATYPE_NULL;
  MPI_Aint lower = -1, extent = -1;
  int size = -1, combiner_etype = -1, combiner_type = -1, unused[3];
  tell_code("MPI_File_get_view", MPI_File_get_view(file, &displacement, &etype, &type, representation));
  MPI_Type_get_extent(type, &lower, &extent);
  MPI_Type_size(type, &size);
  MPI_Type_get_envelope(etype, &unused[0], &unused[1], &unused[2], &combiner_etype);
  MPI_Type_get_envelope(type, &unused[0], &unused[1], &unused[2], &combiner_type);
  tell("%s: displacement %lld, filetype of %d bytes in %lld, named: %d %d, %s", what, (long long)displacement, size,
       (long long)extent, combiner_etype == MPI_COMBINER_NAMED, combiner_type == MPI_COMBINER_NAMED, representation);
  if (combiner_etype != MPI_COMBINER_NAMED) MPI_Type_free(&etype);
  if (combiner_type != MPI_COMBINER_NAMED) MPI_Type_free(&type);
}

static void tell_facts(MPI_File file) {
  MPI_Group of_file = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  MPI_Aint extent = -1;
  int mode = -1, atomic = -1, same = -1;
  tell_code("get_amode", MPI_File_get_amode(file, &mode));
  tell_code("get_atomicity", MPI_File_get_atomicity(file, &atomic));
  tell_code("get_group", MPI_File_get_group(file, &of_file));
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_compare(of_file, world, &same);
  MPI_Group_free(&of_file);
  MPI_Group_free(&world);
  tell_code("get_type_extent", MPI_File_get_type_extent(file, MPI_DOUBLE, &extent));
  tell("mode %d, atomic %d, group of the world %d, extent %lld", mode, atomic, same == MPI_IDENT, (long long)extent);
}

static void write_some(MPI_File file, int count) {
  fill(count + rank);
  tell_code("write", MPI_File_write(file, block, count, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void positions(void) {
  MPI_File file = create_file("file");
  tell_facts(file);
  tell_place("opened", file);
  tell_code("seek", MPI_File_seek(file, 50000 * (MPI_Offset)rank, MPI_SEEK_SET));
  write_some(file, 1000);
  tell_place("written", file);
  tell_code("seek", MPI_File_seek(file, 500, MPI_SEEK_CUR));
  write_some(file, 1000);
  tell_place("further on", file);
  tell_code("seek", MPI_File_seek(file, -100, MPI_SEEK_CUR));
  tell_place("back", file);
  tell_code("seek", MPI_File_seek(file, 1000 * rank, MPI_SEEK_END));
  barrier();
  write_some(file, 1000);
  tell_place("behind the end", file);
  tell_code("seek", MPI_File_seek(file, -500, MPI_SEEK_END));
  tell_place("before the end", file);
  tell_code("seek_shared", MPI_File_seek_shared(file, 10, MPI_SEEK_SET));
  tell_place("shared", file);
  if (rank == ranks - 1) {
    tell_code("shared", MPI_File_write_shared(file, block, 33, MPI_BYTE, MPI_STATUS_IGNORE));
  }
  tell_place("shared, written", file);
  tell_code("seek_shared", MPI_File_seek_shared(file, 100, MPI_SEEK_CUR));
  tell_place("shared, further on", file);
  tell_code("seek_shared", MPI_File_seek_shared(file, 0, MPI_SEEK_END));
  tell_place("shared, at the end", file);
  tell_code("sync", MPI_File_sync(file));
  tell_place("synced", file);
  tell_facts(file);
  close_file(&file);
}

static void sizes(void) {
  MPI_File file = create_file("file");
  write_block(file, rank, rank);
  tell_code("sync", MPI_File_sync(file));
  tell_code("set_size", MPI_File_set_size(file, 12345));
  tell_place("smaller", file);
  tell_code("set_size", MPI_File_set_size(file, 300000));
  tell_place("larger", file);
  tell_code("sync", MPI_File_sync(file));
  tell_code("preallocate", MPI_File_preallocate(file, 500000));
  tell_place("preallocated", file);
  tell_code("set_size", MPI_File_set_size(file, 0));
  tell_place("empty", file);
  write_block(file, rank + 1, rank);
  close_file(&file);
}

static void preallocate_less(void) {
  MPI_File file = create_file("file");
  write_block(file, rank, rank);
  tell_code("sync", MPI_File_sync(file));
  tell_code("preallocate", MPI_File_preallocate(file, 500000));
  tell_place("preallocated", file);
  tell_code("preallocate", MPI_File_preallocate(file, 1000));
  tell_place("preallocated less", file);
  tell_code("set_size", MPI_File_set_size(file, 2000));
  tell_place("smaller", file);
  close_file(&file);
}

static void views(void) {
  MPI_Datatype type = MPI_DATATYPE_NULL, etype = MPI_DATATYPE_NULL;
  MPI_File file = create_file("file");
  tell_view("opened", file);
  MPI_Type_contiguous(3, MPI_INT, &etype);
  MPI_Type_commit(&etype);
  type = interleaved(10, 2, etype);
  tell_code("set_view", MPI_File_set_view(file, 100 + 24 * rank, etype, type, "native", MPI_INFO_NULL));
  MPI_Type_free(&type);
  tell_view("set", file);
  tell_place("set", file);
  fill(rank);
  tell_code("write_all", MPI_File_write_all(file, block, 60, etype, MPI_STATUS_IGNORE));
  tell_place("written", file);
  tell_code("sync", MPI_File_sync(file));
  tell_view("synced", file);
  MPI_Type_free(&etype);
  tell_code("set_view", MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  tell_view("reset", file);
  write_block(file, rank, rank);
  close_file(&file);
}

static void representations(void) {
  static const char* const names[] = {"native", "internal", "external32", "NATIVE", "mine"};
  double numbers[100];
  for (int i = 0; i < 100; ++i) numbers[i] = i + rank / 4.0;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    char name[64];
    MPI_Status status;
    snprintf(name, sizeof name, "f.%s", names[i]);
    MPI_File file = create_file(name);
    write_block(file, rank, rank);
    const int code = MPI_File_set_view(file, 80, MPI_DOUBLE, MPI_DOUBLE, names[i], MPI_INFO_NULL);
    tell_code(names[i], code);
    tell_view(names[i], file);
    if (code == MPI_SUCCESS) {
      forget_status(&status);
      tell_code("write_at", MPI_File_write_at(file, 100 * rank, numbers, 100, MPI_DOUBLE, &status));
      tell_status("write_at", &status, MPI_DOUBLE);
      tell_code("write_all", MPI_File_write_at_all(file, 1000 + 100 * rank, numbers, 100, MPI_DOUBLE, &status));
      tell_code("read", MPI_File_read_at(file, 100 * rank, numbers, 100, MPI_DOUBLE, &status));
      tell("%g %g", numbers[0], numbers[99]);
    }
    close_file(&file);
  }
}

static int own_extent(MPI_Datatype type, MPI_Aint* extent, void* state) {
  MPI_Aint lower = 0;
  (void)state;
  return MPI_Type_get_extent(type, &lower, extent);
}

static int own_conversion(void* to, MPI_Datatype type, int count, void* from, MPI_Offset position, void* state) {
  int size = 0;
  (void)state;
  MPI_Type_size(type, &size);
  for (int i = 0; i < count * size; ++i) {
    ((char*)to)[position * size + i] = (char)~((char*)from)[i];
  }
  return MPI_SUCCESS;
}

static void own_representation(void) {
  static int registered = 0;
  tell_code("register", MPI_Register_datarep("inverted", own_conversion, own_conversion, own_extent, &registered));
  tell_code("again", MPI_Register_datarep("inverted", own_conversion, own_conversion, own_extent, &registered));
  MPI_File file = create_file("file");
  write_block(file, rank, rank);
  const int code = MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "inverted", MPI_INFO_NULL);
  tell_code("set_view", code);
  if (code == MPI_SUCCESS) {
    tell_code("write_at", MPI_File_write_at(file, 100 * rank, block, 100, MPI_INT, MPI_STATUS_IGNORE));
  }
  close_file(&file);
}

static void atomic_mode(void) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_File file = create_file("file");
  tell_code("set_atomicity", MPI_File_set_atomicity(file, 1));
  tell_facts(file);
  fill(1);  // all write the same: who comes last is open
  tell_code("write_at", MPI_File_write_at(file, 100, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_code("write_at_all", MPI_File_write_at_all(file, 50100, block + 50000, 50000, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_code("sync", MPI_File_sync(file));
  MPI_Type_vector(100, 8, 16, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  tell_code("set_view", MPI_File_set_view(file, 0, MPI_BYTE, type, "native", MPI_INFO_NULL));
  tell_code("write", MPI_File_write(file, block, 2000, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_code("write_all", MPI_File_write_all(file, block, 2000, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_code("set_atomicity", MPI_File_set_atomicity(file, 0));
  tell_facts(file);
  close_file(&file);
  MPI_Type_free(&type);
}

static void sequential(void) {
  MPI_Offset offset = 0;
  MPI_File file = open_file("file", MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
  tell_facts(file);
  MPI_File_set_errhandler(file, file_handler);
  memset(block, 9, sizeof block);
  tell_code("write_shared", MPI_File_write_shared(file, block, 5000, MPI_BYTE, MPI_STATUS_IGNORE));
  barrier();
  tell_code("write_ordered", MPI_File_write_ordered(file, block, 1000, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_code("write_at", MPI_File_write_at(file, 0, block, 5000, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_code("write", MPI_File_write(file, block, 10, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_code("seek", MPI_File_seek(file, 0, MPI_SEEK_SET));
  tell_code("seek_shared", MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
  tell_code("get_byte_offset", MPI_File_get_byte_offset(file, 0, &offset));
  tell_code("sync", MPI_File_sync(file));
  tell_code("write_shared", MPI_File_write_shared(file, block, 5000, MPI_BYTE, MPI_STATUS_IGNORE));
  close_file(&file);
}

static void append(void) {
  MPI_File file = create_file("file");
  write_block(file, rank, rank);
  close_file(&file);
  file = open_file("file", MPI_MODE_RDWR | MPI_MODE_APPEND);
  tell_facts(file);
  tell_place("opened", file);
  if (rank == 0) write_some(file, 777);
  tell_place("written", file);
  tell_code("shared", MPI_File_write_ordered(file, block, 10, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_place("written", file);
  close_file(&file);
}

static void mode_by_mode(void) {
  static const int modes[] = {MPI_MODE_WRONLY, MPI_MODE_RDWR, MPI_MODE_RDWR | MPI_MODE_UNIQUE_OPEN,
                              MPI_MODE_WRONLY | MPI_MODE_EXCL, MPI_MODE_RDWR | MPI_MODE_EXCL | MPI_MODE_UNIQUE_OPEN};
  for (int i = 0; i < (int)(sizeof modes / sizeof modes[0]); ++i) {
    char name[32];
    snprintf(name, sizeof name, "f.%d", i);
    MPI_File file = open_file(name, modes[i] | MPI_MODE_CREATE);
    tell_facts(file);
    write_block(file, rank, rank);
    close_file(&file);
    file = open_file(name, MPI_MODE_RDONLY);
    tell_facts(file);
    close_file(&file);
  }
}

static void delete_on_close(void) {
  MPI_File file = open_file("gone", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
  tell_facts(file);
  write_block(file, rank, rank);
  tell_code("sync", MPI_File_sync(file));
  close_file(&file);
  // of one that was protected before
  file = create_file("gone.too");
  write_block(file, rank, rank);
  close_file(&file);
  file = open_file("gone.too", MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
  write_block(file, rank + 1, rank);
  close_file(&file);
}

static void handles_in_fortran(void) {
  MPI_File file = create_file("file");
#ifdef MPI_ABI  // the standard's own interface has no Fortran
  const int number = MPI_File_toint(file);
  MPI_File again = MPI_File_fromint(number);
#else
  const MPI_Fint number = MPI_File_c2f(file);
  MPI_File again = MPI_File_f2c(number);
#endif
  tell("same handle %d", again == file);
  write_block(again, rank, rank);
  tell_code("sync", MPI_File_sync(again));
  write_block(file, ranks + rank, rank);
  close_file(&again);
}

// By the profiling names alone, as "use mpi_f08" does.
static void profiling_names(void) {
  MPI_File file = MPI_FILE_NULL;
  MPI_Status status;
  MPI_Request request = MPI_REQUEST_NULL;
  fill(rank);
  tell_code("open", PMPI_File_open(MPI_COMM_WORLD, "file", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
  tell_code("set_view", PMPI_File_set_view(file, 10, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  forget_status(&status);
  tell_code("write", PMPI_File_write_at(file, 5000 * (MPI_Offset)rank, block, 5000, MPI_BYTE, &status));
  tell_status("write", &status, MPI_BYTE);
  tell_code("sync", PMPI_File_sync(file));
  tell_code("iwrite", PMPI_File_iwrite_at(file, 20000 + 5000 * (MPI_Offset)rank, block, 5000, MPI_BYTE, &request));
  tell_code("wait", PMPI_Wait(&request, &status));
  tell_code("set_size", PMPI_File_set_size(file, 200000));
  tell_code("close", PMPI_File_close(&file));
  tell("null %d", file == MPI_FILE_NULL);
  file = create_file("gone");
  write_block(file, rank, rank);
  close_file(&file);
  if (rank == 0) tell_code("delete", PMPI_File_delete("gone", MPI_INFO_NULL));
}

const Case kModes[] = {{"positions", positions},
                       {"sizes", sizes},
                       {"preallocate_less", preallocate_less},
                       {"views", views},
                       {"representations", representations},
                       {"own_representation", own_representation},
                       {"atomic_mode", atomic_mode},
                       {"sequential", sequential},
                       {"append", append},
                       {"mode_by_mode", mode_by_mode},
                       {"delete_on_close", delete_on_close},
                       {"handles_in_fortran", handles_in_fortran},
                       {"profiling_names", profiling_names},
                       {NULL, NULL}};
