/* Random writes to a shared file by all ranks, in the order that MPI's consistency rules ask for (MPI 4.0, 14.6.1: sync, barrier,
 * sync), and a model of what the file has to hold then.
 *
 *   filesystems_client FILE EXPECTED SEED ROUNDS [unread]
 *
 * Each rank computes the same plan from SEED. A round writes records that the ranks own in turn (many ranks in one block), pieces
 * one behind the other, or the piece of one rank, by independent or collective calls or through a view. After some rounds the file
 * is closed and opened again, and ranks read what others wrote, but for "unread": clients of some file systems keep pages that others
 * have written since, whatever MPI says. Rank 0 writes the model to EXPECTED. Exit code 1: a read was wrong. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20 };

static unsigned long long state;

static unsigned pick(unsigned below) {
  state += 0x9e3779b97f4a7c15ull;
  unsigned long long z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return (unsigned)((z ^ (z >> 31)) >> 32) % below;
}

static unsigned char byte_of(int round, long long at) {
  unsigned long long z = (unsigned long long)at * 0x9e3779b97f4a7c15ull + (unsigned)round * 0xd1342543de82ef95ull + 1;
  z ^= z >> 29;
  z *= 0xbf58476d1ce4e5b9ull;
  return (unsigned char)(z >> 40);
}

static int rank, ranks;
static MPI_File file;
static unsigned char *model, *piece;
static long long length;

static void must(int code, const char *call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int size;
  MPI_Error_string(code, text, &size);
  fprintf(stderr, "filesystems_client: %s: %s\n", call, text);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Every rank fills in the model; `mine` says whether this one writes the bytes. */
static void fill(int round, long long offset, long long size, int mine) {
  for (long long i = 0; i < size; ++i) model[offset + i] = byte_of(round, offset + i);
  if (mine) memcpy(piece, model + offset, (size_t)size);
  if (offset + size > length) length = offset + size;
}

static void write_piece(long long offset, long long size, int collective) {
  must(collective ? MPI_File_write_at_all(file, offset, piece, (int)size, MPI_BYTE, MPI_STATUS_IGNORE)
                  : MPI_File_write_at(file, offset, piece, (int)size, MPI_BYTE, MPI_STATUS_IGNORE), "write");
}

/* Record i is rank i mod ranks's. */
static void write_records(int round, long long offset, long long size, int count, int by_view) {
  MPI_Offset used = 0;
  for (int i = 0; i < count * ranks; ++i) {
    const int mine = i % ranks == rank;
    for (long long k = 0; k < size; ++k) model[offset + i * size + k] = byte_of(round, offset + i * size + k);
    if (!mine) continue;
    memcpy(piece + used, model + offset + i * size, (size_t)size);
    if (!by_view) must(MPI_File_write_at(file, offset + i * size, piece + used, (int)size, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
    used += size;
  }
  if (offset + count * ranks * size > length) length = offset + count * ranks * size;
  if (!by_view) return;
  MPI_Datatype records;
  MPI_Type_vector(count, (int)size, (int)(size * ranks), MPI_BYTE, &records);
  MPI_Type_commit(&records);
  must(MPI_File_set_view(file, offset + rank * size, MPI_BYTE, records, "native", MPI_INFO_NULL), "set_view");
  must(MPI_File_write_all(file, piece, (int)(count * size), MPI_BYTE, MPI_STATUS_IGNORE), "write_all");
  must(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), "set_view");
  MPI_Type_free(&records);
}

static void settle(void) {
  must(MPI_File_sync(file), "sync");
  MPI_Barrier(MPI_COMM_WORLD);
  must(MPI_File_sync(file), "sync");
}

static int read_back(void) {
  if (length == 0) return 0;
  const long long offset = pick((unsigned)length), size = length - offset < 100000 ? length - offset : 100000;
  must(MPI_File_read_at(file, offset, piece, (int)size, MPI_BYTE, MPI_STATUS_IGNORE), "read_at");
  const int wrong = memcmp(piece, model + offset, (size_t)size) != 0;
  if (wrong) fprintf(stderr, "filesystems_client: rank %d read other bytes at %lld than were written\n", rank, offset);
  return wrong;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 5 && argc != 6) {
    fprintf(stderr, "usage: filesystems_client FILE EXPECTED SEED ROUNDS [unread]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  state = strtoull(argv[3], NULL, 10);
  const int rounds = atoi(argv[4]);
  model = calloc(MOST, 1);
  piece = calloc(MOST, 1);
  int wrong = 0;
  static const int sizes[] = {100, 1000, 4096, 20000};
  const int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
  must(MPI_File_open(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &file), "open");
  for (int round = 0; round < rounds; ++round) {
    const long long offset = pick(300000), size = sizes[pick(4)];
    switch (pick(4)) {
      case 0:
      case 1:
        write_records(round, offset, size, (int)(1 + pick((unsigned)(100000 / size))), (int)pick(2));
        break;
      case 2: {
        const int collective = (int)pick(2);
        for (int r = 0; r < ranks; ++r) fill(round, offset + r * size, size, r == rank);
        write_piece(offset + rank * size, size, collective);
        break;
      }
      default: {
        const int writer = (int)pick((unsigned)ranks);
        fill(round, offset, size, writer == rank);
        if (writer == rank) write_piece(offset, size, 0);
      }
    }
    settle();
    if (pick(3) == 0 && argc == 5) wrong |= read_back();
    if (pick(4) == 0) {
      must(MPI_File_close(&file), "close");
      MPI_Barrier(MPI_COMM_WORLD);
      must(MPI_File_open(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &file), "open");
    }
    MPI_Barrier(MPI_COMM_WORLD);  /* what was read must not be overwritten before */
  }
  must(MPI_File_close(&file), "close");
  if (rank == 0) {
    FILE *expected = fopen(argv[2], "wb");
    if (expected == NULL || fwrite(model, 1, (size_t)length, expected) != (size_t)length || fclose(expected) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  free(model);
  free(piece);
  MPI_Finalize();
  return wrong;
}
