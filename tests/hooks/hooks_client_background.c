// Programs whose commits are in the background: what they do to a file after its close, and how they end.
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hooks_client.h"

enum { BLOCKS = 3 };

// Each rank writes every `ranks`-th block.
static void write_file(MPI_Comm comm, const char* name, int seed) {
  MPI_File file = create(comm, name);
  for (int i = 0; i < BLOCKS; ++i) write_block(file, i * ranks + rank, seed + i * ranks + rank);
  close_file(&file);
}

static void numbered(char* name, int number) { snprintf(name, NAME, "%s.%d", path, number); }

// ARGUMENT checkpoints FILE.0, FILE.1 and so on.
static void background_steps(void) {
  for (int step = 0; step < atoi(argument); ++step) {
    char name[NAME];
    numbered(name, step);
    write_file(MPI_COMM_WORLD, name, step);
  }
}

// The same, and the test looks before the program ends.
static void background_hold(void) {
  background_steps();
  hold(1);
}

static void background_again(void) {
  for (int time = 0; time < 3; ++time) write_file(MPI_COMM_WORLD, path, 100 * time);
}

// FILE.0 is deleted when FILE.1 is closed.
static void background_delete(void) {
  char name[NAME];
  numbered(name, 0);
  write_file(MPI_COMM_WORLD, name, 0);
  MPI_File file = open_with(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL);  // waits for its commit
  close_file(&file);
  hold(1);
  numbered(name, 1);
  write_file(MPI_COMM_WORLD, name, 1);
  if (rank == 0) printf("closed\n");
  fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  numbered(name, 0);
  if (rank == 0) check(MPI_File_delete(name, MPI_INFO_NULL), "MPI_File_delete");
  hold(2);
}

// After the close, rank 0 writes into the file without MPI.
static void background_edit(void) {
  write_file(MPI_COMM_WORLD, path, 1);
  if (rank == 0) {
    const int file = open(path, O_WRONLY);
    if (file < 0 || pwrite(file, "edited", 6, BLOCK + 10) != 6 || close(file) != 0) fail("edit", strerror(errno));
  }
  hold(1);
}

// After the close, rank 0 renames the file to ARGUMENT, and all make a new one of the old name.
static void background_rename(void) {
  write_file(MPI_COMM_WORLD, path, 1);
  if (rank == 0 && rename(path, argument) != 0) fail("rename", strerror(errno));
  hold(1);
  write_file(MPI_COMM_WORLD, path, 2);
}

static void background_remove(void) {
  write_file(MPI_COMM_WORLD, path, 1);
  if (rank == 0 && unlink(path) != 0) fail("unlink", strerror(errno));
  hold(1);
}

// Writes go on after a sync.
static void background_sync(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  for (int i = 0; i < BLOCKS; ++i) {
    write_block(file, i * ranks + rank, i * ranks + rank);
    check(MPI_File_sync(file), "MPI_File_sync");
  }
  write_block(file, rank, 77 + rank);
  check(MPI_File_sync(file), "MPI_File_sync");
  close_file(&file);
}

static void background_codes(void) {
  for (int step = 0; step < 3; ++step) {
    char name[NAME];
    numbered(name, step);
    MPI_File file = create(MPI_COMM_WORLD, name);
    write_block(file, rank, step);
    print_code("close", MPI_File_close(&file));
    hold(step + 1);
  }
}

// Ends without MPI_Finalize.
static void background_exit(void) {
  background_steps();
  MPI_Barrier(MPI_COMM_WORLD);
  exit(0);
}

// A child that ends as a process usually does.
static void background_fork(void) {
  background_steps();
  const pid_t child = fork();
  if (child == 0) exit(7);
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7) fail("fork", "the child did not end well");
  hold(1);
}

// Members of a set; the last rank comes late to its close.
static void background_late(void) {
  char name[NAME];
  own_name(name);
  MPI_File file = create(MPI_COMM_SELF, name);
  write_block(file, 0, rank);
  if (rank == ranks - 1) {
    while (access("LATE", F_OK) != 0) usleep(10000);
  }
  close_file(&file);
  if (rank == 0) {
    const int late = open("LATE", O_WRONLY | O_CREAT, 0666);
    if (late < 0 || close(late) != 0) fail("LATE", strerror(errno));
  }
}

// Only a hint asks for it.
static void background_hint(void) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "lzy_commit", "background");
  MPI_File file = open_with(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info);
  write_block(file, rank, rank);
  close_file(&file);
  MPI_Info_free(&info);
}

static void background_level(void) {
  int level = -1, level_p = -1;
  MPI_Query_thread(&level);
  PMPI_Query_thread(&level_p);
  if (rank == 0) printf("level %d %d of %d\n", level, level_p, MPI_THREAD_SINGLE);
  fflush(stdout);
}

const Action background_actions[] = {
    ACTION(background_steps), ACTION(background_hold), ACTION(background_again), ACTION(background_delete),
    ACTION(background_edit),  ACTION(background_rename), ACTION(background_remove), ACTION(background_sync),
    ACTION(background_codes), ACTION(background_exit), ACTION(background_fork), ACTION(background_late),
    ACTION(background_hint),  ACTION(background_level), END_OF_ACTIONS};
