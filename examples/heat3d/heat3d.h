#pragma once
// heat3d: explicit finite differences for the heat equation with a source on a cube of N x N x N cells.
//
//   dT/dt = alpha * laplacian(T) + amplitude(t) * source(x)        T given on the walls
//
// Every cell is updated by one expression of fixed order and takes its halo from neighbours that hold exact copies, so
// the field is the same bit for bit for any number of ranks, and after any restart.
//
// Checkpoints go to one MPI-IO file per rank or to one shared MPI-IO file (mpiio.c), or to one shared HDF5 file
// (hdf5.c). The solver (solver.c) knows nothing of files, and main.c has the options and the loop over the steps.
//
// The program knows nothing of lzy. README.md and docs/guide protect its checkpoints from outside, with lzy-run, and
// damage them on purpose. The checksum that it prints at the end shows whether a restart gave the same field.
//
// Terms: the cube is the whole field. The block is the part of it that one rank has. The halo is the layer of cells,
// one cell wide, around a block; it holds copies of the neighbours' cells, or the temperature of a wall.

#include <inttypes.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Axes in the order of C arrays: x varies fastest. Face 2 * axis is the lower one of an axis, the next one the upper.
enum { X = 2, Y = 1, Z = 0, AXES = 3, FACES = 2 * AXES };

// The state of one rank. decompose() fills in everything up to block_in_cube, set_up_fields() the fields; tear_down()
// frees both.
typedef struct {
  // A Cartesian communicator of all ranks.
  MPI_Comm comm;
  int rank;
  int ranks;
  // Cells along each edge of the cube.
  int size;
  // Blocks along each axis.
  int dims[AXES];
  // The cell of the cube that the block begins with, and the cells of the block along each axis.
  int start[AXES];
  int count[AXES];
  // The rank behind each face; MPI_PROC_NULL at a wall.
  int neighbour[FACES];
  // The outermost cells of the block at each face, and the halo beyond them.
  MPI_Datatype send_face[FACES];
  MPI_Datatype receive_face[FACES];
  // The block without its halo, and its place in the cube.
  MPI_Datatype block_in_memory;
  MPI_Datatype block_in_cube;
  // The temperature at this step and the next one, both with a halo; advance() swaps them.
  double* now;
  double* next;
  // The source, without a halo.
  double* source;
  int step;
} Solver;

// The solver. decompose() lays the cube out over the ranks and returns false, for all ranks alike, if it has too few
// cells for them.
bool decompose(Solver* s, int size);
// Makes the fields as they are at step 0. Needs no communication: every cell depends on its place alone.
void set_up_fields(Solver* s);
void tear_down(Solver* s);
// Gets the halo of `now` from the neighbours. Collective, as advance() and checksum() are.
void exchange_halo(Solver* s);
// next = keep * now + scale * dT/dt. The halo must be up to date.
void apply_stencil(Solver* s, double keep, double scale);
// One step of time.
void advance(Solver* s);
// The simulated time at a step.
double time_of(int step);
// The cells of this rank's block.
size_t cells(const Solver* s);
// The bytes of the whole field, without any header.
int64_t cube_bytes(const Solver* s);
// The sum of one hash per cell, which does not depend on who sums in what order.
uint64_t checksum(const Solver* s);

// Checkpoints. All ranks call these; what is read must be of this cube, and its step is returned. `with_header`: a
// checkpoint, not just the raw field.
void write_per_rank(const Solver* s, const char* path);
int read_per_rank(Solver* s, const char* path);
void write_shared(const Solver* s, const char* path, bool with_header);
int read_shared(Solver* s, const char* path);
void write_hdf5(Solver* s, const char* path);
int read_hdf5(Solver* s, const char* path);

// Failures end the whole job.
__attribute__((format(printf, 1, 2))) _Noreturn void fail(const char* format, ...);
// A code of MPI for a call on `path`.
void check(int code, const char* call, const char* path);
// A transfer that moved fewer elements than it was asked for is an error even if the call says success.
void check_moved(const MPI_Status* status, MPI_Datatype type, int64_t expected, const char* call, const char* path);
// Zeroed memory; never NULL.
void* allocate(size_t count, size_t bytes);
