// Actions of hooks_client with the memory of a GPU, by the driver API of CUDA, which is loaded while the program runs: so this
// compiles everywhere, and these actions end with exit code 77 where there is no such driver or GPU. ARGUMENT is the kind of the
// buffer: host (mmap), pinned (cuMemHostAlloc), managed (cuMemAllocManaged), device (cuMemAlloc), or reused (first memory of the
// host, then, at the same address, memory of the device). An MPI library must be able to use it (staging.c).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "hooks_client.h"

enum { PART = 4 << 20, CALL = 1 << 20, NO_GPU = 77 };

// What this uses of cuda.h.
typedef int Result;
typedef unsigned long long Pointer;
typedef struct {
  int type, id;
} Location;
typedef struct {
  int type, handle_types;
  Location location;
  void* metadata;
  unsigned char flags[8];
} Allocation;
typedef struct {
  Location location;
  int flags;
} Access;
enum { ON_DEVICE = 1, PINNED_ALLOCATION = 1, READ_AND_WRITE = 3, ATTACH_GLOBAL = 1 };

static void* driver;

static void no_gpu(const char* what, int code) {
  printf("no GPU: %s: %d\n", what, code);
  fflush(stdout);
  MPI_Finalize();
  exit(NO_GPU);
}

// Calls a function of the driver, whose parameters have these types. (ISO C has no cast from dlsym's void* to a function.)
#define CALL_DRIVER(name, types, ...)                                          \
  do {                                                                         \
    Result(*function) types = (Result(*) types)(intptr_t)dlsym(driver, #name); \
    const Result result = function != NULL ? function(__VA_ARGS__) : -1;       \
    if (result != 0) no_gpu(#name, result);                                    \
  } while (0)

static void start_gpu(void) {
  driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (driver == NULL) no_gpu("libcuda.so.1", 0);
  int device = 0;
  void* context = NULL;
  CALL_DRIVER(cuInit, (unsigned), 0);
  CALL_DRIVER(cuDeviceGet, (int*, int), &device, 0);
  CALL_DRIVER(cuDevicePrimaryCtxRetain, (void**, int), &context, device);
  CALL_DRIVER(cuCtxSetCurrent, (void*), context);
}

static unsigned char* map_host(void* address) {
  const int fixed = address != NULL ? MAP_FIXED_NOREPLACE : 0;
  void* const memory = mmap(address, PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
  if (memory == MAP_FAILED || (address != NULL && memory != address)) fail("mmap", strerror(errno));
  return memory;
}

// Memory of the device at `address`, where memory of the host was.
static void replace_by_device(unsigned char* address) {
  munmap(address, PART);
  const Pointer wanted = (Pointer)(uintptr_t)address;
  Pointer reserved = 0;
  CALL_DRIVER(cuMemAddressReserve, (Pointer*, size_t, size_t, Pointer, unsigned long long), &reserved, PART, 0, wanted, 0);
  if (reserved != wanted) no_gpu("the driver takes another address", 0);
  const Allocation allocation = {.type = PINNED_ALLOCATION, .location = {ON_DEVICE, 0}};
  const Access access = {{ON_DEVICE, 0}, READ_AND_WRITE};
  unsigned long long handle = 0;
  CALL_DRIVER(cuMemCreate, (unsigned long long*, size_t, const Allocation*, unsigned long long), &handle, PART, &allocation, 0);
  CALL_DRIVER(cuMemMap, (Pointer, size_t, size_t, unsigned long long, unsigned long long), wanted, PART, 0, handle, 0);
  CALL_DRIVER(cuMemSetAccess, (Pointer, size_t, const Access*, size_t), wanted, PART, &access, 1);
}

// Memory of the host at an address that memory of the device can have afterwards: that is in units of 2 MiB.
static unsigned char* map_aligned(void) {
  enum { UNIT = 2 << 20 };
  unsigned char* const room = mmap(NULL, PART + UNIT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) fail("mmap", strerror(errno));
  munmap(room, PART + UNIT);
  return map_host(room + (UNIT - (uintptr_t)room % UNIT) % UNIT);
}

// A buffer of the kind that ARGUMENT names.
static unsigned char* buffer(void) {
  Pointer memory = 0;
  if (strcmp(argument, "host") == 0) return map_host(NULL);
  if (strcmp(argument, "reused") == 0) return map_aligned();
  if (strcmp(argument, "pinned") == 0) {
    CALL_DRIVER(cuMemHostAlloc, (void**, size_t, unsigned), (void**)&memory, PART, 0);
  } else if (strcmp(argument, "managed") == 0) {
    CALL_DRIVER(cuMemAllocManaged, (Pointer*, size_t, unsigned), &memory, PART, ATTACH_GLOBAL);
  } else if (strcmp(argument, "device") == 0) {
    CALL_DRIVER(cuMemAlloc_v2, (Pointer*, size_t), &memory, PART);
  } else {
    fail(argument, "host, pinned, managed, device or reused is accepted");
  }
  return (unsigned char*)(uintptr_t)memory;
}

static int of_device(int part) {
  return strcmp(argument, "device") == 0 || (part == 1 && strcmp(argument, "reused") == 0);
}

static unsigned char at_byte(int part, int i) {
  return (unsigned char)(i * 11 + i / 253 + part);
}

// Two parts of the file, by the same buffer; of kind reused, the second one by memory of the device.
static void write_gpu(void) {
  start_gpu();
  unsigned char* const memory = buffer();
  unsigned char* const bytes = map_host(NULL);
  MPI_File file = create(MPI_COMM_SELF, path);
  for (int part = 0; part < 2; ++part) {
    for (int i = 0; i < PART; ++i) bytes[i] = at_byte(part, i);
    if (part == 1 && strcmp(argument, "reused") == 0) replace_by_device(memory);
    if (of_device(part)) {
      CALL_DRIVER(cuMemcpyHtoD_v2, (Pointer, const void*, size_t), (Pointer)(uintptr_t)memory, bytes, PART);
    } else {
      memcpy(memory, bytes, PART);
    }
    for (int at = 0; at < PART; at += CALL) {
      check(MPI_File_write_at(file, (MPI_Offset)part * PART + at, memory + at, CALL, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
    }
  }
  close_file(&file);
}

static void read_gpu(void) {
  start_gpu();
  unsigned char* const memory = buffer();
  unsigned char* bytes = map_host(NULL);
  MPI_File file = open_with(MPI_COMM_SELF, path, MPI_MODE_RDONLY, MPI_INFO_NULL);
  for (int part = 0; part < 2; ++part) {
    if (part == 1 && strcmp(argument, "reused") == 0) replace_by_device(memory);
    for (int at = 0; at < PART; at += CALL) {
      check(MPI_File_read_at(file, (MPI_Offset)part * PART + at, memory + at, CALL, MPI_BYTE, MPI_STATUS_IGNORE), "read_at");
    }
    if (of_device(part)) {
      CALL_DRIVER(cuMemcpyDtoH_v2, (void*, Pointer, size_t), bytes, (Pointer)(uintptr_t)memory, PART);
    } else {
      memcpy(bytes, memory, PART);
    }
    for (int i = 0; i < PART; ++i) {
      if (bytes[i] != at_byte(part, i)) fail("read_at", "other bytes");
    }
  }
  close_file(&file);
}

const Action gpu_actions[] = {
    ACTION(write_gpu),
    ACTION(read_gpu),
    END_OF_ACTIONS,
};
