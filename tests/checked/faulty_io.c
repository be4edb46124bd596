// Preloaded by tests/checked/writes_test.py: an MPI library that writes wrongly. Of the writes that the MPI library makes to files
// called FAULT_FILE, in the rank FAULT_RANK, those from number FAULT_AT (from 1) on, FAULT_COUNT of them, go wrong:
//   FAULT_KIND=drop       nothing is written, and said to be
//   FAULT_KIND=flip       one bit is another
//   FAULT_KIND=misplace   all of it goes 12345 bytes further on
//   FAULT_KIND=duplicate  it is written where it belongs, and half of it over what lies before
//   FAULT_KIND=short      the last part is left out, and said to be written
// What anybody else writes (lzy) is written as it should be.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PATH = 4096, FURTHER = 12345, OTHERS_WRITE_US = 300000 };

static atomic_long seen;

static long setting(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text != NULL ? atol(text) : otherwise;
}

static int is_mpis(const void* caller) {
  Dl_info info;
  if (dladdr(caller, &info) == 0 || info.dli_fname == NULL) return 0;
  const char* slash = strrchr(info.dli_fname, '/');
  const char* base = slash != NULL ? slash + 1 : info.dli_fname;
  return strncmp(base, "liblzy", 6) != 0;
}

static int is_my_rank(void) {
  const char* variables[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK"};
  for (int i = 0; i < 2; ++i) {
    const char* mine = getenv(variables[i]);
    if (mine != NULL) return atol(mine) == setting("FAULT_RANK", 0);
  }
  return setting("FAULT_RANK", 0) == 0;
}

static int goes_wrong(int fd, const void* caller) {
  char link[64], path[PATH];
  const char* name = getenv("FAULT_FILE");
  if (name == NULL || !is_my_rank() || !is_mpis(caller)) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  const char* slash = strrchr(path, '/');
  if (slash == NULL || strcmp(slash + 1, name) != 0) return 0;
  const long number = atomic_fetch_add(&seen, 1) + 1;
  const long at = setting("FAULT_AT", 1);
  return number >= at && number < at + setting("FAULT_COUNT", 1);
}

static ssize_t write_wrongly(int fd, const char* bytes, size_t count, off_t offset) {
  static ssize_t (*real)(int, const void*, size_t, off_t);
  const char* kind = getenv("FAULT_KIND");
  if (real == NULL) real = (ssize_t(*)(int, const void*, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
  if (kind == NULL || strcmp(kind, "drop") == 0) return (ssize_t)count;
  // What goes where another rank writes is to be there in the end: that one has written by then, or waits for this one.
  if (strcmp(kind, "misplace") == 0 || strcmp(kind, "duplicate") == 0) usleep(OTHERS_WRITE_US);
  if (strcmp(kind, "misplace") == 0) return real(fd, bytes, count, offset + FURTHER);
  if (strcmp(kind, "short") == 0) {
    (void)!real(fd, bytes, count - count / 4, offset);
    return (ssize_t)count;
  }
  if (strcmp(kind, "duplicate") == 0) {
    const off_t before = offset > (off_t)count ? offset - (off_t)count : 0;
    (void)!real(fd, bytes, count / 2, before);
    return real(fd, bytes, count, offset);
  }
  char* wrong = malloc(count);
  memcpy(wrong, bytes, count);
  wrong[count / 3] ^= 0x10;
  const ssize_t written = real(fd, wrong, count, offset);
  free(wrong);
  return written;
}

static ssize_t write_pieces_wrongly(int fd, const struct iovec* pieces, int number, off_t offset) {
  size_t count = 0;
  for (int i = 0; i < number; ++i) count += pieces[i].iov_len;
  char* bytes = malloc(count);
  for (size_t i = 0, at = 0; i < (size_t)number; at += pieces[i++].iov_len) memcpy(bytes + at, pieces[i].iov_base, pieces[i].iov_len);
  const ssize_t written = write_wrongly(fd, bytes, count, offset);
  free(bytes);
  return written;
}

#define PWRITE(name)                                                                                                     \
  ssize_t name(int fd, const void* bytes, size_t count, off_t offset);                                                    \
  ssize_t name(int fd, const void* bytes, size_t count, off_t offset) {                                                   \
    static ssize_t (*real)(int, const void*, size_t, off_t);                                                             \
    if (real == NULL) real = (ssize_t(*)(int, const void*, size_t, off_t))dlsym(RTLD_NEXT, #name);                        \
    if (count > 0 && goes_wrong(fd, __builtin_return_address(0))) return write_wrongly(fd, bytes, count, offset);         \
    return real(fd, bytes, count, offset);                                                                               \
  }
PWRITE(pwrite)
PWRITE(pwrite64)

// Open MPI writes pieces that follow each other by one call.
#define PWRITEV(name)                                                                                                    \
  ssize_t name(int fd, const struct iovec* pieces, int number, off_t offset);                                             \
  ssize_t name(int fd, const struct iovec* pieces, int number, off_t offset) {                                            \
    static ssize_t (*real)(int, const struct iovec*, int, off_t);                                                        \
    if (real == NULL) real = (ssize_t(*)(int, const struct iovec*, int, off_t))dlsym(RTLD_NEXT, #name);                   \
    if (!goes_wrong(fd, __builtin_return_address(0))) return real(fd, pieces, number, offset);                           \
    return write_pieces_wrongly(fd, pieces, number, offset);                                                             \
  }
PWRITEV(pwritev)
PWRITEV(pwritev64)

ssize_t write(int fd, const void* bytes, size_t count) {
  static ssize_t (*real)(int, const void*, size_t);
  if (real == NULL) real = (ssize_t(*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  if (count > 0 && fd > 2 && goes_wrong(fd, __builtin_return_address(0))) {
    const off_t at = lseek(fd, 0, SEEK_CUR);
    const ssize_t written = write_wrongly(fd, bytes, count, at);
    lseek(fd, at + (off_t)count, SEEK_SET);
    return written;
  }
  return real(fd, bytes, count);
}
