// Files that change, move or go while they are open.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "semantics.h"

static void by_posix(int failed, const char* what) {
  if (failed) fail(what, strerror(errno));
}

static void start_with_content(const char* name) {
  MPI_File file = create_file(name);
  write_block(file, rank, rank);
  write_block(file, ranks + rank, rank);
  close_file(&file);
}

// As PnetCDF does: truncate() after the open, before the first write.
static void truncated_after_open(void) {
  for (int size = 0; size <= 50000; size += 50000) {
    start_with_content("file");
    MPI_File file = open_file("file", MPI_MODE_RDWR);
    if (rank == 0) by_posix(truncate("file", size), "truncate");
    barrier();
    fill(rank + 50);
    tell_code("write", MPI_File_write_at_all(file, 1000 * (MPI_Offset)rank, block, 1000, MPI_BYTE, MPI_STATUS_IGNORE));
    close_file(&file);
  }
}

static void truncated_and_nothing_written(void) {
  start_with_content("file");
  MPI_File file = open_file("file", MPI_MODE_RDWR);
  if (rank == 0) by_posix(truncate("file", 70000), "truncate");
  barrier();
  close_file(&file);
  // The program changed it without MPI, and nobody but the next writer could know.
  file = open_file("file", MPI_MODE_RDWR);
  write_block(file, ranks + rank, rank);
  close_file(&file);
}

static void truncated_in_between(void) {
  MPI_File file = create_file("file");
  write_block(file, rank, rank);
  barrier();
  if (rank == ranks - 1) {
    const int descriptor = open("file", O_RDWR);
    by_posix(descriptor < 0 || ftruncate(descriptor, 30001) != 0 || close(descriptor) != 0, "ftruncate");
  }
  barrier();
  write_block(file, rank + 2, rank);
  tell_code("sync", MPI_File_sync(file));
  barrier();
  if (rank == 0) by_posix(truncate("file", 90000), "truncate");
  barrier();
  if (rank == ranks - 1) write_block(file, 1, rank);
  tell_code("sync", MPI_File_sync(file));
  barrier();
  if (rank == 0) by_posix(truncate("file", 500000), "truncate");
  barrier();
  if (rank == ranks - 1) write_block(file, 0, rank);
  close_file(&file);
}

static void recreate_plain_now(void) {
  barrier();
  if (rank == 0) {
    by_posix(unlink("plain.now"), "unlink");
    make_plain("plain.now", "another file");
  }
  barrier();
}

static void recreated_by_posix(void) {
  start_with_content("plain.now");
  MPI_File file = open_file("plain.now", MPI_MODE_RDWR);
  write_block(file, rank, rank + 3);
  recreate_plain_now();
  write_block(file, rank, rank + 4);
  tell_code("sync", MPI_File_sync(file));
  write_block(file, rank, rank + 5);
  close_file(&file);
}

// Never committed under its name: what has the name now was not written through MPI.
static void recreated_before_any_commit(void) {
  MPI_File file = create_file("plain.now");
  write_block(file, rank, rank);
  recreate_plain_now();
  write_block(file, rank, rank + 4);
  close_file(&file);
}

static void removed_after_commit(void) {
  MPI_File file = create_file("gone");
  write_block(file, rank, rank);
  tell_code("sync", MPI_File_sync(file));
  barrier();
  if (rank == 0) by_posix(unlink("gone"), "unlink");
  barrier();
  write_block(file, rank, rank + 1);
  tell_code("sync", MPI_File_sync(file));
  write_block(file, rank, rank + 2);
  close_file(&file);
}

static void renamed(void) {
  MPI_File file = create_file("f.part");
  write_block(file, rank, rank);
  tell_code("sync", MPI_File_sync(file));
  barrier();
  if (rank == 0) by_posix(rename("f.part", "file"), "rename");
  barrier();
  write_block(file, rank + ranks, rank);
  tell_code("sync", MPI_File_sync(file));
  write_block(file, rank + 2 * ranks, rank);
  close_file(&file);
}

// Over one that was protected, as checkpoints take the place of their predecessors.
static void renamed_over(void) {
  for (int step = 0; step < 3; ++step) {
    MPI_File file = create_file("f.new");
    write_block(file, rank, rank + step);
    close_file(&file);
    if (rank == 0) by_posix(rename("f.new", "file"), "rename");
    barrier();
    file = open_file("file", MPI_MODE_RDWR);
    write_block(file, rank + ranks, rank + step);
    close_file(&file);
  }
}

static void renamed_over_while_open(void) {
  start_with_content("file");
  MPI_File file = create_file("f.new");
  write_block(file, rank, rank + 9);
  barrier();
  if (rank == 0) by_posix(rename("f.new", "file"), "rename");
  barrier();
  write_block(file, rank + ranks, rank + 9);
  close_file(&file);
}

