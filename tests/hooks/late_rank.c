// Preloaded by tests/hooks/finalize_test.py: the last rank comes late to MPI_Finalize. It comes when all other ranks have told
// the launcher that they wait for the others, which is the last thing that they do there. Some of them may need the last rank for
// this; then it comes after 0.1 s. LATE_RANK names a directory for notes.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int finalizing;

static int number(const char* name) {
  const char* value = getenv(name);
  return value == NULL ? -1 : atoi(value);
}

static void note_of(int rank, char* path, size_t size) {
  const char* directory = getenv("LATE_RANK");
  snprintf(path, size, "%s/WAITS.%d", directory != NULL ? directory : ".", rank);
}

// Of MPICH's PMI.
ssize_t write(int file, const void* data, size_t size) {
  static const char barrier[] = "cmd=barrier_in";
  ssize_t (*real)(int, const void*, size_t) = (ssize_t (*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  const ssize_t written = real(file, data, size);
  if (finalizing && size >= sizeof barrier - 1 && memcmp(data, barrier, sizeof barrier - 1) == 0) {
    char path[4096];
    note_of(number("PMI_RANK"), path, sizeof path);
    const int note = open(path, O_WRONLY | O_CREAT, 0666);
    if (note >= 0) close(note);
  }
  return written;
}

int MPI_Finalize(void);
int MPI_Finalize(void) {
  int (*real)(void) = (int (*)(void))dlsym(RTLD_NEXT, "MPI_Finalize");
  finalizing = 1;
  const int late = number("PMI_SIZE") - 1;
  for (int rank = 0, milliseconds = 0; number("PMI_RANK") == late && rank < late && milliseconds < 100;) {
    char path[4096];
    note_of(rank, path, sizeof path);
    if (access(path, F_OK) == 0) {
      ++rank;
    } else {
      usleep(1000);
      ++milliseconds;
    }
  }
  return real();
}
