// Programs whose commits are in the background: what they do to a file after its close, and how they end.
#define _DEFAULT_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
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

static void finalize_at_exit(void) {
  int done = 0;
  MPI_Finalized(&done);
  if (!done) MPI_Finalize();
}

// As a static object of a C++ program does: this handler is registered before MPI_Init.
__attribute__((constructor)) static void register_early(void) {
  if (getenv("FINALIZE_EARLY") != NULL) atexit(finalize_at_exit);
}

// MPI_Finalize is called in an exit handler: one that was registered before the first open, or, with FINALIZE_EARLY, that one.
static void background_atexit(void) {
  if (getenv("FINALIZE_EARLY") == NULL) atexit(finalize_at_exit);
  background_steps();
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

// Members of two sets, closed by the last rank in the other order.
static void background_order(void) {
  char a[NAME], b[NAME];
  snprintf(a, sizeof a, "a.%d", rank);
  snprintf(b, sizeof b, "b.%d", rank);
  MPI_File first = create(MPI_COMM_SELF, rank == ranks - 1 ? b : a);
  MPI_File second = create(MPI_COMM_SELF, rank == ranks - 1 ? a : b);
  write_block(first, 0, rank);
  write_block(second, 0, 50 + rank);
  close_file(&first);
  hold(1);
  close_file(&second);
}

// Dies after ARGUMENT microseconds, the last rank first.
static void background_killed(void) {
  struct itimerval timer = {{0, 0}, {0, atoi(argument) + 1000 * (ranks - 1 - rank)}};
  MPI_Barrier(MPI_COMM_WORLD);
  if (setitimer(ITIMER_REAL, &timer, NULL) != 0) fail("setitimer", strerror(errno));
  for (int step = 0;; ++step) {
    char name[NAME];
    numbered(name, step % 3);
    write_file(MPI_COMM_WORLD, name, step);
  }
}

// Waits by liblzy.so, whose path ARGUMENT is.
static void background_wait(void) {
  void* const library = dlopen(argument, RTLD_NOW);
  void* const symbol = library == NULL ? NULL : dlsym(library, "lzy_commit_wait");
  int (*wait)(const char*, double);
  if (symbol == NULL) fail(argument, dlerror());
  memcpy(&wait, &symbol, sizeof wait);
  write_file(MPI_COMM_WORLD, path, 1);
  char renamed[NAME];
  snprintf(renamed, sizeof renamed, "%s.renamed", path);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0 && rename(path, renamed) != 0) fail("rename", strerror(errno));
  MPI_Barrier(MPI_COMM_WORLD);
  printf("wait %d: %d %d %d %d\n", rank, wait(NULL, 0.05), wait(path, 0), wait(renamed, 0), wait("another", 1e300));
  fflush(stdout);
  hold(1);
  printf("wait %d: %d %d\n", rank, wait(renamed, 1e300), wait(NULL, -1));
  fflush(stdout);
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
    ACTION(background_codes), ACTION(background_exit), ACTION(background_atexit), ACTION(background_fork), ACTION(background_late),
    ACTION(background_order), ACTION(background_killed), ACTION(background_wait), ACTION(background_hint),  ACTION(background_level), END_OF_ACTIONS};
