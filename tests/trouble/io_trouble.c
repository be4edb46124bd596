// Preloaded by tests/trouble/io_trouble_test.py: what the system does to whoever reads and writes, when it has reason to. Only calls of
// programs and of lzy meet it, not those of the MPI library.
//   TROUBLE=restless   calls are interrupted (EINTR) before they have done anything, and reads and writes come short, at random
//   TROUBLE=torn       the TROUBLE_AT-th write (from 1) does half of its work and fails (EIO)
//   TROUBLE=unsynced   the TROUBLE_AT-th sync of a file or directory fails (EIO)
//   TROUBLE=full       after TROUBLE_AT bytes there is no space left (ENOSPC): the write that comes to that point is short
//   TROUBLE=quota      as full, by quota (EDQUOT)
//   TROUBLE=slow       each write and sync takes TROUBLE_MS milliseconds more
// TROUBLE_NAMES: only files whose names begin so. TROUBLE_RANK: only in this rank of an MPI job. TROUBLE_SEED: of what is at random.
// How many calls met it is added, as a line, to the file TROUBLE_NOTE when the process ends.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH = 4096, SHORTEST = 1 };

static atomic_long met, writes, syncs, room_taken;
static atomic_ulong state;

static long setting(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text != NULL ? atol(text) : otherwise;
}

static int is(const char* kind) {
  const char* set = getenv("TROUBLE");
  return set != NULL && strcmp(set, kind) == 0;
}

// Programs and lzy, not MPI nor what that is made of. The preloaded half of the layer passes calls of all of them on (option posix).
static int is_of_interest(const void* caller) {
  Dl_info info;
  if (dladdr(caller, &info) == 0 || info.dli_fname == NULL) return 0;
  const char* slash = strrchr(info.dli_fname, '/');
  const char* base = slash != NULL ? slash + 1 : info.dli_fname;
  if (strcmp(base, "liblzy_mpiio.so") == 0) return 0;
  return strncmp(base, "liblzy", 6) == 0 || strstr(base, ".so") == NULL;
}

