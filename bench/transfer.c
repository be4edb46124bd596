// Rank 0 reads a file and sends it, rank 1 writes it and syncs: what a copy between nodes costs without any proof
// (bench/between). transfer FROM TO BLOCK-BYTES. Two blocks are under way, so that reading, the network and writing
// overlap. Prints the seconds of the slower rank.
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SLOTS 2

static void check(int right, const char* what) {
  if (right) return;
  perror(what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  check(argc == 4, "transfer FROM TO BLOCK-BYTES");
  const long block = atol(argv[3]);
  char* slots[SLOTS];
  MPI_Request requests[SLOTS] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  for (int i = 0; i < SLOTS; ++i) check((slots[i] = malloc((size_t)block)) != NULL, "malloc");
  const int fd = rank == 0 ? open(argv[1], O_RDONLY) : open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600);
  check(fd >= 0, "open");
  long size = lseek(fd, 0, SEEK_END);
  MPI_Bcast(&size, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  const long blocks = (size + block - 1) / block;
  for (long i = 0; i < blocks + SLOTS; ++i) {
    const int slot = (int)(i % SLOTS);
    MPI_Wait(&requests[slot], MPI_STATUS_IGNORE);
    const long done = i - SLOTS, at = done * block, length = size - at < block ? size - at : block;
    if (rank == 1 && done >= 0) check(pwrite(fd, slots[slot], (size_t)length, at) == length, "write");
    if (i >= blocks) continue;
    const long next = i * block, bytes = size - next < block ? size - next : block;
    if (rank == 0) {
      check(pread(fd, slots[slot], (size_t)bytes, next) == bytes, "read");
      MPI_Isend(slots[slot], (int)bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[slot]);
    } else {
      MPI_Irecv(slots[slot], (int)bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[slot]);
    }
  }
  if (rank == 1) check(fsync(fd) == 0, "fsync");
  double mine = MPI_Wtime() - begin, most = 0;
  MPI_Reduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%.6f\n", most);
  MPI_Finalize();
  return 0;
}
