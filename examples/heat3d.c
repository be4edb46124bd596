// heat3d: explicit finite differences for the heat equation with a source on a cube of N x N x N cells.
//
//   dT/dt = alpha * laplacian(T) + amplitude(t) * source(x)        T given on the walls
//
// Every cell is updated by one expression of fixed order and takes its halo from neighbours that hold exact copies, so
// the field is the same bit for bit for any number of ranks, and after any restart.
//
// Checkpoints go to one MPI-IO file per rank, to one shared MPI-IO file, or to one shared HDF5 file.

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HEAT_HAVE_HDF5
#include <hdf5.h>
#endif

enum { X = 2, Y = 1, Z = 0, AXES = 3, FACES = 2 * AXES, PATH_LIMIT = 4096, HEADER_BYTES = 512 };

// Cells are 1 mm wide; DT is below the stability limit 1 / (6 * ALPHA).
static const double ALPHA = 1.0;
static const double DT = 0.125;

typedef struct {
  int size;
  int steps;
  int every;
  const char* checkpoint;
  bool per_rank;
  const char* hdf5;
  const char* final;
  bool restart;
  bool quiet;
} Options;

typedef struct {
  MPI_Comm comm;
  int rank;
  int ranks;
  int size;
  int dims[AXES];
  int start[AXES];  // the global cell that the block begins with
  int count[AXES];  // the cells of the block
  int neighbour[FACES];
  MPI_Datatype send_face[FACES];
  MPI_Datatype receive_face[FACES];
  MPI_Datatype block_in_memory;  // the block without its halo
  MPI_Datatype block_in_cube;    // the block's place in the global field
  double* now;                   // with a halo one cell wide
  double* next;
  double* source;  // without a halo
  int step;
} Solver;

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

// ---------------------------------------------------------------------------------------------------------- Failures

__attribute__((format(printf, 1, 2))) static _Noreturn void fail(const char* format, ...) {
  char message[2 * PATH_LIMIT];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fprintf(stderr, "heat3d: rank %d: %s\n", rank, message);
  fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  abort();
}

static void check(int code, const char* call, const char* path) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("%s: %s: %s", path, call, text);
}

// A transfer that moved fewer bytes than it was asked for is an error even if the call says success.
static void check_moved(const MPI_Status* status, MPI_Datatype type, int64_t expected, const char* call,
                        const char* path) {
  MPI_Count elements = 0;
  MPI_Get_elements_x(status, type, &elements);
  if (elements != expected) {
    fail("%s: %s: short transfer: %lld of %" PRId64 " elements", path, call, (long long)elements, expected);
  }
}

static void* allocate(size_t count, size_t bytes) {
  void* memory = calloc(count, bytes);
  if (!memory) fail("out of memory: %zu times %zu bytes", count, bytes);
  return memory;
}

// ----------------------------------------------------------------------------------------------------------- Options

// Replaces %r, or %04r for leading zeroes, by the rank. Returns the number of replacements or -1 for a bad pattern.
static int expand_pattern(const char* pattern, int rank, char out[PATH_LIMIT]) {
  size_t used = 0;
  int replaced = 0;
  for (const char* p = pattern; *p; ++p) {
    char text[32] = {*p, '\0'};
    if (*p == '%' && p[1] == '%') {
      ++p;
    } else if (*p == '%') {
      char* end = NULL;
      const long width = strtol(p + 1, &end, 10);
      if (*end != 'r' || width < 0 || width > 20 || p[1] == '+' || p[1] == ' ') return -1;
      if (p[1] == '0') {
        snprintf(text, sizeof text, "%0*d", (int)width, rank);
      } else {
        snprintf(text, sizeof text, "%*d", (int)width, rank);
      }
      ++replaced;
      p = end;
    }
    const size_t length = strlen(text);
    if (used + length >= PATH_LIMIT) return -1;
    memcpy(out + used, text, length);
    used += length;
  }
  out[used] = '\0';
  return replaced;
}

