// Preloaded by hooks/exchange_test.py and cluster/exchange_test.py: counts the calls of MPI with which lzy adds up parity, and may
// damage one of them. lzy calls MPI by PMPI_ names, so this library takes the place of those. At the end, each process that counted
// anything writes a file REDUCTIONS.PID into the directory REDUCTIONS: "reductions N messages N damaged N". Messages are those of at
// least 4096 bytes. REDUCTIONS_DAMAGE=N: a bit of what rank 1 contributes is flipped in its N-th reduction or message.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kLeast = 4096 };
static long reductions, messages, damaged;

static void* real(const char* name) {
  void* function = dlsym(RTLD_NEXT, name);
  if (function == NULL) abort();
  return function;
}

// Returns `data`, or a copy with a wrong bit, which stays until the end of the process.
static const void* pass(const void* data, size_t bytes) {
  const char* which = getenv("REDUCTIONS_DAMAGE");
  int rank = -1;
  if (which == NULL || damaged != 0 || reductions + messages != atol(which)) return data;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 1) return data;
  unsigned char* copy = malloc(bytes);
  if (copy == NULL) abort();
  memcpy(copy, data, bytes);
  copy[bytes / 2] ^= 0x10;
  ++damaged;
  return copy;
}

int PMPI_Ireduce_scatter(const void* send, void* receive, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                         MPI_Request* request) {
  int (*next)(const void*, void*, const int[], MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request*) =
      (int (*)(const void*, void*, const int[], MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request*))real("PMPI_Ireduce_scatter");
  if (op == MPI_BXOR) {
    int size = 0;
    size_t bytes = 0;
    PMPI_Comm_size(comm, &size);
    for (int i = 0; i < size; ++i) bytes += 8 * (size_t)counts[i];
    ++reductions;
    send = pass(send, bytes);
  }
  return next(send, receive, counts, type, op, comm, request);
}

int PMPI_Ireduce_scatter_block(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                               MPI_Request* request) {
  int (*next)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request*) =
      (int (*)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request*))real("PMPI_Ireduce_scatter_block");
  if (op == MPI_BXOR) {
    int size = 0;
    PMPI_Comm_size(comm, &size);
    ++reductions;
    send = pass(send, 8 * (size_t)count * (size_t)size);
  }
  return next(send, receive, count, type, op, comm, request);
}

int PMPI_Ireduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
                 MPI_Request* request) {
  int (*next)(const void*, void*, int, MPI_Datatype, MPI_Op, int, MPI_Comm, MPI_Request*) =
      (int (*)(const void*, void*, int, MPI_Datatype, MPI_Op, int, MPI_Comm, MPI_Request*))real("PMPI_Ireduce");
  if (op == MPI_BXOR) {
    ++reductions;
    send = pass(send, 8 * (size_t)count);
  }
  return next(send, receive, count, type, op, root, comm, request);
}

int PMPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  int (*next)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*) =
      (int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*))real("PMPI_Isend");
  if (type == MPI_BYTE && count >= kLeast) {
    ++messages;
    data = pass(data, (size_t)count);
  }
  return next(data, count, type, to, tag, comm, request);
}

__attribute__((destructor)) static void tell(void) {
  const char* directory = getenv("REDUCTIONS");
  if (directory == NULL || reductions + messages == 0) return;
  char path[4096];
  snprintf(path, sizeof path, "%s/REDUCTIONS.%d", directory, (int)getpid());
  FILE* file = fopen(path, "w");
  if (file == NULL) return;
  fprintf(file, "reductions %ld messages %ld damaged %ld\n", reductions, messages, damaged);
  fclose(file);
}
