// intents_client DIRECTORY FILES: what the first write to a file costs, in one process. For each of FILES files in
// DIRECTORY: once made anew, once opened again, and once more after a sync. Also what small durable writes cost
// there. Prints medians in microseconds, one per line. Knows nothing about lzy; the script `intents` runs it with the
// layer and without.
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  fprintf(stderr, "intents_client: %s failed\n", call);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

// Prints the median; sorts `seconds`.
static void tell(const char* what, double* seconds, int count) {
  qsort(seconds, (size_t)count, sizeof *seconds, by_size);
  printf("%s %.1f\n", what, seconds[count / 2] * 1e6);
}

// As many bytes as an intent has on disk.
static char block[8192];

// Opens and writes. With the layer, an intent is durable before the write.
static MPI_File open_and_write(const char* path, int mode) {
  MPI_File file;
  check(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), "MPI_File_open");
  check(MPI_File_write_at(file, 0, block, sizeof block, MPI_BYTE, MPI_STATUS_IGNORE), "MPI_File_write_at");
  return file;
}

// Writes two pages and syncs them, as an intent is; with `directory` also the directory, as for a new file.
static void durable_write(const char* path, const char* directory) {
  const int fd = open(path, O_RDWR | O_CREAT, 0600);
  int ok = fd >= 0 && pwrite(fd, block, sizeof block, 0) == (ssize_t)sizeof block && fsync(fd) == 0 && close(fd) == 0;
  if (directory != NULL) {
    const int above = open(directory, O_RDONLY | O_DIRECTORY);
    ok = ok && above >= 0 && fsync(above) == 0 && close(above) == 0;
  }
  check(ok ? MPI_SUCCESS : MPI_ERR_IO, "durable write");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int files = argc == 3 ? atoi(argv[2]) : 0;
  if (files <= 0) check(MPI_ERR_ARG, "usage: intents_client DIRECTORY FILES:");
  double* created = malloc(sizeof *created * (size_t)files);
  double* opened = malloc(sizeof *opened * (size_t)files);
  double* again = malloc(sizeof *again * (size_t)files);
  char path[4096];
  // New files.
  for (int i = 0; i < files; ++i) {
    snprintf(path, sizeof path, "%s/f%d", argv[1], i);
    const double start = MPI_Wtime();
    MPI_File file = open_and_write(path, MPI_MODE_CREATE | MPI_MODE_RDWR);
    created[i] = MPI_Wtime() - start;
    check(MPI_File_close(&file), "MPI_File_close");
  }
  // The same files opened again; then a second epoch in each.
  for (int i = 0; i < files; ++i) {
    snprintf(path, sizeof path, "%s/f%d", argv[1], i);
    double start = MPI_Wtime();
    MPI_File file = open_and_write(path, MPI_MODE_RDWR);
    opened[i] = MPI_Wtime() - start;
    check(MPI_File_sync(file), "MPI_File_sync");
    start = MPI_Wtime();
    check(MPI_File_write_at(file, 0, block, sizeof block, MPI_BYTE, MPI_STATUS_IGNORE), "MPI_File_write_at");
    again[i] = MPI_Wtime() - start;
    check(MPI_File_close(&file), "MPI_File_close");
  }
  tell("create", created, files);
  tell("open", opened, files);
  tell("after-sync", again, files);
  // What the file system itself takes for such writes.
  for (int i = 0; i < files; ++i) {
    snprintf(path, sizeof path, "%s/durable%d", argv[1], i);
    double start = MPI_Wtime();
    durable_write(path, argv[1]);
    created[i] = MPI_Wtime() - start;
    start = MPI_Wtime();
    durable_write(path, NULL);
    opened[i] = MPI_Wtime() - start;
  }
  tell("durable-new", created, files);
  tell("durable", opened, files);
  MPI_Finalize();
  return 0;
}