static void print_usage(FILE* stream) {
  fputs(
      "usage: heat3d [options]\n"
      "  --size N              cells along each edge of the cube (default 96)\n"
      "  --steps S             the step to stop at (default 100)\n"
      "  --every K             checkpoint after every K steps, 0 for none (default 10)\n"
      "  --checkpoint PATTERN  checkpoint to a shared MPI-IO file, or to a file per rank if PATTERN has %r or %04r\n"
      "  --hdf5 FILE           checkpoint to a shared HDF5 file\n"
      "  --restart             go on from the checkpoint that --checkpoint or --hdf5 names\n"
      "  --final FILE          write the field at the end as raw doubles, x fastest\n"
      "  --quiet               print nothing\n"
      "  --help                print this\n",
      stream);
}

static bool parse_number(const char* text, int least, int* value) {
  char* end = NULL;
  errno = 0;
  const long number = strtol(text, &end, 10);
  if (errno || end == text || *end || number < least || number > 1000000000) return false;
  *value = (int)number;
  return true;
}

// Returns -1 to run, else the exit code. Only rank 0 prints.
static int parse_options(int argc, char** argv, int rank, Options* options) {
  static const struct option known[] = {
      {"size", required_argument, NULL, 'n'},  {"steps", required_argument, NULL, 's'},
      {"every", required_argument, NULL, 'k'}, {"checkpoint", required_argument, NULL, 'c'},
      {"hdf5", required_argument, NULL, '5'},  {"restart", no_argument, NULL, 'r'},
      {"final", required_argument, NULL, 'f'}, {"quiet", no_argument, NULL, 'q'},
      {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0}};
  *options = (Options){.size = 96, .steps = 100, .every = 10};
  opterr = rank == 0;
  const char* error = NULL;
  char path[PATH_LIMIT];
  int option = 0;
  while (!error && (option = getopt_long(argc, argv, "", known, NULL)) != -1) {
    switch (option) {
      case 'n':
        if (!parse_number(optarg, 1, &options->size)) error = "--size takes a number from 1";
        break;
      case 's':
        if (!parse_number(optarg, 0, &options->steps)) error = "--steps takes a number from 0";
        break;
      case 'k':
        if (!parse_number(optarg, 0, &options->every)) error = "--every takes a number from 0";
        break;
      case 'c': {
        const int replaced = expand_pattern(optarg, 0, path);
        if (replaced < 0) error = "--checkpoint takes a path with %r or %04r for the rank and %% for a percent sign";
        options->checkpoint = optarg;
        options->per_rank = replaced > 0;
        break;
      }
      case '5':
        options->hdf5 = optarg;
        break;
      case 'r':
        options->restart = true;
        break;
      case 'f':
        options->final = optarg;
        break;
      case 'q':
        options->quiet = true;
        break;
      case 'h':
        if (rank == 0) print_usage(stdout);
        return 0;
      default:
        if (rank == 0) print_usage(stderr);
        return 2;
    }
  }
  if (!error && optind < argc) error = "there are no arguments besides the options";
  if (!error && options->checkpoint && options->hdf5) error = "--checkpoint and --hdf5 exclude each other";
  if (!error && options->restart && !options->checkpoint && !options->hdf5) {
    error = "--restart needs --checkpoint or --hdf5";
  }
#ifndef HEAT_HAVE_HDF5
  if (!error && options->hdf5) error = "--hdf5: built without parallel HDF5";
#endif
  if (!error) return -1;
  if (rank == 0) fprintf(stderr, "heat3d: %s\n", error);
  return 2;
}

// ----------------------------------------------------------------------------------------------------------- Physics

static uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// A repeatable number in [0, 1) for each cell and purpose.
static double noise(int z, int y, int x, uint64_t purpose) {
  uint64_t state = mix(purpose);
  state = mix(state ^ (uint64_t)(int64_t)z);
  state = mix(state ^ (uint64_t)(int64_t)y);
  state = mix(state ^ (uint64_t)(int64_t)x);
  return (double)(state >> 11) * 0x1p-53;
}

