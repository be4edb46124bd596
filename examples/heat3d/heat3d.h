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

#include <inttypes.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { X = 2, Y = 1, Z = 0, AXES = 3, FACES = 2 * AXES };

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

// The solver. decompose() lays the cube out over the ranks and returns false, for all ranks alike, if it has too few
// cells for them.
bool decompose(Solver* s, int size);
void set_up_fields(Solver* s);
void tear_down(Solver* s);
void exchange_halo(Solver* s);
// next = keep * now + scale * dT/dt. The halo must be up to date.
void apply_stencil(Solver* s, double keep, double scale);
void advance(Solver* s);
double time_of(int step);
size_t cells(const Solver* s);
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
void* allocate(size_t count, size_t bytes);
