// Actions of hooks_client on file sets: each rank has a file of its own.
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hooks_client.h"

static void close_member(MPI_File* file) {
  const double start = MPI_Wtime();
  print_code("close", MPI_File_close(file));
  print_time("close", start);
}

static MPI_File write_member(void) {
  char name[NAME];
  own_name(name);
  MPI_File file = create(MPI_COMM_SELF, name);
  write_block(file, 0, rank);
  return file;
}

static void set(void) {
  MPI_File file = write_member();
  close_member(&file);
}

static void write_header(int of) {
  char name[NAME];
  snprintf(name, sizeof name, "%s.%d", path, of);
  const int fd = open(name, O_WRONLY);
  if (fd < 0 || pwrite(fd, "HEADER", 6, 0) != 6 || close(fd) != 0) fail("pwrite", strerror(errno));
}

// Rank 1 writes a header by POSIX calls before it closes its member.
static void set_patched(void) {
  MPI_File file = write_member();
  usleep(50000);  // more than the clock's tick
  if (rank == 1) write_header(rank);
  close_file(&file);
}

// While rank 0 closes its member and waits for rank 1, that one writes a header to it.
static void set_patched_late(void) {
  MPI_File file = write_member();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) {
    usleep(300000);
    write_header(0);
  }
  close_file(&file);
}

// Writes the same bytes of each member by two handles. When the later one is closed, the member of rank 1 has another name.
static void set_two_handles(void) {
  char name[NAME], other[NAME + 8];
  own_name(name);
  snprintf(other, sizeof other, "%s.away", name);
  MPI_File first = write_member();
  write_block(first, 3, rank);
  MPI_File second = open_with(MPI_COMM_SELF, name, MPI_MODE_RDWR, MPI_INFO_NULL);
  write_block(second, 3, 77 + rank);
  if (rank == 1 && rename(name, other) != 0) fail("rename", strerror(errno));
  close_file(&second);
  if (rank == 1 && rename(other, name) != 0) fail("rename", strerror(errno));
  MPI_Barrier(MPI_COMM_WORLD);
  close_file(&first);
}

// Rank 1 writes by its second handle and closes the first; rank 0 writes by the first. Then rank 1 reads what it wrote.
static void set_written_by_another_handle(void) {
  char name[NAME];
  own_name(name);
  MPI_File first = open_with(MPI_COMM_SELF, name, MPI_MODE_RDWR, MPI_INFO_NULL);
  MPI_File second = open_with(MPI_COMM_SELF, name, MPI_MODE_RDWR, MPI_INFO_NULL);
  write_block(rank == 1 ? second : first, 0, 50 + rank);
  close_file(&first);
  char there[BLOCK];
  fill(50 + rank);
  check(MPI_File_read_at(second, 0, there, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE), "read_at");
  if (memcmp(there, block, BLOCK) != 0) fail("read_at", "not what was written");
  close_file(&second);
}

// With option set-sync both calls commit. ARGUMENT as of codes.
static void set_codes(void) {
  MPI_File file = write_member();
  limit_files();
  print_code("sync", MPI_File_sync(file));
  print_code("close", MPI_File_close(&file));
}

// Rank ARGUMENT's member gets another name while it is open.
static void set_renamed(void) {
  MPI_File file = write_member();
  char name[NAME], other[NAME + 8];
  own_name(name);
  snprintf(other, sizeof other, "%s.away", name);
  if (rank == atoi(argument) && rename(name, other) != 0) fail("rename", strerror(errno));
  close_member(&file);
}

// All open their members, rank ARGUMENT does not write its own.
static void set_but_one(void) {
  char name[NAME];
  own_name(name);
  MPI_File file = create(MPI_COMM_SELF, name);
  if (rank != atoi(argument)) write_block(file, 0, 80 + rank);
  close_member(&file);
}

// Steps, written by the same ranks in the same order, each to files of its own: FILE.STEP.RANK
static void set_steps(void) {
  for (int step = 0; step < 3; ++step) {
    char name[NAME];
    snprintf(name, sizeof name, "%s.%d.%d", path, step, rank);
    MPI_File file = create(MPI_COMM_SELF, name);
    write_block(file, 0, 100 * step + rank);
    close_file(&file);
  }
}

static void end_at_once(int signal) {
  (void)signal;
  _exit(99);
}

// Like set_steps, in a program that would not stand children which it did not make.
static void set_drain(void) {
  signal(SIGCHLD, end_at_once);
  set_steps();
  if (waitpid(-1, NULL, 0) != -1 || errno != ECHILD) fail("waitpid", "there is a child");
}

static void set_again(void) {
  for (int step = 0; step < 3; ++step) {
    MPI_File file = write_member();
    write_block(file, 1 + step, 100 * step + rank);
    close_file(&file);
  }
}

static void set_sync(void) {
  MPI_File file = write_member();
  check(MPI_File_sync(file), "MPI_File_sync");
  crash();
}

// A member written, and on disk already, so that its close has nothing to wait for but the other ranks.
static MPI_File write_member_durably(void) {
  MPI_File file = write_member();
  check(MPI_File_sync(file), "MPI_File_sync");
  return file;
}

// Rank ARGUMENT never opens its member. The others are all there when the first of them closes its own.
static void set_missing(void) {
  const int missing = rank == atoi(argument);
  MPI_File file = missing ? MPI_FILE_NULL : write_member_durably();
  MPI_Barrier(MPI_COMM_WORLD);
  if (!missing) close_member(&file);
}

// Rank ARGUMENT closes its member when all others are done with theirs.
static void set_late(void) {
  const int late = rank == atoi(argument);
  MPI_File file = write_member_durably();
  MPI_Barrier(MPI_COMM_WORLD);
  if (!late) close_member(&file);
  MPI_Barrier(MPI_COMM_WORLD);
  if (late) close_member(&file);
}

// Rank 0 opens the file of rank 1.
static void set_wrong_rank(void) {
  char name[NAME];
  snprintf(name, sizeof name, "%s.%d", path, (rank + 1) % ranks);
  MPI_File file = create(MPI_COMM_SELF, name);
  write_block(file, 0, rank);
  close_file(&file);
}

static void set_hint(void) {
  char name[NAME], pattern[NAME];
  own_name(name);
  snprintf(pattern, sizeof pattern, "%s.%%r", path);
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "lzy_set", pattern);
  MPI_File file = open_with(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info);
  write_block(file, 0, rank);
  close_file(&file);
  MPI_Info_free(&info);
}

const Action set_actions[] = {
    ACTION(set),
    ACTION(set_but_one),
    ACTION(set_patched),
    ACTION(set_patched_late),
    ACTION(set_two_handles),
    ACTION(set_written_by_another_handle),
    ACTION(set_renamed),
    ACTION(set_steps),
    ACTION(set_drain),
    ACTION(set_again),
    ACTION(set_codes),
    ACTION(set_sync),
    ACTION(set_missing),
    ACTION(set_late),
    ACTION(set_wrong_rank),
    ACTION(set_hint),
    END_OF_ACTIONS,
};