static double initial_temperature(int z, int y, int x) {
  return 300.0 + 10.0 * noise(z, y, x, 1);
}

static double wall_temperature(int z, int y, int x, int face) {
  return 290.0 + 8.0 * face + 4.0 * noise(z, y, x, 2);
}

// Three heaters of unequal power in a material that heats unevenly.
static double source_density(int z, int y, int x, int size) {
  static const double heater[3][4] = {{0.31, 0.42, 0.27, 3.0}, {0.72, 0.18, 0.61, 1.5}, {0.55, 0.77, 0.83, -1.0}};
  double density = 0.05 * noise(z, y, x, 3);
  for (int h = 0; h < 3; ++h) {
    const double dz = (z + 0.5) / size - heater[h][0];
    const double dy = (y + 0.5) / size - heater[h][1];
    const double dx = (x + 0.5) / size - heater[h][2];
    density += heater[h][3] / (1.0 + 400.0 * (dz * dz + dy * dy + dx * dx));
  }
  return density;
}

static double time_of(int step) {
  return DT * step;
}

static double source_amplitude(int step) {
  return 1.0 + 0.5 * sin(0.4 * time_of(step));
}

// ------------------------------------------------------------------------------------------------------------ Solver

static size_t cells(const Solver* s) {
  return (size_t)s->count[Z] * s->count[Y] * s->count[X];
}

static int64_t cube_bytes(const Solver* s) {
  return (int64_t)sizeof(double) * s->size * s->size * s->size;
}

static size_t row_length(const Solver* s) {
  return (size_t)s->count[X] + 2;
}

// Where the row begins in an array with a halo; z, y count from -1, the row's own halo cell is first.
static size_t row_at(const Solver* s, int z, int y) {
  return ((size_t)(z + 1) * (size_t)(s->count[Y] + 2) + (size_t)(y + 1)) * row_length(s);
}

static MPI_Datatype make_subarray(const int sizes[AXES], const int counts[AXES], const int starts[AXES]) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_subarray(AXES, sizes, counts, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  return type;
}

// Lays the cube out over the ranks. Returns false, for all ranks alike, if it has too few cells for them.
static bool decompose(Solver* s, int size) {
  *s = (Solver){.size = size};
  MPI_Comm_size(MPI_COMM_WORLD, &s->ranks);
  MPI_Dims_create(s->ranks, AXES, s->dims);
  const int periods[AXES] = {0, 0, 0};
  MPI_Cart_create(MPI_COMM_WORLD, AXES, s->dims, periods, 0, &s->comm);
  MPI_Comm_rank(s->comm, &s->rank);
  int coords[AXES];
  MPI_Cart_coords(s->comm, s->rank, AXES, coords);
  int with_halo[AXES];
  const int inside[AXES] = {1, 1, 1};
  const int cube[AXES] = {size, size, size};
  for (int axis = 0; axis < AXES; ++axis) {
    if (size < s->dims[axis]) return false;
    const int64_t begin = (int64_t)size * coords[axis] / s->dims[axis];
    const int64_t end = (int64_t)size * (coords[axis] + 1) / s->dims[axis];
    s->start[axis] = (int)begin;
    s->count[axis] = (int)(end - begin);
    with_halo[axis] = s->count[axis] + 2;
  }
  s->block_in_memory = make_subarray(with_halo, s->count, inside);
  s->block_in_cube = make_subarray(cube, s->count, s->start);
  for (int axis = 0; axis < AXES; ++axis) {
    MPI_Cart_shift(s->comm, axis, 1, &s->neighbour[2 * axis], &s->neighbour[2 * axis + 1]);
    int face[AXES] = {s->count[Z], s->count[Y], s->count[X]};
    face[axis] = 1;
    for (int side = 0; side < 2; ++side) {
      int at[AXES] = {1, 1, 1};
      at[axis] = side ? s->count[axis] : 1;
      s->send_face[2 * axis + side] = make_subarray(with_halo, face, at);
      at[axis] = side ? s->count[axis] + 1 : 0;
      s->receive_face[2 * axis + side] = make_subarray(with_halo, face, at);
    }
  }
  return true;
}

