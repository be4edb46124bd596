// Actions of hooks_client that unmap a buffer and go on with other memory at its address, as a driver may map memory of a
// device there: the processor cannot access it, an MPI library with the means (staging.c) can. ARGUMENT is BYTES,whole or
// BYTES,hole: bytes a call, and what of the second buffer is such memory, all or some pages in the middle.
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "hooks_client.h"

enum { SLAB = 4 << 20, HOLE = 64 << 10, BEFORE_HOLE = SLAB / 2 + (256 << 10) };

static unsigned char at_byte(int slab, int i) {
  return (unsigned char)(i * 7 + i / 251 + slab);
}

static unsigned char* map(void* address) {
  const int fixed = address != NULL ? MAP_FIXED_NOREPLACE : 0;
  unsigned char* memory = mmap(address, SLAB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
  if (memory == MAP_FAILED) fail("mmap", strerror(errno));
  return memory;
}

static void protect(unsigned char* memory, int protection) {
  const int hole = strstr(argument, ",hole") != NULL;
  if (mprotect(memory + (hole ? BEFORE_HOLE : 0), hole ? HOLE : SLAB, protection) != 0) fail("mprotect", strerror(errno));
}

static void replace(unsigned char* memory) {
  munmap(memory, SLAB);
  map(memory);
}

static void write_replaced(void) {
  MPI_File file = create(MPI_COMM_SELF, path);
  unsigned char* const memory = map(NULL);
  const int bytes = atoi(argument);
  for (int slab = 0; slab < 2; ++slab) {
    if (slab == 1) replace(memory);
    for (int i = 0; i < SLAB; ++i) memory[i] = at_byte(slab, i);
    if (slab == 1) protect(memory, PROT_NONE);
    for (int at = 0; at < SLAB; at += bytes) {
      check(MPI_File_write_at(file, (MPI_Offset)slab * SLAB + at, memory + at, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
    }
  }
  close_file(&file);
}

static void read_replaced(void) {
  MPI_File file = open_with(MPI_COMM_SELF, path, MPI_MODE_RDONLY, MPI_INFO_NULL);
  unsigned char* const memory = map(NULL);
  const int bytes = atoi(argument);
  for (int slab = 0; slab < 2; ++slab) {
    if (slab == 1) replace(memory);
    memset(memory, 'm', SLAB);
    if (slab == 1) protect(memory, PROT_NONE);
    int code = MPI_SUCCESS;
    for (int at = 0; at < SLAB && code == MPI_SUCCESS; at += bytes) {
      code = MPI_File_read_at(file, (MPI_Offset)slab * SLAB + at, memory + at, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    }
    if (slab == 1) protect(memory, PROT_READ | PROT_WRITE);
    print_code("read_at", code);
    for (int i = 0; i < SLAB && code == MPI_SUCCESS; ++i) {
      if (memory[i] != at_byte(slab, i)) fail("read_at", "other bytes");
    }
  }
  close_file(&file);
}

const Action memory_actions[] = {
    ACTION(write_replaced),
    ACTION(read_replaced),
    END_OF_ACTIONS,
};
