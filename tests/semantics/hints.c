// Hints that go in and come back.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "semantics.h"

enum { HINTS = 256 };

static int by_name(const void* a, const void* b) {
  return strcmp(a, b);
}

// In the order of their names; not the layer's own.
static void tell_info(const char* what, MPI_Info info) {
  static char lines[HINTS][MPI_MAX_INFO_KEY + MPI_MAX_INFO_VAL + 32];
  int keys = 0, told = 0;
  if (info == MPI_INFO_NULL) {
    tell("%s: no info", what);
    return;
  }
  MPI_Info_get_nkeys(info, &keys);
  for (int i = 0; i < keys && told < HINTS; ++i) {
    char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    int found = 0;
    MPI_Info_get_nthkey(info, i, key);
    MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
    if (strncmp(key, "lzy_", 4) == 0) continue;
    snprintf(lines[told++], sizeof lines[0], "%s = %s%s", key, value, found ? "" : " (not found)");
  }
  qsort(lines, (size_t)told, sizeof lines[0], by_name);
  tell("%s: %d hints", what, told);
  for (int i = 0; i < told; ++i) tell("  %s", lines[i]);
}

static void tell_hints(const char* what, MPI_File file) {
  MPI_Info info = MPI_INFO_NULL;
  tell_code("MPI_File_get_info", MPI_File_get_info(file, &info));
  tell_info(what, info);
  if (info != MPI_INFO_NULL) MPI_Info_free(&info);
}

static MPI_Info some_hints(void) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "cb_nodes", "1");
  MPI_Info_set(info, "cb_buffer_size", "65536");
  MPI_Info_set(info, "striping_unit", "131072");
  MPI_Info_set(info, "striping_factor", "3");
  MPI_Info_set(info, "romio_cb_write", "enable");
  MPI_Info_set(info, "romio_ds_write", "disable");
  MPI_Info_set(info, "ind_wr_buffer_size", "70000");
  MPI_Info_set(info, "nobody_knows_this", "at all");
  return info;
}

static void no_hints(void) {
  MPI_File file = create_file("file");
  tell_hints("open", file);
  write_block(file, rank, rank);
  tell_hints("write", file);
  tell_code("sync", MPI_File_sync(file));
  tell_hints("sync", file);
  close_file(&file);
}

static void hints_at_open(void) {
  MPI_Info info = some_hints();
  MPI_File file = MPI_FILE_NULL;
  tell_code("open", MPI_File_open(MPI_COMM_WORLD, "file", MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
  tell_info("given", info);
  MPI_Info_free(&info);
  tell_hints("open", file);
  write_block(file, rank, rank);
  close_file(&file);
}

static void hints_later(void) {
  MPI_Info info = some_hints();
  MPI_File file = create_file("file");
  MPI_Datatype type = MPI_DATATYPE_NULL;
  tell_code("set_view", MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", info));
  tell_hints("set_view", file);
  MPI_Info_set(info, "cb_buffer_size", "8192");
  tell_code("set_info", MPI_File_set_info(file, info));
  tell_info("given", info);
  MPI_Info_free(&info);
  tell_hints("set_info", file);
  type = interleaved(20, 1000, MPI_BYTE);
  tell_code("set_view", MPI_File_set_view(file, 1000 * rank, MPI_BYTE, type, "native", MPI_INFO_NULL));
  fill(rank);
  tell_code("write", MPI_File_write_all(file, block, 20000, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_hints("write", file);
  close_file(&file);
  MPI_Type_free(&type);
}

static void bad_values(void) {
  static const char* const bad[][2] = {{"cb_nodes", "many"}, {"romio_cb_write", "perhaps"}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    MPI_Info info = MPI_INFO_NULL;
    MPI_File file = MPI_FILE_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, bad[i][0], bad[i][1]);
    tell_code(bad[i][0], MPI_File_open(MPI_COMM_WORLD, "file", MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    if (file == MPI_FILE_NULL) continue;
    tell_hints("open", file);
    write_block(file, rank, rank);
    close_file(&file);
  }
}

// What one rank says and the other does not.
static void hints_that_differ(void) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_File file = MPI_FILE_NULL;
  if (rank == 0) {  // one that MPI does not know: it may mind where others differ
    MPI_Info_create(&info);
    MPI_Info_set(info, "nobody_knows_this", "but rank 0");
  }
  tell_code("open", MPI_File_open(MPI_COMM_WORLD, "file", MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
  if (info != MPI_INFO_NULL) MPI_Info_free(&info);
  if (file == MPI_FILE_NULL) return;
  tell_hints("open", file);
  write_block(file, rank, rank);
  close_file(&file);
}

static void hints_of_a_file_read(void) {
  MPI_File file = MPI_FILE_NULL;
  MPI_Info info = some_hints();
  if (rank == 0) make_plain("plain", "to be read");
  barrier();
  tell_code("open", MPI_File_open(MPI_COMM_WORLD, "plain", MPI_MODE_RDONLY, info, &file));
  MPI_Info_free(&info);
  tell_hints("open", file);
  close_file(&file);
}

static void hints_of_the_environment(void) {
  MPI_File file = MPI_FILE_NULL;
  tell_code("open", MPI_File_open(MPI_COMM_WORLD, "file", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_ENV, &file));
  if (file == MPI_FILE_NULL) return;
  tell_hints("open", file);
  write_block(file, rank, rank);
  close_file(&file);
}

// They are the layer's alone, and MPI must not mind.
static void own_hints(void) {
  MPI_Info info = some_hints();
  MPI_File file = MPI_FILE_NULL;
  MPI_Info_set(info, "lzy_block_size", "8K");
  tell_code("open", MPI_File_open(MPI_COMM_WORLD, "file", MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
  tell_hints("open", file);
  write_block(file, rank, rank);
  tell_code("set_info", MPI_File_set_info(file, info));
  tell_hints("set_info", file);
  MPI_Info_free(&info);
  close_file(&file);
}

const Case kHints[] = {{"no_hints", no_hints},
                       {"hints_at_open", hints_at_open},
                       {"hints_later", hints_later},
                       {"bad_values", bad_values},
                       {"hints_that_differ", hints_that_differ},
                       {"hints_of_a_file_read", hints_of_a_file_read},
                       {"hints_of_the_environment", hints_of_the_environment},
                       {"own_hints", own_hints},
                       {NULL, NULL}};
