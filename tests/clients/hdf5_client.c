// hdf5_client: parallel HDF5. A dataset "field" of ROWS rows, dealt to the ranks in blocks of rows of each step, in
// the layout and by the kind of transfer that the mode names, and flushed in the middle. --again opens the file, writes
// some rows over (extend: adds steps) and makes a second dataset.
#include <hdf5.h>

#include "client.h"

enum { COLUMNS = 250, STEP_ROWS = 240, STEPS = 4, STEPS_AGAIN = 2, CHUNK_ROWS = 32, CHUNK_COLUMNS = 64 };
enum { FIELD = 1, UPDATE = 2, SECOND = 3, UPDATED_STEP = 1 };

static const char* const kModes[] = {"contiguous_collective", "contiguous_independent", "chunked_collective",
                                     "chunked_independent", "deflate", "extend", NULL};

static hid_t checked(hid_t id, const char* call) {
  if (id < 0) fail("%s", call);
  return id;
}
#define H(call) checked((hid_t)(call), #call)

static hid_t access_list(void) {
  const hid_t list = H(H5Pcreate(H5P_FILE_ACCESS));
  H(H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL));
  return list;
}

static hid_t transfer_list(void) {
  const hid_t list = H(H5Pcreate(H5P_DATASET_XFER));
  const bool independent = strstr(client.mode, "independent") != NULL;
  H(H5Pset_dxpl_mpio(list, independent ? H5FD_MPIO_INDEPENDENT : H5FD_MPIO_COLLECTIVE));
  return list;
}

static hid_t make_dataset(hid_t file, const char* name, hsize_t rows) {
  const bool extend = mode_is("extend");
  const hsize_t size[] = {rows, COLUMNS};
  const hsize_t most[] = {extend ? H5S_UNLIMITED : rows, COLUMNS};
  const hsize_t chunk[] = {CHUNK_ROWS, CHUNK_COLUMNS};
  const hid_t space = H(H5Screate_simple(2, size, most));
  const hid_t list = H(H5Pcreate(H5P_DATASET_CREATE));
  H(H5Pset_obj_track_times(list, false));  // or files of two runs are never the same
  if (extend || strstr(client.mode, "chunked") || mode_is("deflate")) H(H5Pset_chunk(list, 2, chunk));
  if (mode_is("deflate")) H(H5Pset_deflate(list, 1));
  const hid_t set = H(H5Dcreate2(file, name, H5T_STD_I32LE, space, H5P_DEFAULT, list, H5P_DEFAULT));
  H(H5Pclose(list));
  H(H5Sclose(space));
  return set;
}

/// Writes (or reads and compares) this rank's share of the rows of one step.
static void step(hid_t set, int number, int seed) {
  const hsize_t first = (hsize_t)(STEP_ROWS * client.rank / client.ranks);
  const hsize_t last = (hsize_t)(STEP_ROWS * (client.rank + 1) / client.ranks);
  const hsize_t start_at[] = {(hsize_t)number * STEP_ROWS + first, 0};
  const hsize_t count[] = {last - first, COLUMNS};
  const int64_t place = (int64_t)start_at[0] * COLUMNS;
  const int64_t many = (int64_t)(count[0] * count[1]);
  const hid_t there = H(H5Dget_space(set));
  const hid_t here = H(H5Screate_simple(2, count, NULL));
  const hid_t transfer = transfer_list();
  H(H5Sselect_hyperslab(there, H5S_SELECT_SET, start_at, NULL, count, NULL));
  int32_t* data = values(seed, place, many);
  if (client.check) {
    memset(data, 0, (size_t)many * sizeof *data);
    H(H5Dread(set, H5T_NATIVE_INT32, here, there, transfer, data));
    expect_values("field", data, seed, place, many);
  } else {
    H(H5Dwrite(set, H5T_NATIVE_INT32, here, there, transfer, data));
  }
  free(data);
  H(H5Pclose(transfer));
  H(H5Sclose(here));
  H(H5Sclose(there));
}

static void extend(hid_t set, int steps) {
  const hsize_t size[] = {(hsize_t)steps * STEP_ROWS, COLUMNS};
  if (mode_is("extend")) H(H5Dset_extent(set, size));
}

static void first_run(void) {
  const hid_t list = access_list();
  const hid_t file = H(H5Fcreate(client.file, H5F_ACC_TRUNC, H5P_DEFAULT, list));
  const hid_t set = make_dataset(file, "field", mode_is("extend") ? STEP_ROWS : STEPS * STEP_ROWS);
  for (int i = 0; i < STEPS; ++i) {
    extend(set, i + 1);
    step(set, i, FIELD);
    if (i == STEPS / 2) {
      H(H5Fflush(file, H5F_SCOPE_GLOBAL));
      pause_here();
    }
  }
  H(H5Dclose(set));
  H(H5Fclose(file));
  H(H5Pclose(list));
}

static void second_run(void) {
  const hid_t list = access_list();
  const hid_t file = H(H5Fopen(client.file, H5F_ACC_RDWR, list));
  const hid_t set = H(H5Dopen2(file, "field", H5P_DEFAULT));
  for (int i = STEPS; mode_is("extend") && i < STEPS + STEPS_AGAIN; ++i) {
    extend(set, i + 1);
    step(set, i, FIELD);
  }
  step(set, UPDATED_STEP, UPDATE);
  H(H5Fflush(file, H5F_SCOPE_GLOBAL));
  pause_here();
  const hid_t second = make_dataset(file, "second", STEP_ROWS);
  step(second, 0, SECOND);
  H(H5Dclose(second));
  H(H5Dclose(set));
  H(H5Fclose(file));
  H(H5Pclose(list));
}

static void check(void) {
  const hid_t list = access_list();
  const hid_t file = H(H5Fopen(client.file, H5F_ACC_RDONLY, list));
  const hid_t set = H(H5Dopen2(file, "field", H5P_DEFAULT));
  const int steps = STEPS + (client.again && mode_is("extend") ? STEPS_AGAIN : 0);
  for (int i = 0; i < steps; ++i) step(set, i, client.again && i == UPDATED_STEP ? UPDATE : FIELD);
  if (client.again) {
    const hid_t second = H(H5Dopen2(file, "second", H5P_DEFAULT));
    step(second, 0, SECOND);
    H(H5Dclose(second));
  }
  H(H5Dclose(set));
  H(H5Fclose(file));
  H(H5Pclose(list));
}

int main(int argc, char** argv) {
  return run_client(argc, argv, kModes, first_run, second_run, check);
}
