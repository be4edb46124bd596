// Preloaded by tests/trouble/kill_test.py: ends the process by SIGKILL just before it does something to storage for the
// KILL_AT-th time (from 1), or, of a write with KILL_HALF set, after half of it. What counts is what is done to files
// whose names begin with ".LZY", or to any regular file with KILL_ALL. In an MPI job only the rank KILL_RANK dies. What
// was about to happen is left in the file KILL_NOTE.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME = 4096 };

static atomic_long seen;

static long setting(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text != NULL ? atol(text) : otherwise;
}

static int is_my_turn(void) {
  const char* rank = getenv("KILL_RANK");
  if (setting("KILL_AT", 0) == 0) return 0;
  if (rank == NULL) return 1;
  const char* variables[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK"};
  for (int i = 0; i < 2; ++i) {
    const char* mine = getenv(variables[i]);
    if (mine != NULL) return strcmp(mine, rank) == 0;
  }
  return 0;
}

static int counts(const char* path) {
  const char* slash = strrchr(path, '/');
  const char* base = slash != NULL ? slash + 1 : path;
  return strncmp(base, ".LZY", 4) == 0 || setting("KILL_ALL", 0) != 0;
}

// Whether this is the one; tells what it is.
static int is_the_one(const char* call, const char* path) {
  if (!is_my_turn() || !counts(path)) return 0;
  if (atomic_fetch_add(&seen, 1) + 1 != setting("KILL_AT", 0)) return 0;
  const char* note = getenv("KILL_NOTE");
  const int fd = note != NULL ? open(note, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
  if (fd >= 0) {
    dprintf(fd, "%s %s\n", call, path);
    close(fd);
  }
  return 1;
}

static int is_the_one_of(const char* call, int fd) {
  char link[64], path[NAME];
  struct stat about;
  if (fstat(fd, &about) != 0 || !(S_ISREG(about.st_mode) || S_ISDIR(about.st_mode))) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = '\0';
  return is_the_one(call, path);
}

// With KILL_SIGNAL it is another signal, which may come back.
static void die(void) {
  const long number = setting("KILL_SIGNAL", SIGKILL);
  kill(getpid(), (int)number);
  while (number == SIGKILL) pause();
}

static void* real(const char* name) {
  return dlsym(RTLD_NEXT, name);
}

#define WRAP_WRITE(name, offset_type)                                        \
  ssize_t name(int fd, const void* from, size_t count, offset_type offset) { \
    ssize_t (*next)(int, const void*, size_t, offset_type) = real(#name);    \
    if (is_the_one_of("pwrite", fd)) {                                       \
      if (setting("KILL_HALF", 0) != 0) next(fd, from, count / 2, offset);   \
      die();                                                                 \
    }                                                                        \
    return next(fd, from, count, offset);                                    \
  }
WRAP_WRITE(pwrite, off_t)
WRAP_WRITE(pwrite64, off64_t)

#define WRAP_TRUNCATE(name, offset_type)         \
  int name(int fd, offset_type size) {           \
    int (*next)(int, offset_type) = real(#name); \
    if (is_the_one_of("ftruncate", fd)) die();   \
    return next(fd, size);                       \
  }
WRAP_TRUNCATE(ftruncate, off_t)
WRAP_TRUNCATE(ftruncate64, off64_t)

#define WRAP_SYNC(name)                  \
  int name(int fd) {                     \
    int (*next)(int) = real(#name);      \
    if (is_the_one_of(#name, fd)) die(); \
    return next(fd);                     \
  }
WRAP_SYNC(fsync)
WRAP_SYNC(fdatasync)

int futimens(int fd, const struct timespec times[2]) {
  int (*next)(int, const struct timespec*) = real("futimens");
  if (is_the_one_of("futimens", fd)) die();
  return next(fd, times);
}

int rename(const char* from, const char* to) {
  int (*next)(const char*, const char*) = real("rename");
  if (is_the_one("rename", from)) die();
  return next(from, to);
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) {
  int (*next)(int, const char*, int, const char*, unsigned) = real("renameat2");
  if (is_the_one("renameat2", from)) die();
  return next(from_directory, from, to_directory, to, flags);
}

int unlink(const char* path) {
  int (*next)(const char*) = real("unlink");
  if (is_the_one("unlink", path)) die();
  return next(path);
}
