// Actions of hooks_client on one file that all ranks share.
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hooks_client.h"

// Sends nothing and opens nothing.
static void silent(void) {}

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

// All write, and the size is cut: by MPI-IO, after a sync by POSIX calls.
static void cut_at_the_end(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  fill(rank);
  const MPI_Offset at = (MPI_Offset)rank * BLOCK;
  check(MPI_File_write_at_all(file, at, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE), "write_at_all");
  check(MPI_File_set_size(file, (MPI_Offset)ranks * BLOCK - 5000), "set_size");
  check(MPI_File_sync(file), "MPI_File_sync");
  check(MPI_File_write_at_all(file, at + 7, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE), "write_at_all");
  MPI_Barrier(MPI_COMM_WORLD);
  usleep(50000);  // more than the clock's tick
  if (rank == 0 && truncate(path, BLOCK + 100) != 0) fail("truncate", strerror(errno));
  MPI_Barrier(MPI_COMM_WORLD);
  close_file(&file);
}

// The file is cut by POSIX calls right after the last write, within a tick of the clock.
static void cut_within_a_tick(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  fill(rank);
  check(MPI_File_write_at_all(file, (MPI_Offset)rank * BLOCK, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE), "write_at_all");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    struct stat before;
    if (stat(path, &before) != 0 || truncate(path, 65536) != 0) fail("truncate", strerror(errno));
    const struct timespec times[2] = {before.st_atim, before.st_mtim};
    if (utimensat(AT_FDCWD, path, times, 0) != 0) fail("utimensat", strerror(errno));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  close_file(&file);
}

// What one handle has written is cut by another one. Then the first one writes once more.
static void cut_by_another_handle(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  fill(rank);
  check(MPI_File_write_at_all(file, (MPI_Offset)rank * BLOCK, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE), "write_at_all");
  MPI_File other = open_with(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL);
  check(MPI_File_set_size(other, 1000), "set_size");
  close_file(&other);
  check(MPI_File_write_at_all(file, rank * 100, block, 100, MPI_BYTE, MPI_STATUS_IGNORE), "write_at_all");
  close_file(&file);
}

// Rank 0 writes half of what rank 1 then writes over it. The size is cut in the block where the half ends. Rank 1
// writes there once more if ARGUMENT says so.
static void cut_in_a_block(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  fill(1);
  if (rank == 0) check(MPI_File_write_at(file, 2 * BLOCK, block, BLOCK / 2, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
  MPI_Barrier(MPI_COMM_WORLD);
  fill(2);
  if (rank == 1) check(MPI_File_write_at(file, 2 * BLOCK, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
  MPI_Barrier(MPI_COMM_WORLD);
  check(MPI_File_set_size(file, 2 * BLOCK + BLOCK / 2 + 1000), "set_size");
  fill(3);
  if (rank == 1 && strcmp(argument, "again") == 0)
    check(MPI_File_write_at(file, 2 * BLOCK + BLOCK / 2 + 1000, block, BLOCK / 8, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
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

// Calls that MPI refuses; what it says must not change.
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

// A file of as many bytes as the argument says, at most BLOCK, committed twice: at a sync, and after one more byte.
static void small(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  fill(1);
  if (rank == 0) check(MPI_File_write_at(file, 0, block, atoi(argument), MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
  check(MPI_File_sync(file), "sync");
  if (rank == ranks - 1) check(MPI_File_write_at(file, 0, "x", 1, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
  close_file(&file);
}

// 64 KiB in records of as many bytes as the argument says, which the ranks write in turns; twice. Bytes, place and order are the
// same in every run.
static void alternate_records(void) {
  const int size = atoi(argument);
  MPI_File file = create(MPI_COMM_WORLD, path);
  for (int round = 1; round <= 2; ++round) {
    fill(round);
    for (int record = rank; record * size < 65536; record += ranks) {
      const int length = 65536 - record * size < size ? 65536 - record * size : size;
      check(MPI_File_write_at(file, (MPI_Offset)record * size, block + record * size, length, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
    }
    check(MPI_File_sync(file), "sync");
    MPI_Barrier(MPI_COMM_WORLD);
  }
  close_file(&file);
}

const Action shared_file_actions[] = {
    ACTION(silent),
    ACTION(plain),
    ACTION(rounds),
    ACTION(patched),
    ACTION(cut_at_the_end),
    ACTION(cut_by_another_handle),
    ACTION(cut_within_a_tick),
    ACTION(cut_in_a_block),
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
    ACTION(alternate_records),
    END_OF_ACTIONS,
};
