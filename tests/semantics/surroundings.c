// What a process has besides MPI: descriptors, limits, signals, rights, a working directory.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "semantics.h"

static int open_descriptors(void) {
  int count = 0;
  DIR* directory = opendir("/proc/self/fd");
  if (directory == NULL) return -1;
  while (readdir(directory) != NULL) ++count;
  closedir(directory);
  return count;
}

static void descriptors(void) {
  MPI_File warm = create_file("f.0");  // what MPI opens once and keeps
  write_block(warm, rank, rank);
  close_file(&warm);
  const int before = open_descriptors();
  for (int i = 1; i < 4; ++i) {
    char name[32];
    snprintf(name, sizeof name, "f.%d", i);
    MPI_File file = create_file(name);
    write_block(file, rank, rank);
    tell_code("sync", MPI_File_sync(file));
    write_block(file, ranks + rank, rank);
    close_file(&file);
  }
  const int lowest = open("/dev/null", O_RDONLY);
  close(lowest);
  tell("descriptors left: %d", open_descriptors() - before);
}

static void working_directory_and_mask(void) {
  char before[NAME], after[NAME];
  const mode_t mask = umask(027);
  if (getcwd(before, sizeof before) == NULL) fail("getcwd", ".");
  MPI_File file = create_file("file");
  write_block(file, rank, rank);
  close_file(&file);
  if (getcwd(after, sizeof after) == NULL) fail("getcwd", ".");
  tell("same directory %d, mask %03o", strcmp(before, after) == 0, (unsigned)umask(mask));
}

static volatile sig_atomic_t signals;

static void on_signal(int number) {
  (void)number;
  ++signals;
}

// Writes that the system refuses, and the signal that says so.
static void file_size_limit(void) {
  struct rlimit before, limit;
  struct sigaction action = {.sa_handler = on_signal}, old;
  MPI_File file = create_file("file");
  MPI_File_set_errhandler(file, file_handler);
  write_block(file, rank, rank);
  getrlimit(RLIMIT_FSIZE, &before);
  limit = before;
  limit.rlim_cur = 1000000;
  sigaction(SIGXFSZ, &action, &old);
  signals = 0;
  setrlimit(RLIMIT_FSIZE, &limit);
  write_block(file, 30 + rank, rank);
  tell("signals %d", (int)signals);
  write_block(file, ranks + rank, rank);
  tell_code("sync", MPI_File_sync(file));
  tell("signals %d", (int)signals);
  close_file(&file);
  setrlimit(RLIMIT_FSIZE, &before);
  sigaction(SIGXFSZ, &old, NULL);
}

static void devices(void) {
  static const char* const names[] = {"/dev/null", "/dev/full", "/dev/zero"};
  for (int i = 0; i < 3; ++i) {
    MPI_File file = open_file(names[i], MPI_MODE_WRONLY);
    if (file == MPI_FILE_NULL) continue;
    tell_code("write", MPI_File_write(file, block, 10, MPI_BYTE, MPI_STATUS_IGNORE));
    close_file(&file);
  }
}

// A file that may be written, in a directory where no other can be made. As another user where this one is root.
static void read_only_directory(void) {
  const int root = geteuid() == 0;
  if (rank == 0) {
    make_plain("plain", "here before");
    if (chmod("plain", 0666) != 0 || chmod(".", 0555) != 0) fail("chmod", ".");
  }
  barrier();
  if (root && seteuid(65534) != 0) fail("seteuid", "65534");
  for (int i = 0; i < 2; ++i) {
    MPI_File file = open_file("plain", MPI_MODE_RDWR);
    write_block(file, rank, rank);
    tell_code("sync", MPI_File_sync(file));
    write_block(file, ranks + rank, rank);
    close_file(&file);
  }
  barrier();
  if (root && seteuid(0) != 0) fail("seteuid", "0");
  if (rank == 0 && chmod(".", 0755) != 0) fail("chmod", ".");
}

// Signals that come all the time must not disturb what is done in between.
static void interrupted(void) {
  struct sigaction action = {.sa_handler = on_signal}, old;  // no SA_RESTART
  const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
  sigaction(SIGALRM, &action, &old);
  setitimer(ITIMER_REAL, &often, NULL);
  for (int i = 0; i < 5; ++i) {
    MPI_File file = create_file("file");
    write_block(file, rank + i * ranks, rank);
    tell_code("sync", MPI_File_sync(file));
    close_file(&file);
  }
  setitimer(ITIMER_REAL, &never, NULL);
  sigaction(SIGALRM, &old, NULL);
}

const Case kSurroundings[] = {{"descriptors", descriptors},
                              {"working_directory_and_mask", working_directory_and_mask},
                              {"file_size_limit", file_size_limit},
                              {"devices", devices},
                              {"read_only_directory", read_only_directory},
                              {"interrupted", interrupted},
                              {NULL, NULL}};
