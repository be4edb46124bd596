// A checkpoint of one file for each rank by serial HDF5: the driver is argument 1 (sec2, stdio, core, split, family), the name of the
// file without the rank argument 2, the seed argument 3.
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kCount = 20000 };

int main(int argc, char** argv) {
  int rank = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc != 4) return 2;
  char name[4096];
  snprintf(name, sizeof name, "%s.%d", argv[2], rank);
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  if (strcmp(argv[1], "stdio") == 0) H5Pset_fapl_stdio(access);
  if (strcmp(argv[1], "core") == 0) H5Pset_fapl_core(access, 1 << 16, 1);
  if (strcmp(argv[1], "split") == 0) H5Pset_fapl_split(access, "-meta", H5P_DEFAULT, "-raw", H5P_DEFAULT);
  if (strcmp(argv[1], "family") == 0) {
    H5Pset_fapl_family(access, 1 << 16, H5P_DEFAULT);
    snprintf(name, sizeof name, "%s.%%d.%d", argv[2], rank);
  }
  int* values = malloc(kCount * sizeof *values);
  for (int i = 0; i < kCount; ++i) values[i] = atoi(argv[3]) + rank * 7 + i * i;
  const hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access);
  const hsize_t count = kCount;
  const hid_t space = H5Screate_simple(1, &count, NULL);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_obj_track_times(creation, 0);  // two runs make the same file
  const hid_t data = H5Dcreate2(file, "values", H5T_NATIVE_INT, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  const int failed = file < 0 || data < 0 || H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0;
  H5Dclose(data);
  H5Sclose(space);
  H5Fclose(file);
  H5Pclose(creation);
  H5Pclose(access);
  free(values);
  MPI_Finalize();
  return failed;
}
