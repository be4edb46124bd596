// Preloaded: storage of which the MPI library's reads take ten milliseconds longer, as over a network. A library that reads, changes and
// writes back what another rank writes meanwhile loses that nearly always then, and not only in some runs.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { LATER_US = 10000 };

// What lzy reads takes its usual time: it reads much, and that would only make tests slow.
static int is_lzys(const void* caller) {
  Dl_info info;
  return dladdr(caller, &info) != 0 && info.dli_fname != NULL && strstr(info.dli_fname, "/liblzy") != NULL;
}

#define PREAD(name)                                                                                           \
  ssize_t name(int fd, void* bytes, size_t count, off_t offset);                                               \
  ssize_t name(int fd, void* bytes, size_t count, off_t offset) {                                              \
    static ssize_t (*real)(int, void*, size_t, off_t);                                                         \
    if (real == NULL) real = (ssize_t(*)(int, void*, size_t, off_t))dlsym(RTLD_NEXT, #name);                    \
    const ssize_t got = real(fd, bytes, count, offset);                                                        \
    if (!is_lzys(__builtin_return_address(0))) usleep(LATER_US);                                               \
    return got;                                                                                                \
  }
PREAD(pread)
PREAD(pread64)