// The wall that the halo cell belongs to, or -1 for a cell of the cube.
static int wall_of(const Solver* s, int z, int y, int x) {
  const int cell[AXES] = {z, y, x};
  for (int axis = 0; axis < AXES; ++axis) {
    if (cell[axis] < 0) return 2 * axis;
    if (cell[axis] >= s->size) return 2 * axis + 1;
  }
  return -1;
}

static void set_up_fields(Solver* s) {
  const size_t with_halo = (size_t)(s->count[Z] + 2) * (size_t)(s->count[Y] + 2) * row_length(s);
  s->now = allocate(with_halo, sizeof(double));
  s->next = allocate(with_halo, sizeof(double));
  s->source = allocate(cells(s), sizeof(double));
  double* source = s->source;
  for (int z = -1; z <= s->count[Z]; ++z) {
    for (int y = -1; y <= s->count[Y]; ++y) {
      double* now = s->now + row_at(s, z, y);
      double* next = s->next + row_at(s, z, y);
      for (int x = -1; x <= s->count[X]; ++x, ++now, ++next) {
        const int gz = s->start[Z] + z;
        const int gy = s->start[Y] + y;
        const int gx = s->start[X] + x;
        const int wall = wall_of(s, gz, gy, gx);
        if (wall >= 0) {
          *now = *next = wall_temperature(gz, gy, gx, wall);
        } else if (z >= 0 && z < s->count[Z] && y >= 0 && y < s->count[Y] && x >= 0 && x < s->count[X]) {
          *now = initial_temperature(gz, gy, gx);
          *source++ = source_density(gz, gy, gx, s->size);
        }
      }
    }
  }
}

static void tear_down(Solver* s) {
  free(s->now);
  free(s->next);
  free(s->source);
  for (int face = 0; face < FACES; ++face) {
    MPI_Type_free(&s->send_face[face]);
    MPI_Type_free(&s->receive_face[face]);
  }
  MPI_Type_free(&s->block_in_memory);
  MPI_Type_free(&s->block_in_cube);
  MPI_Comm_free(&s->comm);
}

static void exchange_halo(Solver* s) {
  MPI_Request requests[2 * FACES];
  MPI_Status statuses[2 * FACES];  // not ignored only because GCC warns about MPICH's MPI_STATUSES_IGNORE
  for (int face = 0; face < FACES; ++face) {
    // What goes out through a face comes in through the opposite one.
    MPI_Irecv(s->now, 1, s->receive_face[face], s->neighbour[face], face ^ 1, s->comm, &requests[face]);
    MPI_Isend(s->now, 1, s->send_face[face], s->neighbour[face], face, s->comm, &requests[FACES + face]);
  }
  MPI_Waitall(2 * FACES, requests, statuses);
}

// next = keep * now + scale * dT/dt. The halo must be up to date.
static void apply_stencil(Solver* s, double keep, double scale) {
  const double amplitude = source_amplitude(s->step);
  const double* restrict source = s->source;
  for (int z = 0; z < s->count[Z]; ++z) {
    for (int y = 0; y < s->count[Y]; ++y) {
      const double* restrict row = s->now + row_at(s, z, y) + 1;
      const double* restrict below = s->now + row_at(s, z - 1, y) + 1;
      const double* restrict above = s->now + row_at(s, z + 1, y) + 1;
      const double* restrict front = s->now + row_at(s, z, y - 1) + 1;
      const double* restrict back = s->now + row_at(s, z, y + 1) + 1;
      double* restrict out = s->next + row_at(s, z, y) + 1;
      for (int x = 0; x < s->count[X]; ++x) {
        const double around = (row[x - 1] + row[x + 1]) + (front[x] + back[x]) + (below[x] + above[x]);
        const double rate = ALPHA * (around - 6.0 * row[x]) + amplitude * source[x];
        out[x] = keep * row[x] + scale * rate;
      }
      source += s->count[X];
    }
  }
}

