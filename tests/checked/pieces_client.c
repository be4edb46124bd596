// pieces_client KIND FILE: all ranks write FILE in many small pieces, in a way that MPI defines to the last byte. It knows
// nothing about lzy. KIND:
//   grid      each rank a column of a matrix, by a subarray view, collectively: more pieces a block than a list could have
//   strided   the same, independently, by a vector view
//   header    each rank a slab; rank 0 writes the first bytes at the beginning and, differently, at the end
//   twice     each rank a slab, and then half of it once more
//   hindexed  each rank a column with gaps, by a view of hindexed blocks of subarrays
//   by_hand   the same, piece by piece
//   memory    each rank a slab from a buffer of pieces of several lengths
//   shared    each rank in turn, by the shared pointer
//   refused   each rank a slab; then rank 0 half of it once more, which the system refuses
//   overlap   all ranks the same bytes, differently: MPI does not define which of them come last
//   gaps      each rank in turn a piece of each of its blocks, so that no block is written whole
//   common    the same, and then all ranks the same bytes of each of these blocks, differently
//   patched   as gaps; then rank 0 writes over a piece by POSIX calls
//   synced    as gaps; then a sync, and something behind that
//   mended    as gaps; then a sync, and the second block as a whole
//   small     each rank some bytes of a small file, with gaps
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { UNIT = 65536, UNITS = 8, PART = 40000, PART_AT = 1000, SMALL = 3000, TICKS_US = 50000 };
enum { ROWS = 1500, FEW_ROWS = 60, WIDTH = 120, SLAB = 180000, HEADER = 3000 };

static int rank, ranks;

static void fill(uint8_t* bytes, size_t count, unsigned seed) {
  uint32_t state = seed * 2654435761u + 12345u;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    bytes[i] = (uint8_t)(state >> 24);
  }
}

static void columns(MPI_File file, const uint8_t* bytes, int collective) {
  MPI_Datatype view;
  if (collective) {
    const int sizes[] = {ROWS, WIDTH * ranks}, parts[] = {ROWS, WIDTH}, starts[] = {0, WIDTH * rank};
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_BYTE, &view);
  } else {
    MPI_Type_vector(ROWS, WIDTH, WIDTH * ranks, MPI_BYTE, &view);
  }
  MPI_Type_commit(&view);
  MPI_File_set_view(file, collective ? 0 : (MPI_Offset)WIDTH * rank, MPI_BYTE, view, "native", MPI_INFO_NULL);
  if (collective) {
    MPI_File_write_all(file, bytes, ROWS * WIDTH, MPI_BYTE, MPI_STATUS_IGNORE);
  } else {
    MPI_File_write(file, bytes, ROWS * WIDTH, MPI_BYTE, MPI_STATUS_IGNORE);
  }
  MPI_Type_free(&view);
}

// A subarray with a place of its own for each rank, one or two at a time. ROMIO puts it elsewhere (pmodels/mpich #7169).
static int blocks_in(int row) { return row % 3 == 1 ? 2 : 1; }
static MPI_Aint place_of(int row) { return (MPI_Aint)row * 2 * WIDTH * ranks; }

static void by_hand(MPI_File file, const uint8_t* bytes) {
  for (int i = 0; i < FEW_ROWS; ++i) {
    for (int k = 0; k < blocks_in(i); ++k, bytes += WIDTH) {
      const MPI_Offset at = place_of(i) + (MPI_Offset)k * WIDTH * ranks + (MPI_Offset)rank * WIDTH;
      MPI_File_write_at(file, at, bytes, WIDTH, MPI_BYTE, MPI_STATUS_IGNORE);
    }
  }
}

