// The heat equation on one block of the cube, and the halo that neighbours exchange.
//
// Nothing here may depend on how many ranks there are: the guide compares checksums of runs with and without a restart.
// So each cell is computed by the same operations in the same order, and CMake forbids fused multiply-add.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "heat3d.h"

// Cells are 1 mm wide; DT is below the stability limit 1 / (6 * ALPHA).
static const double ALPHA = 1.0;
static const double DT = 0.125;

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): each bit of the result depends on each bit of the value.
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

// Noise everywhere makes every block of a checkpoint different, so that a block that is put in a wrong place shows.
static double initial_temperature(int z, int y, int x) {
  return 300.0 + 10.0 * noise(z, y, x, 1);
}

// Each wall has a temperature of its own, so heat flows through the cube.
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

double time_of(int step) {
  return DT * step;
}

// The heaters go up and down, so the field never becomes stationary, and every checkpoint differs from the last.
static double source_amplitude(int step) {
  return 1.0 + 0.5 * sin(0.4 * time_of(step));
}

size_t cells(const Solver* s) {
  return (size_t)s->count[Z] * s->count[Y] * s->count[X];
}

int64_t cube_bytes(const Solver* s) {
  return (int64_t)sizeof(double) * s->size * s->size * s->size;
}

// Cells of a row along x, with its halo.
static size_t row_length(const Solver* s) {
  return (size_t)s->count[X] + 2;
}

// Where the row begins in an array with a halo; z, y count from -1, the row's own halo cell is first.
static size_t row_at(const Solver* s, int z, int y) {
  return ((size_t)(z + 1) * (size_t)(s->count[Y] + 2) + (size_t)(y + 1)) * row_length(s);
}

// A box of `counts` doubles that begins at `starts` in an array of `sizes`.
static MPI_Datatype make_subarray(const int sizes[AXES], const int counts[AXES], const int starts[AXES]) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_subarray(AXES, sizes, counts, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  return type;
}

// Cells that do not divide evenly go to the blocks one by one, so sizes differ by one at most. `false` needs no message
// between ranks: each rank compares the same numbers.
bool decompose(Solver* s, int size) {
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

// Walls never change, so both fields get them here, and halo cells at a wall are not touched again. Other halo cells
// stay zero until the first exchange.
void set_up_fields(Solver* s) {
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

void tear_down(Solver* s) {
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

// Only faces are exchanged: the stencil needs no edges and corners. Receives come first, so that no message has to wait
// in a buffer. At a wall the neighbour is MPI_PROC_NULL, and the halo keeps the wall's temperature.
void exchange_halo(Solver* s) {
  MPI_Request requests[2 * FACES];
  // Not ignored only because GCC warns about MPICH's MPI_STATUSES_IGNORE.
  MPI_Status statuses[2 * FACES];
  for (int face = 0; face < FACES; ++face) {
    // What goes out through a face comes in through the opposite one.
    MPI_Irecv(s->now, 1, s->receive_face[face], s->neighbour[face], face ^ 1, s->comm, &requests[face]);
    MPI_Isend(s->now, 1, s->send_face[face], s->neighbour[face], face, s->comm, &requests[FACES + face]);
  }
  MPI_Waitall(2 * FACES, requests, statuses);
}

// The seven-point stencil. The brackets fix the order of the sum. All pointers of a row are `restrict`, because `next`
// is another array than `now`; so the inner loop vectorizes.
void apply_stencil(Solver* s, double keep, double scale) {
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

// Explicit Euler.
void advance(Solver* s) {
  exchange_halo(s);
  apply_stencil(s, 1.0, DT);
  double* swap = s->now;
  s->now = s->next;
  s->next = swap;
  ++s->step;
}

// The hash of a cell is of its value and its place. Sums of integers do not depend on the order, as sums of
// floating-point numbers do.
uint64_t checksum(const Solver* s) {
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