static void advance(Solver* s) {
  exchange_halo(s);
  apply_stencil(s, 1.0, DT);
  double* swap = s->now;
  s->now = s->next;
  s->next = swap;
  ++s->step;
}

// The sum of one hash per cell, which does not depend on who sums in what order.
static uint64_t checksum(const Solver* s) {
  uint64_t sum = 0;
  for (int z = 0; z < s->count[Z]; ++z) {
    for (int y = 0; y < s->count[Y]; ++y) {
      const double* row = s->now + row_at(s, z, y) + 1;
      const uint64_t size = (uint64_t)s->size;
      const uint64_t first =
          ((uint64_t)(s->start[Z] + z) * size + (uint64_t)(s->start[Y] + y)) * size + (uint64_t)s->start[X];
      for (int x = 0; x < s->count[X]; ++x) {
        uint64_t bits = 0;
        memcpy(&bits, &row[x], sizeof bits);
        sum += mix(bits ^ mix(first + (uint64_t)x));
      }
    }
  }
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, s->comm);
  return sum;
}

// ------------------------------------------------------------------------------------------------------ MPI-IO files

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

static MPI_File open_file(MPI_Comm comm, const char* path, int mode) {
  MPI_File file = MPI_FILE_NULL;
  check(MPI_File_open(comm, path, mode, MPI_INFO_NULL, &file), "MPI_File_open", path);
  return file;
}

static void close_file(MPI_File* file, const char* path) {
  check(MPI_File_close(file), "MPI_File_close", path);
}

static void write_header(const Solver* s, MPI_File file, bool per_rank, const char* path) {
  char bytes[HEADER_BYTES] = {0};
  const Header header = make_header(s, per_rank);
  memcpy(bytes, &header, sizeof header);
  MPI_Status status;
  check(MPI_File_write_at(file, 0, bytes, HEADER_BYTES, MPI_BYTE, &status), "MPI_File_write_at", path);
  check_moved(&status, MPI_BYTE, HEADER_BYTES, "MPI_File_write_at", path);
}

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
static void check_size(MPI_File file, size_t block_cells, const char* path) {
  const MPI_Offset expected = HEADER_BYTES + (MPI_Offset)(block_cells * sizeof(double));
  MPI_Offset size = 0;
  check(MPI_File_get_size(file, &size), "MPI_File_get_size", path);
  if (size != expected) fail("%s: %lld bytes instead of %lld", path, (long long)size, (long long)expected);
}

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

static void view_cube(const Solver* s, MPI_File file, MPI_Offset at, const char* path) {
  check(MPI_File_set_view(file, at, MPI_DOUBLE, s->block_in_cube, "native", MPI_INFO_NULL), "MPI_File_set_view", path);
}

static void write_per_rank(const Solver* s, const char* path) {
  MPI_File file = open_file(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_WRONLY);
  check(MPI_File_set_size(file, 0), "MPI_File_set_size", path);
  write_header(s, file, true, path);
  check(MPI_File_seek(file, HEADER_BYTES, MPI_SEEK_SET), "MPI_File_seek", path);
  write_block(s, file, path);
  close_file(&file, path);
}

static int read_per_rank(Solver* s, const char* path) {
  MPI_File file = open_file(MPI_COMM_SELF, path, MPI_MODE_RDONLY);
  const int step = read_header(s, file, true, path);
  check_size(file, cells(s), path);
  check(MPI_File_seek(file, HEADER_BYTES, MPI_SEEK_SET), "MPI_File_seek", path);
  read_block(s, file, path);
  close_file(&file, path);
  return step;
}