static void hindexed(MPI_File file, const uint8_t* bytes) {
  const int size[] = {WIDTH * ranks}, part[] = {WIDTH}, start[] = {WIDTH * rank};
  int lengths[FEW_ROWS];
  MPI_Aint places[FEW_ROWS];
  MPI_Datatype piece, view;
  MPI_Type_create_subarray(1, size, part, start, MPI_ORDER_C, MPI_BYTE, &piece);
  for (int i = 0; i < FEW_ROWS; ++i) {
    lengths[i] = blocks_in(i);
    places[i] = place_of(i);
  }
  MPI_Type_create_hindexed(FEW_ROWS, lengths, places, piece, &view);
  MPI_Type_commit(&view);
  MPI_File_set_view(file, 0, MPI_BYTE, view, "native", MPI_INFO_NULL);
  int total = 0;
  MPI_Type_size(view, &total);
  MPI_File_write_all(file, bytes, total, MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_Type_free(&view);
  MPI_Type_free(&piece);
}

static void from_pieces(MPI_File file, const uint8_t* bytes, MPI_Offset at) {
  int lengths[ROWS], places[ROWS];
  for (int i = 0; i < ROWS; ++i) {
    lengths[i] = WIDTH / 2 + i % 50;
    places[i] = i * WIDTH;
  }
  MPI_Datatype pieces;
  MPI_Type_indexed(ROWS, lengths, places, MPI_BYTE, &pieces);
  MPI_Type_commit(&pieces);
  MPI_File_write_at_all(file, at, bytes, 1, pieces, MPI_STATUS_IGNORE);
  MPI_Type_free(&pieces);
}

// The file may not become longer than one byte, so nothing can be written behind that.
static void refused(MPI_File file, const uint8_t* bytes, MPI_Offset at) {
  struct rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const struct rlimit one = {1, before.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &one);
  MPI_Status status;
  int written = 0;
  const int code = MPI_File_write_at(file, at, bytes, SLAB / 2, MPI_BYTE, &status);
  if (code == MPI_SUCCESS) MPI_Get_count(&status, MPI_BYTE, &written);
  if (written == SLAB / 2) MPI_Abort(MPI_COMM_WORLD, 2);
  setrlimit(RLIMIT_FSIZE, &before);
}

static void gaps(MPI_File file, const uint8_t* bytes, const char* kind, const char* path) {
  const MPI_Offset mine = (MPI_Offset)rank * UNITS * UNIT, behind = (MPI_Offset)ranks * UNITS * UNIT;
  for (int i = 0; i < UNITS; ++i) {
    MPI_File_write_at(file, mine + (MPI_Offset)i * UNIT + PART_AT, bytes + i, PART, MPI_BYTE, MPI_STATUS_IGNORE);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; strcmp(kind, "common") == 0 && i < UNITS * ranks; ++i) {
    MPI_File_write_at(file, (MPI_Offset)i * UNIT + 2 * PART_AT, bytes + i, PART_AT, MPI_BYTE, MPI_STATUS_IGNORE);
  }
  if (strcmp(kind, "patched") == 0) {
    usleep(TICKS_US);  // more than the clock's tick
    const int fd = rank == 0 ? open(path, O_WRONLY) : -1;
    if (rank == 0 && (pwrite(fd, "PATCH", 5, UNIT + 2 * PART_AT) != 5 || close(fd) != 0)) MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (strcmp(kind, "synced") != 0 && strcmp(kind, "mended") != 0) return;
  MPI_File_sync(file);
  MPI_File_write_at(file, behind + (MPI_Offset)rank * UNIT, bytes, PART, MPI_BYTE, MPI_STATUS_IGNORE);
  if (rank == 0 && strcmp(kind, "mended") == 0) MPI_File_write_at(file, UNIT, bytes, UNIT, MPI_BYTE, MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char* kind = argc == 3 ? argv[1] : "";
  uint8_t* bytes = malloc((size_t)2 * ROWS * WIDTH + SLAB);
  MPI_File file;
  if (argc != 3 || MPI_File_open(MPI_COMM_WORLD, argv[2], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file) != 0) {
    MPI_Abort(MPI_COMM_WORLD, 2);
    return 2;
  }
  fill(bytes, (size_t)2 * ROWS * WIDTH + SLAB, (unsigned)rank + 1);
  const MPI_Offset slab = HEADER + (MPI_Offset)rank * SLAB;
  if (strcmp(kind, "grid") == 0) columns(file, bytes, 1);
  if (strcmp(kind, "strided") == 0) columns(file, bytes, 0);
  if (strcmp(kind, "hindexed") == 0) hindexed(file, bytes);
  if (strcmp(kind, "memory") == 0) from_pieces(file, bytes, slab);
  if (strcmp(kind, "by_hand") == 0) by_hand(file, bytes);
  if (strcmp(kind, "header") == 0) {
    if (rank == 0) MPI_File_write_at(file, 0, bytes + 1000, HEADER, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_write_at_all(file, slab, bytes, SLAB, MPI_BYTE, MPI_STATUS_IGNORE);
    if (rank == 0) MPI_File_write_at(file, 0, bytes + 2000, HEADER - 100, MPI_BYTE, MPI_STATUS_IGNORE);
  }
  if (strcmp(kind, "twice") == 0) {
    MPI_File_write_at_all(file, slab, bytes, SLAB, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_write_at_all(file, slab + SLAB / 4, bytes + 7, SLAB / 2, MPI_BYTE, MPI_STATUS_IGNORE);
  }
  if (strcmp(kind, "refused") == 0) {
    MPI_File_write_at_all(file, slab, bytes, SLAB, MPI_BYTE, MPI_STATUS_IGNORE);
    if (rank == 0) refused(file, bytes + 7, slab);
  }
  if (strcmp(kind, "shared") == 0) {
    for (int turn = 0; turn < ranks; ++turn) {
      if (turn == rank) MPI_File_write_shared(file, bytes, SLAB, MPI_BYTE, MPI_STATUS_IGNORE);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  const char* in_gaps[] = {"gaps", "common", "patched", "synced", "mended"};
  for (size_t i = 0; i < sizeof in_gaps / sizeof *in_gaps; ++i) {
    if (strcmp(kind, in_gaps[i]) == 0) gaps(file, bytes, kind, argv[2]);
  }
  for (int i = 0; strcmp(kind, "small") == 0 && i < 3; ++i) {
    MPI_File_write_at(file, (3 * rank + i) * SMALL, bytes, SMALL / 2, MPI_BYTE, MPI_STATUS_IGNORE);
  }
  if (strcmp(kind, "overlap") == 0) MPI_File_write_at(file, 0, bytes, SLAB, MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
  free(bytes);
  MPI_Finalize();
  return 0;
}