static void deleted_while_open(void) {
  start_with_content("gone");
  MPI_File file = open_file("gone", MPI_MODE_RDWR);
  write_block(file, rank, rank);
  barrier();
  if (rank == ranks - 1) tell_code("delete", MPI_File_delete("gone", MPI_INFO_NULL));
  barrier();
  write_block(file, rank, rank + 1);
  tell_code("sync", MPI_File_sync(file));
  write_block(file, rank, rank + 2);
  close_file(&file);
}

static void deleted_and_created_anew(void) {
  start_with_content("file");
  MPI_File old = open_file("file", MPI_MODE_RDWR);
  write_block(old, rank, rank);
  barrier();
  if (rank == 0) tell_code("delete", MPI_File_delete("file", MPI_INFO_NULL));
  barrier();
  MPI_File new = open_file("file", MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR);
  write_block(new, rank, rank + 1);
  write_block(old, rank, rank + 2);
  tell_code("sync", MPI_File_sync(old));
  write_block(new, ranks + rank, rank + 1);
  close_file(&old);
  write_block(new, 2 * ranks + rank, rank + 1);
  close_file(&new);
}

static void deleted_and_created_anew_old_last(void) {
  start_with_content("file");
  MPI_File old = open_file("file", MPI_MODE_RDWR);
  barrier();
  if (rank == 0) tell_code("delete", MPI_File_delete("file", MPI_INFO_NULL));
  barrier();
  MPI_File new = open_file("file", MPI_MODE_CREATE | MPI_MODE_RDWR);
  write_block(new, rank, rank + 1);
  close_file(&new);
  write_block(old, rank, rank + 2);
  close_file(&old);
}

static void again_and_again(void) {
  for (int i = 0; i < 5; ++i) {
    MPI_File file = create_file("file");
    write_block(file, rank + i, i);
    close_file(&file);
    if (i == 2 && rank == 0) tell_code("delete", MPI_File_delete("file", MPI_INFO_NULL));
    barrier();
  }
}

static void two_handles(void) {
  MPI_File one = create_file("file");
  MPI_File other = open_file("file", MPI_MODE_RDWR);
  write_block(one, 2 * rank, rank);
  write_block(other, 2 * rank + 1, rank);
  tell_code("sync", MPI_File_sync(one));
  write_block(one, 2 * ranks + rank, rank);
  tell_code("sync", MPI_File_sync(other));
  write_block(other, 3 * ranks + rank, rank);
  close_file(&one);
  write_block(other, 4 * ranks + rank, rank);
  close_file(&other);
}

static void read_beside_write(void) {
  MPI_File writer = create_file("file");
  MPI_File reader = open_file("file", MPI_MODE_RDONLY);
  MPI_Status status;
  write_block(writer, rank, rank);
  tell_code("sync", MPI_File_sync(writer));
  barrier();
  memset(block, 0, sizeof block);
  forget_status(&status);
  tell_code("read", MPI_File_read_at(reader, BLOCK * (MPI_Offset)rank, block, BLOCK, MPI_BYTE, &status));
  tell_status("read", &status, MPI_BYTE);
  tell("%d", block[BLOCK / 2]);
  write_block(writer, ranks + rank, rank);
  close_file(&writer);
  close_file(&reader);
}

static void opened_and_nothing_done(void) {
  MPI_File file = create_file("plain.empty");
  close_file(&file);
  file = open_file("plain.empty", MPI_MODE_RDWR);
  tell_code("nothing", MPI_File_write_at(file, 0, block, 0, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_code("nothing", MPI_File_write_at_all(file, 0, block, 0, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_code("sync", MPI_File_sync(file));
  close_file(&file);
  if (rank == 0) make_plain("plain.full", "made by another program");
  barrier();
  file = open_file("plain.full", MPI_MODE_RDWR);
  tell_code("read", MPI_File_read_at(file, 0, block, 4, MPI_BYTE, MPI_STATUS_IGNORE));
  tell_code("sync", MPI_File_sync(file));
  close_file(&file);
}

const Case kLifetimes[] = {{"truncated_after_open", truncated_after_open},
                           {"truncated_and_nothing_written", truncated_and_nothing_written},
                           {"truncated_in_between", truncated_in_between},
                           {"recreated_by_posix", recreated_by_posix},
                           {"recreated_before_any_commit", recreated_before_any_commit},
                           {"removed_after_commit", removed_after_commit},
                           {"renamed", renamed},
                           {"renamed_over", renamed_over},
                           {"renamed_over_while_open", renamed_over_while_open},
                           {"deleted_while_open", deleted_while_open},
                           {"deleted_and_created_anew", deleted_and_created_anew},
                           {"deleted_and_created_anew_old_last", deleted_and_created_anew_old_last},
                           {"again_and_again", again_and_again},
                           {"two_handles", two_handles},
                           {"read_beside_write", read_beside_write},
                           {"opened_and_nothing_done", opened_and_nothing_done},
                           {NULL, NULL}};