static void write_shared(const Solver* s, const char* path, bool with_header) {
  MPI_File file = open_file(s->comm, path, MPI_MODE_CREATE | MPI_MODE_WRONLY);
  check(MPI_File_set_size(file, 0), "MPI_File_set_size", path);
  // With Intel MPI each rank truncates the file for itself, and a late one would take the header away.
  check(MPI_Barrier(s->comm), "MPI_Barrier", path);
  if (with_header && s->rank == 0) write_header(s, file, false, path);
  view_cube(s, file, with_header ? HEADER_BYTES : 0, path);
  write_block(s, file, path);
  close_file(&file, path);
}

static int read_shared(Solver* s, const char* path) {
  MPI_File file = open_file(s->comm, path, MPI_MODE_RDONLY);
  const int step = read_header(s, file, false, path);
  check_size(file, (size_t)(cube_bytes(s) / (int64_t)sizeof(double)), path);
  view_cube(s, file, HEADER_BYTES, path);
  read_block(s, file, path);
  close_file(&file, path);
  return step;
}

// -------------------------------------------------------------------------------------------------------------- HDF5

#ifdef HEAT_HAVE_HDF5

enum { CHUNK_EDGE = 32 };

typedef struct {
  hid_t file;
  hid_t transfer;
  hid_t in_memory;  // the block inside its halo
  hid_t in_file;    // the block inside the cube
  const char* path;
} Hdf5;

// HDF5 has printed its own stack of errors, with the string of MPI's if that is the cause, before this is reached.
static hid_t check_hdf5(hid_t result, const char* call, const char* path) {
  if (result < 0) fail("%s: %s failed", path, call);
  return result;
}

static hid_t make_space(const int sizes[AXES], const int counts[AXES], const int starts[AXES], const char* path) {
  hsize_t size[AXES];
  hsize_t count[AXES];
  hsize_t start[AXES];
  for (int axis = 0; axis < AXES; ++axis) {
    size[axis] = (hsize_t)sizes[axis];
    count[axis] = (hsize_t)counts[axis];
    start[axis] = (hsize_t)starts[axis];
  }
  const hid_t space = check_hdf5(H5Screate_simple(AXES, size, NULL), "H5Screate_simple", path);
  check_hdf5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL), "H5Sselect_hyperslab", path);
  return space;
}

static Hdf5 open_hdf5(const Solver* s, const char* path, bool create) {
  const int cube[AXES] = {s->size, s->size, s->size};
  const int with_halo[AXES] = {s->count[Z] + 2, s->count[Y] + 2, s->count[X] + 2};
  const int inside[AXES] = {1, 1, 1};
  Hdf5 h = {.path = path};
  const hid_t access = check_hdf5(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate", path);
  check_hdf5(H5Pset_fapl_mpio(access, s->comm, MPI_INFO_NULL), "H5Pset_fapl_mpio", path);
  h.file = create ? check_hdf5(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access), "H5Fcreate", path)
                  : check_hdf5(H5Fopen(path, H5F_ACC_RDONLY, access), "H5Fopen", path);
  check_hdf5(H5Pclose(access), "H5Pclose", path);
  h.transfer = check_hdf5(H5Pcreate(H5P_DATASET_XFER), "H5Pcreate", path);
  check_hdf5(H5Pset_dxpl_mpio(h.transfer, H5FD_MPIO_COLLECTIVE), "H5Pset_dxpl_mpio", path);
  h.in_memory = make_space(with_halo, s->count, inside, path);
  h.in_file = make_space(cube, s->count, s->start, path);
  return h;
}

static void close_hdf5(Hdf5* h) {
  check_hdf5(H5Sclose(h->in_file), "H5Sclose", h->path);
  check_hdf5(H5Sclose(h->in_memory), "H5Sclose", h->path);
  check_hdf5(H5Pclose(h->transfer), "H5Pclose", h->path);
  check_hdf5(H5Fclose(h->file), "H5Fclose", h->path);
}

