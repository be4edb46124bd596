// kill_client shared|set TARGET SOURCE OFFSET,LENGTH...: brings these parts of the file SOURCE into TARGET through
// MPI-IO, the first half of them, a sync, and the others, dealt to the ranks in turn; of a set each rank does all of
// them with files of its own, TARGET.RANK and SOURCE.RANK. It knows nothing about lzy.
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME = 4096 };

static void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  fprintf(stderr, "kill_client: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void bring(MPI_File to, int from, const char* part) {
  char* end = NULL;
  const long offset = strtol(part, &end, 10);
  const long length = strtol(end + 1, NULL, 10);
  char* bytes = malloc((size_t)length);
  if (bytes == NULL || pread(from, bytes, (size_t)length, offset) != length) check(MPI_ERR_IO, part);
  check(MPI_File_write_at(to, offset, bytes, (int)length, MPI_BYTE, MPI_STATUS_IGNORE), part);
  free(bytes);
}

int main(int argc, char** argv) {
  int rank = 0, ranks = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 4) check(MPI_ERR_ARG, "too few arguments");
  const int set = strcmp(argv[1], "set") == 0;
  char target[NAME], source[NAME];
  snprintf(target, sizeof target, set ? "%s.%d" : "%s", argv[2], rank);
  snprintf(source, sizeof source, set ? "%s.%d" : "%s", argv[3], rank);
  const int from = open(source, O_RDONLY);
  if (from < 0) check(MPI_ERR_NO_SUCH_FILE, source);
  MPI_File to;
  check(
      MPI_File_open(set ? MPI_COMM_SELF : MPI_COMM_WORLD, target, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &to),
      target);
  const int parts = argc - 4;
  for (int i = 0; i < parts; ++i) {
    if (i == parts / 2) check(MPI_File_sync(to), "MPI_File_sync");
    if (set || i % ranks == rank) bring(to, from, argv[4 + i]);
  }
  check(MPI_File_close(&to), "MPI_File_close");
  close(from);
  MPI_Finalize();
  return 0;
}
