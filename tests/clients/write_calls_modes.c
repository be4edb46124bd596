// What else programs do to files: sizes, syncs, deletes, renames, updates.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "write_calls.h"

static void need_file(const Run* run) {
  if (!run->existing) write_file(run, usual_call(), path);
}

static void set_size(const Run* run) {
  MPI_File file = create(path);
  check(MPI_File_set_size(file, 2 * file_bytes(run)), "MPI_File_set_size");
  set_view(run, file, false);
  write_rounds(run, usual_call(), file, 0, ROUNDS);
  // A cut in mid-block, then a growth that must read as zeroes.
  check(MPI_File_set_size(file, file_bytes(run) / 2 + 13), "MPI_File_set_size");
  check(MPI_File_set_size(file, file_bytes(run) / 4 * 3 + 7), "MPI_File_set_size");
  MPI_Offset size = 0;
  check(MPI_File_get_size(file, &size), "MPI_File_get_size");
  if (size != file_bytes(run) / 4 * 3 + 7) fail("MPI_File_set_size: the size is %lld", (long long)size);
  close_file(&file);
}

static int64_t expect_set_size(const Run* run, char** image) {
  const int64_t size = file_bytes(run) / 4 * 3 + 7;
  const int64_t kept = file_bytes(run) / 2 + 13;
  memset(*image + kept, 0, (size_t)(size - kept));
  return size;
}

static void preallocate(const Run* run) {
  MPI_File file = create(path);
  check(MPI_File_preallocate(file, 2 * file_bytes(run)), "MPI_File_preallocate");
  set_view(run, file, false);
  write_rounds(run, usual_call(), file, 0, ROUNDS);
  close_file(&file);
}

static int64_t expect_preallocate(const Run* run, char** image) {
  char* longer = allocate(2 * file_bytes(run));
  memcpy(longer, *image, (size_t)file_bytes(run));
  free(*image);
  *image = longer;
  return 2 * file_bytes(run);
}

static void sync_in_mid_run(const Run* run) {
  MPI_File file = create(path);
  size_first(run, file);
  set_view(run, file, false);
  write_rounds(run, usual_call(), file, 0, ROUNDS / 2);
  check(MPI_File_sync(file), "MPI_File_sync");
  write_rounds(run, usual_call(), file, ROUNDS / 2, ROUNDS);
  close_file(&file);
}

static void delete_on_close(const Run* run) {
  MPI_File file = open_as(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
  size_first(run, file);
  set_view(run, file, false);
  write_rounds(run, usual_call(), file, 0, ROUNDS);
  close_file(&file);
}

static void delete_file(const Run* run) {
  need_file(run);
  MPI_Barrier(MPI_COMM_WORLD);
  if (run->rank == 0) check(MPI_File_delete(path, MPI_INFO_NULL), "MPI_File_delete");
  MPI_Barrier(MPI_COMM_WORLD);
}

static void read_only(const Run* run) {
  need_file(run);
  MPI_File file = open_as(MPI_COMM_WORLD, path, MPI_MODE_RDONLY);
  set_view(run, file, false);
  char* block = allocate(BLOCK);
  for (int round = 0; round < ROUNDS; ++round) {
    MPI_Status status;
    check(MPI_File_read_at_all(file, offset_of(run, round), block, BLOCK / run->element_bytes, run->element, &status),
          "MPI_File_read_at_all");
    check_moved(run, &status, "MPI_File_read_at_all");
    if (memcmp(block, run->stream + (size_t)round * BLOCK, BLOCK) != 0) fail("block %d reads as other bytes", round);
  }
  free(block);
  close_file(&file);
}

static void rename_when_done(const Run* run) {
  char temporary[PATH_LIMIT];
  if (snprintf(temporary, sizeof temporary, "%s.tmp", path) >= PATH_LIMIT) fail("the path is too long");
  write_file(run, usual_call(), temporary);
  MPI_Barrier(MPI_COMM_WORLD);
  if (run->rank == 0 && rename(temporary, path) != 0) fail("rename: %s", strerror(errno));
  MPI_Barrier(MPI_COMM_WORLD);
}

// The last rank alone writes one of its blocks anew.
static void update(const Run* run) {
  need_file(run);
  MPI_File file = open_as(MPI_COMM_WORLD, path, MPI_MODE_RDWR);
  set_view(run, file, false);
  if (run->rank == run->ranks - 1) {
    char* block = allocate(BLOCK);
    fill_block(block, run->rank, UPDATED_ROUND, UPDATE_SEED);
    MPI_Status status;
    check(MPI_File_write_at(file, offset_of(run, UPDATED_ROUND), block, BLOCK / run->element_bytes, run->element,
                            &status),
          "MPI_File_write_at");
    check_moved(run, &status, "MPI_File_write_at");
    free(block);
  }
  close_file(&file);
}

static int64_t expect_update(const Run* run, char** image) {
  char* block = allocate(BLOCK);
  fill_block(block, run->ranks - 1, UPDATED_ROUND, UPDATE_SEED);
  if (run->view) {
    place_in_rank_view(run, *image, block, run->ranks - 1, UPDATED_ROUND);
  } else {
    place_block(run, *image, block, UPDATED_ROUND * run->ranks + run->ranks - 1);
  }
  free(block);
  return file_bytes(run);
}

static void close_without_writing(const Run* run) {
  MPI_File file = create(path);
  set_view(run, file, false);
  close_file(&file);
}

static int64_t expect_empty(const Run* run, char** image) {
  (void)run;
  (void)image;
  return 0;
}

static const Mode modes[] = {
    {"set_size", set_size, PRESENT, expect_set_size},
    {"preallocate", preallocate, PRESENT, expect_preallocate},
    {"sync", sync_in_mid_run, PRESENT, NULL},
    {"delete_on_close", delete_on_close, ABSENT, NULL},
    {"delete", delete_file, ABSENT, NULL},
    {"read_only", read_only, PRESENT, NULL},
    {"rename", rename_when_done, PRESENT, NULL},
    {"update", update, PRESENT, expect_update},
    {"close_only", close_without_writing, PRESENT, expect_empty},
};
enum { MODES = sizeof modes / sizeof modes[0] };

const Mode* find_mode(const char* name) {
  for (int i = 0; i < MODES; ++i) {
    if (strcmp(modes[i].name, name) == 0) return &modes[i];
  }
  return NULL;
}

void print_modes(void) {
  for (int i = 0; i < MODES; ++i) puts(modes[i].name);
}