static void write_dataset(const Hdf5* h, const char* name, const double* field, const hsize_t chunk[AXES]) {
  const hid_t creation = check_hdf5(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate", h->path);
  check_hdf5(H5Pset_obj_track_times(creation, false), "H5Pset_obj_track_times", h->path);  // for equal files
  if (chunk) check_hdf5(H5Pset_chunk(creation, AXES, chunk), "H5Pset_chunk", h->path);
  const hid_t set = check_hdf5(
      H5Dcreate2(h->file, name, H5T_IEEE_F64LE, h->in_file, H5P_DEFAULT, creation, H5P_DEFAULT), "H5Dcreate2", h->path);
  check_hdf5(H5Dwrite(set, H5T_NATIVE_DOUBLE, h->in_memory, h->in_file, h->transfer, field), "H5Dwrite", h->path);
  check_hdf5(H5Dclose(set), "H5Dclose", h->path);
  check_hdf5(H5Pclose(creation), "H5Pclose", h->path);
}

static void write_attribute(const Hdf5* h, const char* name, hid_t in_file, hid_t in_memory, const void* value) {
  const hid_t space = check_hdf5(H5Screate(H5S_SCALAR), "H5Screate", h->path);
  const hid_t attribute =
      check_hdf5(H5Acreate2(h->file, name, in_file, space, H5P_DEFAULT, H5P_DEFAULT), "H5Acreate2", h->path);
  check_hdf5(H5Awrite(attribute, in_memory, value), "H5Awrite", h->path);
  check_hdf5(H5Aclose(attribute), "H5Aclose", h->path);
  check_hdf5(H5Sclose(space), "H5Sclose", h->path);
}

static void write_hdf5(Solver* s, const char* path) {
  Hdf5 h = open_hdf5(s, path, true);
  const hsize_t edge = (hsize_t)(s->size < CHUNK_EDGE ? s->size : CHUNK_EDGE);
  const hsize_t chunk[AXES] = {edge, edge, edge};
  write_dataset(&h, "temperature", s->now, NULL);
  // The residual is the rate of change of the field as it stands; the next step overwrites its place.
  exchange_halo(s);
  apply_stencil(s, 0.0, 1.0);
  write_dataset(&h, "residual", s->next, chunk);
  const int64_t step = s->step;
  const double time = time_of(s->step);
  write_attribute(&h, "step", H5T_STD_I64LE, H5T_NATIVE_INT64, &step);
  write_attribute(&h, "time", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &time);
  close_hdf5(&h);
}

static int read_hdf5(Solver* s, const char* path) {
  Hdf5 h = open_hdf5(s, path, false);
  const hid_t set = check_hdf5(H5Dopen2(h.file, "temperature", H5P_DEFAULT), "H5Dopen2", path);
  const hid_t space = check_hdf5(H5Dget_space(set), "H5Dget_space", path);
  hsize_t size[AXES] = {0};
  if (H5Sget_simple_extent_ndims(space) != AXES) fail("%s: /temperature is not three-dimensional", path);
  check_hdf5(H5Sget_simple_extent_dims(space, size, NULL), "H5Sget_simple_extent_dims", path);
  for (int axis = 0; axis < AXES; ++axis) {
    if (size[axis] != (hsize_t)s->size) {
      fail("%s: the checkpoint has --size %llu, this run has %d", path, (unsigned long long)size[axis], s->size);
    }
  }
  check_hdf5(H5Dread(set, H5T_NATIVE_DOUBLE, h.in_memory, h.in_file, h.transfer, s->now), "H5Dread", path);
  const hid_t attribute = check_hdf5(H5Aopen(h.file, "step", H5P_DEFAULT), "H5Aopen", path);
  int64_t step = 0;
  check_hdf5(H5Aread(attribute, H5T_NATIVE_INT64, &step), "H5Aread", path);
  check_hdf5(H5Aclose(attribute), "H5Aclose", path);
  check_hdf5(H5Sclose(space), "H5Sclose", path);
  check_hdf5(H5Dclose(set), "H5Dclose", path);
  close_hdf5(&h);
  return (int)step;
}

#else

static void write_hdf5(Solver* s, const char* path) {
  fail("%s: step %d: no parallel HDF5", path, s->step);
}
static int read_hdf5(Solver* s, const char* path) {
  fail("%s: step %d: no parallel HDF5", path, s->step);
}

#endif

// --------------------------------------------------------------------------------------------------------------- Run

static double slowest(const Solver* s, double seconds) {
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, s->comm);
  return seconds;
}

