// Checkpoints as MPI-IO files: one per rank, or a shared one.
//
// A file is a header of HEADER_BYTES, then the cells as doubles in the byte order of the machine. A file per rank has
// the cells of its block; a shared file has those of the cube. The blocks of a shared file are in many pieces, so each
// rank sets a view, and one collective call writes all of them.

#include <string.h>

#include "heat3d.h"

enum { HEADER_BYTES = 512 };

// What a checkpoint file of MPI-IO begins with. A shared file has one block, which is the whole cube.
typedef struct {
  char magic[8];
  int64_t size;
  int64_t step;
  double time;
  int64_t rank;
  int64_t ranks;
  int64_t dims[AXES];
  int64_t start[AXES];
  int64_t count[AXES];
} Header;
_Static_assert(sizeof(Header) <= HEADER_BYTES, "the header must fit its place in the file");

static const char MAGIC[8] = {'h', 'e', 'a', 't', '3', 'd', '.', '1'};

static Header make_header(const Solver* s, bool per_rank) {
  Header header = {.size = s->size, .step = s->step, .time = time_of(s->step), .ranks = 1};
  memcpy(header.magic, MAGIC, sizeof header.magic);
  if (per_rank) {
    header.rank = s->rank;
    header.ranks = s->ranks;
  }
  for (int axis = 0; axis < AXES; ++axis) {
    header.dims[axis] = per_rank ? s->dims[axis] : 1;
    header.start[axis] = per_rank ? s->start[axis] : 0;
    header.count[axis] = per_rank ? s->count[axis] : s->size;
  }
  return header;
}

// A checkpoint is only read by a run of the same shape: the same cube and, if there is a file per rank, the same
// blocks.
static void check_header(const Solver* s, const Header* header, bool per_rank, const char* path) {
  const Header mine = make_header(s, per_rank);
  if (memcmp(header->magic, mine.magic, sizeof mine.magic) != 0) fail("%s: not a checkpoint of heat3d", path);
  if (header->size != mine.size) {
    fail("%s: the checkpoint has --size %" PRId64 ", this run has %d", path, header->size, s->size);
  }
  if (header->ranks != mine.ranks || memcmp(header->dims, mine.dims, sizeof mine.dims) != 0) {
    fail("%s: the checkpoint is of %" PRId64 " ranks as %" PRId64 "x%" PRId64 "x%" PRId64 ", this run's are %" PRId64
         " as %" PRId64 "x%" PRId64 "x%" PRId64,
         path, header->ranks, header->dims[Z], header->dims[Y], header->dims[X], mine.ranks, mine.dims[Z], mine.dims[Y],
         mine.dims[X]);
  }
  if (header->rank != mine.rank || memcmp(header->start, mine.start, sizeof mine.start) != 0 ||
      memcmp(header->count, mine.count, sizeof mine.count) != 0) {
    fail("%s: the checkpoint holds the block of rank %" PRId64 ", not this rank's", path, header->rank);
  }
}

// The default error handler of files returns errors, so every call here is checked.
static MPI_File open_file(MPI_Comm comm, const char* path, int mode) {
  MPI_File file = MPI_FILE_NULL;
  check(MPI_File_open(comm, path, mode, MPI_INFO_NULL, &file), "MPI_File_open", path);
  return file;
}

// Not collective.
static void write_header(const Solver* s, MPI_File file, bool per_rank, const char* path) {
  char bytes[HEADER_BYTES] = {0};
  const Header header = make_header(s, per_rank);
  memcpy(bytes, &header, sizeof header);
  MPI_Status status;
  check(MPI_File_write_at(file, 0, bytes, HEADER_BYTES, MPI_BYTE, &status), "MPI_File_write_at", path);
  check_moved(&status, MPI_BYTE, HEADER_BYTES, "MPI_File_write_at", path);
}

// Collective over the ranks of the file. Returns the step.
static int read_header(const Solver* s, MPI_File file, bool per_rank, const char* path) {
  char bytes[HEADER_BYTES] = {0};
  MPI_Status status;
  check(MPI_File_read_at_all(file, 0, bytes, HEADER_BYTES, MPI_BYTE, &status), "MPI_File_read_at_all", path);
  check_moved(&status, MPI_BYTE, HEADER_BYTES, "MPI_File_read_at_all", path);
  Header header;
  memcpy(&header, bytes, sizeof header);
  check_header(s, &header, per_rank, path);
  return (int)header.step;
}

