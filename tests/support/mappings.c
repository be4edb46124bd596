// Preloaded by hooks/mappings_test.py: notes into which mapped files the kernel writes for a process (process_vm_writev). Each
// such call adds a line to the file MAPPINGS: the process, and the file; nothing if the memory is not that of a file. mmap
// itself cannot be watched like this, since UCX puts functions of its own in its place.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

// The line of /proc/self/maps ends with the name of the file.
static void note(uintptr_t at) {
  char line[4400], text[4400];
  FILE* const maps = fopen("/proc/self/maps", "re");
  const char* const to = getenv("MAPPINGS");
  if (maps == NULL || to == NULL) abort();
  while (fgets(line, sizeof line, maps) != NULL) {
    uintptr_t begin = 0, end = 0;
    const char* const name = strchr(line, '/');
    if (name == NULL || sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) != 2 || at < begin || at >= end) continue;
    const int length = snprintf(text, sizeof text, "%d %s", getpid(), name);
    const int out = open(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (out < 0 || write(out, text, (size_t)length) != length) abort();
    close(out);
  }
  fclose(maps);
}

ssize_t process_vm_writev(pid_t of, const struct iovec* own, unsigned long own_count, const struct iovec* theirs,
                          unsigned long count, unsigned long flags) {
  typedef ssize_t Call(pid_t, const struct iovec*, unsigned long, const struct iovec*, unsigned long, unsigned long);
  if (count > 0) note((uintptr_t)theirs[0].iov_base);
  return ((Call*)dlsym(RTLD_NEXT, "process_vm_writev"))(of, own, own_count, theirs, count, flags);
}