static void restart(Solver* s, const Options* options) {
  char path[PATH_LIMIT];
  int step = 0;
  if (options->hdf5) {
    step = read_hdf5(s, options->hdf5);
  } else {
    expand_pattern(options->checkpoint, s->rank, path);
    step = options->per_rank ? read_per_rank(s, path) : read_shared(s, path);
  }
  int bounds[2] = {step, -step};
  MPI_Allreduce(MPI_IN_PLACE, bounds, 2, MPI_INT, MPI_MAX, s->comm);
  if (bounds[0] != -bounds[1]) {
    fail("the ranks' checkpoints are of different steps: %d to %d, this rank's %d", -bounds[1], bounds[0], step);
  }
  if (step > options->steps) fail("the checkpoint is of step %d, beyond --steps %d", step, options->steps);
  s->step = step;
}

// Returns how long it took.
static double checkpoint(Solver* s, const Options* options) {
  char path[PATH_LIMIT];
  MPI_Barrier(s->comm);
  const double begin = MPI_Wtime();
  double bytes = (double)cube_bytes(s);
  if (options->hdf5) {
    write_hdf5(s, options->hdf5);
    bytes *= 2;
  } else {
    expand_pattern(options->checkpoint, s->rank, path);
    if (options->per_rank) {
      write_per_rank(s, path);
    } else {
      write_shared(s, path, true);
    }
  }
  const double seconds = slowest(s, MPI_Wtime() - begin);
  if (s->rank == 0 && !options->quiet) {
    printf("checkpoint step %d time %.3f seconds %.6f MB/s %.1f\n", s->step, time_of(s->step), seconds,
           bytes / 1e6 / seconds);
    fflush(stdout);
  }
  return seconds;
}

static void run(Solver* s, const Options* options) {
  set_up_fields(s);
  if (options->restart) restart(s, options);
  const bool checkpoints = (options->checkpoint || options->hdf5) && options->every > 0;
  const double begin = MPI_Wtime();
  double checkpoint_seconds = 0;
  while (s->step < options->steps) {
    advance(s);
    if (checkpoints && s->step % options->every == 0) checkpoint_seconds += checkpoint(s, options);
  }
  const double seconds = slowest(s, MPI_Wtime() - begin);
  if (options->final) write_shared(s, options->final, false);
  const uint64_t sum = checksum(s);
  if (s->rank == 0 && !options->quiet) {
    printf("final step %d time %.3f checksum %016" PRIx64 " seconds %.6f checkpoint-seconds %.6f\n", s->step,
           time_of(s->step), sum, seconds, checkpoint_seconds);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Options options;
  int code = parse_options(argc, argv, rank, &options);
  if (code < 0) {
    Solver solver;
    code = 0;
    if (decompose(&solver, options.size)) {
      run(&solver, &options);
      tear_down(&solver);
    } else {
      if (rank == 0) {
        fprintf(stderr, "heat3d: --size %d is too small for %d ranks as %dx%dx%d\n", options.size, solver.ranks,
                solver.dims[Z], solver.dims[Y], solver.dims[X]);
      }
      code = 2;
    }
  }
  MPI_Finalize();
  return code;
}
