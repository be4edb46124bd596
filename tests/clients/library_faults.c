// library_faults KIND FILE: writes or reads FILE by calls that some MPI libraries get wrong, though MPI defines each byte. It knows
// nothing about lzy. In the end, word i of FILE (of 32 bits) is i + 1. KIND:
//   columns   ranks write matrices together, each rank some columns, through a Cartesian communicator. Of every other matrix, they write
//             all rows at once, of the others every second row and then the rest. The calls are those of HDF5 1.10 for such datasets,
//             with its own small writes; it writes the first bytes twice (open-mpi/ompi issue 12718)
//   between   rank 0 writes every other piece of a region by one call, and the others what lies between, piece by piece
//             (pmodels/mpich pulls 4956 and 4995)
//   together  ranks read together: rank 0 a stretch, the others some words of it. Prints how many reads were wrong
//             (open-mpi/ompi issue 10546)
//   make      writes the file that `together` reads; without MPI
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADER = 512, FIRST = 24, SIDE = 10, MATRICES = 4 };  // words, but for the last
enum { PIECE = 16, PIECES = 1024, REGIONS = 12 };            // words of a piece
enum { SPURT = 128, SPURT_US = 4000 };                       // pieces, microseconds
enum { READ = 1000, APART = 10, READS = 20 };                // words, words
enum { WORDS = 65536 };                                      // more than one call reads or writes

static int rank, ranks;
static uint32_t words[WORDS];

static void number(uint32_t* out, int first, int count) {
  for (int i = 0; i < count; ++i) out[i] = (uint32_t)(first + i + 1);
}

static MPI_File open_file(MPI_Comm comm, const char* path, int mode) {
  MPI_File file;
  if (MPI_File_open(comm, path, mode, MPI_INFO_NULL, &file) != MPI_SUCCESS) MPI_Abort(comm, 2);
  return file;
}

// Every `step`th row of the matrix that begins with word `first`, from `row` on.
static void write_rows(MPI_File file, int first, int row, int step) {
  MPI_Datatype columns;
  const int rows = SIDE / step, begin = first + (row * ranks + rank) * SIDE;
  for (int i = 0; i < rows; ++i) number(words + i * SIDE, begin + i * step * SIDE * ranks, SIDE);
  MPI_Type_vector(rows, SIDE * 4, step * SIDE * 4 * ranks, MPI_BYTE, &columns);
  MPI_Type_commit(&columns);
  MPI_File_set_view(file, (MPI_Offset)begin * 4, MPI_BYTE, columns, "native", MPI_INFO_NULL);
  MPI_Type_free(&columns);
  MPI_File_write_at_all(file, 0, words, rows * SIDE * 4, MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
}

static void write_words(MPI_File file, int first, int count) {
  number(words, first, count);
  MPI_File_write_at(file, (MPI_Offset)first * 4, words, count * 4, MPI_BYTE, MPI_STATUS_IGNORE);
}

static void columns(const char* path) {
  const int sides[] = {ranks, 1}, periods[] = {0, 0}, share = (HEADER - FIRST) / ranks;
  MPI_Comm comm;
  MPI_Cart_create(MPI_COMM_WORLD, 2, sides, periods, 1, &comm);
  MPI_File file = open_file(comm, path, MPI_MODE_CREATE | MPI_MODE_RDWR);
  MPI_File_set_size(file, 0);
  for (int i = 0; i < MATRICES; ++i) {
    const int first = HEADER + i * SIDE * SIDE * ranks, step = 1 + i % 2;
    for (int row = 0; row < step; ++row) write_rows(file, first, row, step);
  }
  write_words(file, FIRST + share * rank, rank + 1 < ranks ? share : HEADER - FIRST - share * rank);
  for (int again = 0; rank == 0 && again < 2; ++again) write_words(file, 0, FIRST);
  MPI_File_close(&file);
  MPI_Comm_free(&comm);
}

// In spurts, so that some of the pieces fall between rank 0's read and its write even if that rank comes late.
static void write_between(MPI_File file, int begin) {
  for (int i = rank - 1; i < PIECES; i += ranks - 1) {
    if (i % SPURT == rank - 1) usleep(SPURT_US);
    number(words, begin + (2 * i + 1) * PIECE, PIECE);
    MPI_File_write_at(file, begin + (2 * i + 1) * PIECE, words, PIECE, MPI_UINT32_T, MPI_STATUS_IGNORE);
  }
}

static void between(const char* path) {
  MPI_File file = open_file(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR);
  MPI_Datatype piece, every_other;
  MPI_Type_contiguous(PIECE, MPI_UINT32_T, &piece);
  MPI_Type_create_resized(piece, 0, 2 * PIECE * 4, &every_other);
  MPI_Type_commit(&every_other);
  MPI_File_set_view(file, 0, MPI_UINT32_T, rank == 0 ? every_other : MPI_UINT32_T, "native", MPI_INFO_NULL);
  for (int begin = 0; begin < REGIONS * 2 * PIECES * PIECE; begin += 2 * PIECES * PIECE) {
    for (int i = 0; rank == 0 && i < PIECES; ++i) number(words + i * PIECE, begin + 2 * i * PIECE, PIECE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank > 0) write_between(file, begin);
    if (rank == 0) MPI_File_write_at(file, begin / 2, words, PIECES * PIECE, MPI_UINT32_T, MPI_STATUS_IGNORE);
  }
  MPI_Type_free(&piece);
  MPI_Type_free(&every_other);
  MPI_File_close(&file);
}

static int is_wrong(int count, int apart) {
  for (int i = 0; i < count; ++i) {
    if (words[i] != (uint32_t)(i * apart + 1)) return 1;
  }
  return 0;
}

static void together(const char* path) {
  const int apart = rank == 0 ? 1 : APART, count = rank == 0 ? READ : READ / 2 / APART;
  int wrong = 0;
  MPI_File file = open_file(MPI_COMM_WORLD, path, MPI_MODE_RDONLY);
  MPI_Datatype some;
  MPI_Type_vector(count, 1, apart, MPI_UINT32_T, &some);
  MPI_Type_commit(&some);
  MPI_File_set_view(file, 0, MPI_UINT32_T, some, "native", MPI_INFO_NULL);
  for (int i = 0; i < READS; ++i) {
    memset(words, 0xee, READ * 4);
    MPI_File_read_at_all(file, 0, words, count, MPI_UINT32_T, MPI_STATUS_IGNORE);
    wrong += is_wrong(count, apart);
  }
  MPI_Type_free(&some);
  MPI_File_close(&file);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d wrong\n", wrong);
}

static int make(const char* path) {
  FILE* out = fopen(path, "wb");
  number(words, 0, WORDS);
  return out == NULL || fwrite(words, sizeof words, 1, out) != 1 || fclose(out) != 0;
}

int main(int argc, char** argv) {
  const char* kind = argc == 3 ? argv[1] : "";
  if (strcmp(kind, "make") == 0) return make(argv[2]);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (strcmp(kind, "columns") == 0) {
    columns(argv[2]);
  } else if (strcmp(kind, "between") == 0 && ranks > 1) {
    between(argv[2]);
  } else if (strcmp(kind, "together") == 0) {
    together(argv[2]);
  } else {
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  MPI_Finalize();
  return 0;
}
