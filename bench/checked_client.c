// checked_client CASE FILE MIB: reads or writes FILE of MIB mebibytes with MPI-IO, in one process. Prints the seconds
// from open to close. Knows nothing about lzy; the script `checked` runs it with the layer and without.
//
// CASE: read-PIECE or write-PIECE, by calls of PIECE bytes, one after the other. scattered-PIECE reads in an order in
// which no block is read twice in a row.
#include <stdlib.h>
#include <string.h>

#include "client.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  check(argc == 4 && strchr(argv[1], '-') != NULL, "usage: checked_client CASE FILE MIB;");
  const long piece = atol(strchr(argv[1], '-') + 1);
  const long pieces = atol(argv[3]) * (1l << 20) / piece;
  const int writing = strncmp(argv[1], "write", 5) == 0, scattered = strncmp(argv[1], "scattered", 9) == 0;
  char* buffer = malloc((size_t)piece);
  for (long i = 0; i < piece; ++i) buffer[i] = (char)(i * 31 + i / 251);
  const double start = MPI_Wtime();
  MPI_File file = open_file(MPI_COMM_WORLD, argv[2], writing ? MPI_MODE_CREATE | MPI_MODE_WRONLY : MPI_MODE_RDONLY);
  for (long i = 0; i < pieces; ++i) {
    // The step shares no factor with the number of pieces, which is mostly a power of two. So every piece is read
    // once.
    const MPI_Offset at = (MPI_Offset)(scattered ? i * 40503 % pieces : i) * piece;
    if (writing) {
      // No two pieces are the same.
      memcpy(buffer, &i, sizeof i);
      MPI(MPI_File_write_at(file, at, buffer, (int)piece, MPI_BYTE, MPI_STATUS_IGNORE));
    } else {
      MPI(MPI_File_read_at(file, at, buffer, (int)piece, MPI_BYTE, MPI_STATUS_IGNORE));
    }
  }
  MPI(MPI_File_close(&file));
  printf("%.6f\n", MPI_Wtime() - start);
  MPI_Finalize();
  return 0;
}
