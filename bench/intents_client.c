// intents_client DIRECTORY FILES: what the first write to a file costs, in one process. For each of FILES files in
// DIRECTORY: once made anew, once opened again, and once more after a sync. Also what small durable writes cost
// there. Prints a line for each: what it was, and microseconds. Knows nothing about lzy; the script `costs` runs it
// with the layer and without.
//
// Many files, because each has one first write, and one alone is too short to time. The names of the lines are those of
// INTENTS in `costs`.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "client.h"

// As many bytes as an intent has on disk.
static char block[8192];

// When what is timed began. MPI_Wtime, seconds.
static double start;

// Ends what is timed. Printing comes after the clock was read.
static void tell(const char* what) {
  printf("%s %.1f\n", what, (MPI_Wtime() - start) * 1e6);
}

// With the layer, an intent is durable before the first write of an epoch.
static void write_block(MPI_File file) {
  MPI(MPI_File_write_at(file, 0, block, sizeof block, MPI_BYTE, MPI_STATUS_IGNORE));
}

static MPI_File open_and_write(const char* what, const char* path, int mode) {
  start = MPI_Wtime();
  MPI_File file = open_file(MPI_COMM_WORLD, path, mode);
  write_block(file);
  tell(what);
  return file;
}

// Writes two pages and syncs them, as an intent is; with `directory` also the directory, as for a new file.
static void durable_write(const char* what, const char* path, const char* directory) {
  start = MPI_Wtime();
  const int fd = open(path, O_RDWR | O_CREAT, 0600);
  int ok = fd >= 0 && pwrite(fd, block, sizeof block, 0) == (ssize_t)sizeof block && fsync(fd) == 0 && close(fd) == 0;
  if (directory != NULL) {
    const int above = open(directory, O_RDONLY | O_DIRECTORY);
    ok = ok && above >= 0 && fsync(above) == 0 && close(above) == 0;
  }
  check(ok, "durable write");
  tell(what);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int files = argc == 3 ? atoi(argv[2]) : 0;
  check(files > 0, "usage: intents_client DIRECTORY FILES:");
  char path[4096];
  for (int i = 0; i < files; ++i) {
    snprintf(path, sizeof path, "%s/f%d", argv[1], i);
    MPI_File file = open_and_write("create", path, MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI(MPI_File_close(&file));
  }
  // The same files opened again, so that those of the first loop are protected with the layer; then a second epoch in
  // each.
  for (int i = 0; i < files; ++i) {
    snprintf(path, sizeof path, "%s/f%d", argv[1], i);
    MPI_File file = open_and_write("open", path, MPI_MODE_RDWR);
    MPI(MPI_File_sync(file));
    start = MPI_Wtime();
    write_block(file);
    tell("after-sync");
    MPI(MPI_File_close(&file));
  }
  // Last, so that it cannot disturb what is measured above: what the file system itself takes for such writes.
  for (int i = 0; i < files; ++i) {
    snprintf(path, sizeof path, "%s/durable%d", argv[1], i);
    durable_write("durable-new", path, argv[1]);
    durable_write("durable", path, NULL);
  }
  MPI_Finalize();
  return 0;
}
