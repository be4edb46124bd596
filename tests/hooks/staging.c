// Preloaded by tests/hooks/memory_test.py: an MPI library that can use memory of devices. Where the processor cannot access a
// buffer (EFAULT), a read or write goes by way of a buffer of its own. If the program has loaded the driver of a GPU, that copies.
// Otherwise /proc/self/mem stands for it: it copies from and to pages that their process may not touch (PROT_NONE). With SANDBOX set, process_vm_readv and its
// counterpart are forbidden, as by seccomp.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

typedef ssize_t (*Write)(int, const void*, size_t, off_t);
typedef ssize_t (*Read)(int, void*, size_t, off_t);

typedef unsigned long long Pointer;

// A function of the driver, if the program has loaded it (hooks_client_gpu.c).
static void* of_driver(const char* name) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver != NULL ? dlsym(driver, name) : NULL;
}

static int copy_from_gpu(void* stage, const void* from, size_t count) {
  int (*copy)(void*, Pointer, size_t) = (int (*)(void*, Pointer, size_t))of_driver("cuMemcpyDtoH_v2");
  return copy != NULL && copy(stage, (Pointer)(uintptr_t)from, count) == 0;
}

static int copy_to_gpu(void* to, const void* stage, size_t count) {
  int (*copy)(Pointer, const void*, size_t) = (int (*)(Pointer, const void*, size_t))of_driver("cuMemcpyHtoD_v2");
  return copy != NULL && copy((Pointer)(uintptr_t)to, stage, count) == 0;
}

static ssize_t write_staged(Write real, int fd, const void* from, size_t count, off_t at) {
  const ssize_t plain = real(fd, from, count, at);
  if (plain >= 0 || errno != EFAULT) return plain;
  void* const stage = malloc(count);
  const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  ssize_t done = copy_from_gpu(stage, from, count) ? (ssize_t)count
                                                   : ((Read)dlsym(RTLD_NEXT, "pread"))(memory, stage, count, (off_t)(uintptr_t)from);
  if (done > 0) done = real(fd, stage, (size_t)done, at);
  close(memory);
  free(stage);
  return done;
}

static ssize_t read_staged(Read real, int fd, void* to, size_t count, off_t at) {
  const ssize_t plain = real(fd, to, count, at);
  if (plain >= 0 || errno != EFAULT) return plain;
  void* const stage = malloc(count);
  const int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  ssize_t done = real(fd, stage, count, at);
  if (done > 0 && !copy_to_gpu(to, stage, (size_t)done)) {
    done = ((Write)dlsym(RTLD_NEXT, "pwrite"))(memory, stage, (size_t)done, (off_t)(uintptr_t)to);
  }
  close(memory);
  free(stage);
  return done;
}

ssize_t pwrite(int fd, const void* from, size_t count, off_t at) {
  return write_staged((Write)dlsym(RTLD_NEXT, "pwrite"), fd, from, count, at);
}

ssize_t pwrite64(int fd, const void* from, size_t count, off_t at) {
  return write_staged((Write)dlsym(RTLD_NEXT, "pwrite64"), fd, from, count, at);
}

ssize_t pread(int fd, void* to, size_t count, off_t at) {
  return read_staged((Read)dlsym(RTLD_NEXT, "pread"), fd, to, count, at);
}

ssize_t pread64(int fd, void* to, size_t count, off_t at) {
  return read_staged((Read)dlsym(RTLD_NEXT, "pread64"), fd, to, count, at);
}

typedef ssize_t (*Copy)(pid_t, const struct iovec*, unsigned long, const struct iovec*, unsigned long, unsigned long);

static ssize_t copy_unless_forbidden(const char* name, pid_t process, const struct iovec* own, unsigned long ones,
                                     const struct iovec* theirs, unsigned long pieces, unsigned long flags) {
  if (getenv("SANDBOX") == NULL) return ((Copy)dlsym(RTLD_NEXT, name))(process, own, ones, theirs, pieces, flags);
  errno = EPERM;
  return -1;
}

ssize_t process_vm_readv(pid_t process, const struct iovec* own, unsigned long ones, const struct iovec* theirs, unsigned long pieces,
                         unsigned long flags) {
  return copy_unless_forbidden("process_vm_readv", process, own, ones, theirs, pieces, flags);
}

ssize_t process_vm_writev(pid_t process, const struct iovec* own, unsigned long ones, const struct iovec* theirs, unsigned long pieces,
                          unsigned long flags) {
  return copy_unless_forbidden("process_vm_writev", process, own, ones, theirs, pieces, flags);
}
