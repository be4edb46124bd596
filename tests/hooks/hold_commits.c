// Preloaded by tests/hooks/background_test.py: commits in the background stop where they sync, until the test makes the
// file GO.COMMIT in the directory HOLD_COMMITS. Each thread that waits has made a file HELD.PID before. Only threads that
// are not the first of their process wait. A thread that is to fail finds the file FAIL there instead.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_there(const char* directory, const char* name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return access(path, F_OK) == 0;
}

// 0, or an error of the sync.
static int hold(void) {
  const char* directory = getenv("HOLD_COMMITS");
  if (directory == NULL || syscall(SYS_gettid) == getpid()) return 0;
  char path[4096];
  snprintf(path, sizeof path, "%s/HELD.%d", directory, (int)getpid());
  const int note = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (note >= 0) close(note);
  while (!is_there(directory, "GO.COMMIT") && !is_there(directory, "FAIL")) usleep(5000);
  return is_there(directory, "FAIL") ? EIO : 0;
}

int fsync(int file) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  const int error = hold();
  if (error == 0) return real(file);
  errno = error;
  return -1;
}

int fdatasync(int file) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  const int error = hold();
  if (error == 0) return real(file);
  errno = error;
  return -1;
}