static int is_my_rank(void) {
  const char* variables[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK"};
  for (int i = 0; i < 2 && getenv("TROUBLE_RANK") != NULL; ++i) {
    const char* mine = getenv(variables[i]);
    if (mine != NULL) return atol(mine) == setting("TROUBLE_RANK", 0);
  }
  return 1;
}

static int named(int fd) {
  char link[64], path[PATH];
  struct stat about;
  if (fstat(fd, &about) != 0 || !(S_ISREG(about.st_mode) || S_ISDIR(about.st_mode))) return 0;
  const char* names = getenv("TROUBLE_NAMES");
  if (names == NULL) return 1;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = '\0';
  const char* slash = strrchr(path, '/');
  return strncmp(slash != NULL ? slash + 1 : path, names, strlen(names)) == 0;
}

static int concerns(int fd, const void* caller) {
  return getenv("TROUBLE") != NULL && is_my_rank() && is_of_interest(caller) && named(fd);
}

// Of a counter, so that threads may call it (splitmix64).
static uint64_t chance(void) {
  uint64_t z = (atomic_fetch_add(&state, 1) + 1) * 0x9e3779b97f4a7c15u + (uint64_t)setting("TROUBLE_SEED", 42);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static int fail(int error) {
  atomic_fetch_add(&met, 1);
  errno = error;
  return -1;
}

static int interrupted(void) {
  return is("restless") && chance() % 3 == 0;
}

static size_t shortened(size_t count) {
  if (!is("restless") || count <= SHORTEST || chance() % 2 != 0) return count;
  atomic_fetch_add(&met, 1);
  return SHORTEST + chance() % (count - SHORTEST);
}

static void dawdle(void) {
  if (!is("slow")) return;
  const long ms = setting("TROUBLE_MS", 10);
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
  atomic_fetch_add(&met, 1);
}

// What a write may still do; -1 with errno set where it fails. `*torn`: it fails when that is done.
static ssize_t allowed(size_t count, int* torn) {
  *torn = 0;
  if (interrupted()) return fail(EINTR);
  dawdle();
  if (is("torn") && atomic_fetch_add(&writes, 1) + 1 == setting("TROUBLE_AT", 0)) {
    *torn = 1;
    return (ssize_t)(count / 2);
  }
  if (is("full") || is("quota")) {
    const long before = atomic_fetch_add(&room_taken, (long)count);
    const long left = setting("TROUBLE_AT", 0) - before;
    if (left <= 0) return fail(is("full") ? ENOSPC : EDQUOT);
    if ((long)count > left) return (ssize_t)left;
  }
  return (ssize_t)shortened(count);
}

static void* real(const char* name) {
  return dlsym(RTLD_NEXT, name);
}

#define WRAP_PWRITE(name, offset_type)                                                    \
  ssize_t name(int fd, const void* from, size_t count, offset_type offset) {              \
    ssize_t (*next)(int, const void*, size_t, offset_type) = real(#name);                 \
    int torn = 0;                                                                         \
    ssize_t part = (ssize_t)count;                                                        \
    if (concerns(fd, __builtin_return_address(0))) part = allowed(count, &torn);          \
    if (part < 0) return -1;                                                              \
    const ssize_t done = next(fd, from, (size_t)part, offset);                            \
    return torn ? fail(EIO) : done;                                                       \
  }
WRAP_PWRITE(pwrite, off_t)
WRAP_PWRITE(pwrite64, off64_t)

ssize_t write(int fd, const void* from, size_t count) {
  ssize_t (*next)(int, const void*, size_t) = real("write");
  int torn = 0;
  ssize_t part = (ssize_t)count;
  if (fd > STDERR_FILENO && concerns(fd, __builtin_return_address(0))) part = allowed(count, &torn);
  if (part < 0) return -1;
  const ssize_t done = next(fd, from, (size_t)part);
  return torn ? fail(EIO) : done;
}

#define WRAP_PREAD(name, offset_type)                                             \
  ssize_t name(int fd, void* to, size_t count, offset_type offset) {              \
    ssize_t (*next)(int, void*, size_t, offset_type) = real(#name);               \
    if (concerns(fd, __builtin_return_address(0))) {                              \
      if (interrupted()) return fail(EINTR);                                      \
      /* With O_DIRECT reads come short by sectors. */                            \
      const int direct = (fcntl(fd, F_GETFL) & O_DIRECT) != 0;                    \
      const size_t part = shortened(count);                                       \
      count = direct && part >= PATH ? part / PATH * PATH : direct ? count : part; \
    }                                                                             \
    return next(fd, to, count, offset);                                           \
  }
WRAP_PREAD(pread, off_t)
WRAP_PREAD(pread64, off64_t)

#define WRAP_SYNC(name)                                                                                    \
  int name(int fd) {                                                                                       \
    int (*next)(int) = real(#name);                                                                        \
    if (concerns(fd, __builtin_return_address(0))) {                                                       \
      if (interrupted()) return fail(EINTR);                                                               \
      dawdle();                                                                                            \
      if (is("unsynced") && atomic_fetch_add(&syncs, 1) + 1 == setting("TROUBLE_AT", 0)) return fail(EIO); \
    }                                                                                                      \
    return next(fd);                                                                                       \
  }
WRAP_SYNC(fsync)
WRAP_SYNC(fdatasync)

#define WRAP_TRUNCATE(name, offset_type)                                                             \
  int name(int fd, offset_type size) {                                                               \
    int (*next)(int, offset_type) = real(#name);                                                     \
    if (concerns(fd, __builtin_return_address(0)) && interrupted()) return fail(EINTR);              \
    return next(fd, size);                                                                           \
  }
WRAP_TRUNCATE(ftruncate, off_t)
WRAP_TRUNCATE(ftruncate64, off64_t)

// What is not there yet has no name to go by.
#define WRAP_OPEN(name)                                                                                         \
  int name(const char* path, int flags, ...) {                                                                  \
    int (*next)(const char*, int, ...) = real(#name);                                                           \
    va_list more;                                                                                               \
    va_start(more, flags);                                                                                      \
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;                        \
    va_end(more);                                                                                               \
    if (is("restless") && is_my_rank() && is_of_interest(__builtin_return_address(0)) && interrupted()) return fail(EINTR); \
    return next(path, flags, mode);                                                                             \
  }
WRAP_OPEN(open)
WRAP_OPEN(open64)

__attribute__((destructor)) static void tell(void) {
  const char* note = getenv("TROUBLE_NOTE");
  if (note == NULL || atomic_load(&met) == 0) return;
  int (*open_it)(const char*, int, ...) = real("open");
  ssize_t (*write_it)(int, const void*, size_t) = real("write");
  const int fd = open_it(note, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  char line[32];
  const int length = snprintf(line, sizeof line, "%ld\n", atomic_load(&met));
  if (fd >= 0 && length > 0) (void)!write_it(fd, line, (size_t)length);
  if (fd >= 0) close(fd);
}
