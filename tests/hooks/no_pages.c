// Preloaded by tests/hooks/idioms_test.py: every file system says that it is one by FUSE, which does not keep in memory what
// was written. What is tested is what lzy does then; the files are where they were.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/statfs.h>

// Which of the two a library calls depends on how it was compiled.
static int pretend(const char* name, const char* path, void* about) {
  int (*real)(const char*, void*) = (int (*)(const char*, void*))dlsym(RTLD_NEXT, name);
  const int code = real(path, about);
  if (code == 0) ((struct statfs*)about)->f_type = 0x65735546;
  return code;
}

int statfs(const char* path, struct statfs* about) {
  return pretend("statfs", path, about);
}

int statfs64(const char* path, struct statfs64* about) {
  return pretend("statfs64", path, about);
}
