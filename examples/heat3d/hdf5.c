// Checkpoints as one shared HDF5 file: the dataset /temperature (contiguous), the dataset /residual (chunked), and the
// attributes step and time. HDF5 writes through MPI-IO, so lzy sees the same calls as in mpiio.c, and metadata of HDF5
// besides.

#include "heat3d.h"

#ifdef HEAT_HAVE_HDF5

#include <hdf5.h>

// Cells along each edge of a chunk: 256 KiB.
enum { CHUNK_EDGE = 32 };

// An open file, and what every transfer of a block needs.
typedef struct {
  hid_t file;
  // Property list: transfers are collective.
  hid_t transfer;
  // The block inside its halo.
  hid_t in_memory;
  // The block inside the cube.
  hid_t in_file;
  const char* path;
} Hdf5;

// HDF5 has printed its own stack of errors, with the string of MPI's if that is the cause, before this is reached.
static hid_t check_hdf5(hid_t result, const char* call, const char* path) {
  if (result < 0) fail("%s: %s failed", path, call);
  return result;
}

// A space of `sizes` in which the box of `counts` cells from `starts` on is selected.
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

// Collective, as everything in this file. `create`: an old file of that name is emptied.
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

// `chunk`: NULL for a contiguous dataset.
static void write_dataset(const Hdf5* h, const char* name, const double* field, const hsize_t chunk[AXES]) {
  const hid_t creation = check_hdf5(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate", h->path);
  // Without times, two runs write equal files.
  check_hdf5(H5Pset_obj_track_times(creation, false), "H5Pset_obj_track_times", h->path);
  if (chunk) check_hdf5(H5Pset_chunk(creation, AXES, chunk), "H5Pset_chunk", h->path);
  const hid_t set = check_hdf5(
      H5Dcreate2(h->file, name, H5T_IEEE_F64LE, h->in_file, H5P_DEFAULT, creation, H5P_DEFAULT), "H5Dcreate2", h->path);
  check_hdf5(H5Dwrite(set, H5T_NATIVE_DOUBLE, h->in_memory, h->in_file, h->transfer, field), "H5Dwrite", h->path);
  check_hdf5(H5Dclose(set), "H5Dclose", h->path);
  check_hdf5(H5Pclose(creation), "H5Pclose", h->path);
}

// A scalar of the whole file. All ranks write the same value.
static void write_attribute(const Hdf5* h, const char* name, hid_t in_file, hid_t in_memory, const void* value) {
  const hid_t space = check_hdf5(H5Screate(H5S_SCALAR), "H5Screate", h->path);
  const hid_t attribute =
      check_hdf5(H5Acreate2(h->file, name, in_file, space, H5P_DEFAULT, H5P_DEFAULT), "H5Acreate2", h->path);
  check_hdf5(H5Awrite(attribute, in_memory, value), "H5Awrite", h->path);
  check_hdf5(H5Aclose(attribute), "H5Aclose", h->path);
  check_hdf5(H5Sclose(space), "H5Sclose", h->path);
}

// The residual doubles the data, and its chunks give lzy another layout to cope with than the contiguous field.
void write_hdf5(Solver* s, const char* path) {
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

// Only the temperature is read: the rest follows from it.
int read_hdf5(Solver* s, const char* path) {
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

// main.c refuses --hdf5 in such a build, so these are never called.
void write_hdf5(Solver* s, const char* path) {
  fail("%s: step %d: no parallel HDF5", path, s->step);
}
int read_hdf5(Solver* s, const char* path) {
  fail("%s: step %d: no parallel HDF5", path, s->step);
}

#endif