// ROMIO reports a read into memory with gaps as complete even at the end of the file, so the size is checked first.
// Local; a wrong size ends the job, whichever rank sees it.
static void check_size(MPI_File file, size_t block_cells, const char* path) {
  const MPI_Offset expected = HEADER_BYTES + (MPI_Offset)(block_cells * sizeof(double));
  MPI_Offset size = 0;
  check(MPI_File_get_size(file, &size), "MPI_File_get_size", path);
  if (size != expected) fail("%s: %lld bytes instead of %lld", path, (long long)size, (long long)expected);
}

// Both are collective, and move the block in one call, to or from where the file pointer and the view say.
static void write_block(const Solver* s, MPI_File file, const char* path) {
  MPI_Status status;
  check(MPI_File_write_all(file, s->now, 1, s->block_in_memory, &status), "MPI_File_write_all", path);
  check_moved(&status, s->block_in_memory, (int64_t)cells(s), "MPI_File_write_all", path);
}

static void read_block(Solver* s, MPI_File file, const char* path) {
  MPI_Status status;
  check(MPI_File_read_all(file, s->now, 1, s->block_in_memory, &status), "MPI_File_read_all", path);
  check_moved(&status, s->block_in_memory, (int64_t)cells(s), "MPI_File_read_all", path);
}

// From now on, the file of this rank is its block of the cube that begins at byte `at`.
static void view_cube(const Solver* s, MPI_File file, MPI_Offset at, const char* path) {
  check(MPI_File_set_view(file, at, MPI_DOUBLE, s->block_in_cube, "native", MPI_INFO_NULL), "MPI_File_set_view", path);
}

// The old checkpoint is overwritten in place: the file is emptied first, then header and block are written. The block
// goes to the individual file pointer.
void write_per_rank(const Solver* s, const char* path) {
  MPI_File file = open_file(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_WRONLY);
  check(MPI_File_set_size(file, 0), "MPI_File_set_size", path);
  write_header(s, file, true, path);
  check(MPI_File_seek(file, HEADER_BYTES, MPI_SEEK_SET), "MPI_File_seek", path);
  write_block(s, file, path);
  check(MPI_File_close(&file), "MPI_File_close", path);
}

// Each rank reads its own file, by itself; restart() compares the steps.
int read_per_rank(Solver* s, const char* path) {
  MPI_File file = open_file(MPI_COMM_SELF, path, MPI_MODE_RDONLY);
  const int step = read_header(s, file, true, path);
  check_size(file, cells(s), path);
  check(MPI_File_seek(file, HEADER_BYTES, MPI_SEEK_SET), "MPI_File_seek", path);
  read_block(s, file, path);
  check(MPI_File_close(&file), "MPI_File_close", path);
  return step;
}

void write_shared(const Solver* s, const char* path, bool with_header) {
  MPI_File file = open_file(s->comm, path, MPI_MODE_CREATE | MPI_MODE_WRONLY);
  check(MPI_File_set_size(file, 0), "MPI_File_set_size", path);
  // With Intel MPI each rank truncates the file for itself, and a late one would take the header away.
  check(MPI_Barrier(s->comm), "MPI_Barrier", path);
  if (with_header && s->rank == 0) write_header(s, file, false, path);
  view_cube(s, file, with_header ? HEADER_BYTES : 0, path);
  write_block(s, file, path);
  check(MPI_File_close(&file), "MPI_File_close", path);
}

// The view is set after the header was read, because the header is outside of it.
int read_shared(Solver* s, const char* path) {
  MPI_File file = open_file(s->comm, path, MPI_MODE_RDONLY);
  const int step = read_header(s, file, false, path);
  check_size(file, (size_t)(cube_bytes(s) / (int64_t)sizeof(double)), path);
  view_cube(s, file, HEADER_BYTES, path);
  read_block(s, file, path);
  check(MPI_File_close(&file), "MPI_File_close", path);
  return step;
}
