// Makes an HDF5 file with many objects and many chunks, for bench/audits: bench_objects FILE DATASETS CHUNKS. A hundred
// datasets of four numbers in each group, and /chunked of CHUNKS chunks of 8 KiB.
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

enum { IN_GROUP = 100, EDGE = 32 };

static hid_t check(hid_t id, const char* what) {
  if (id >= 0) return id;
  fprintf(stderr, "bench_objects: %s failed\n", what);
  exit(1);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const long datasets = atol(argv[2]), chunks = atol(argv[3]);
  const hid_t file = check(H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), argv[1]);
  const hsize_t few[] = {4};
  const hid_t small = check(H5Screate_simple(1, few, NULL), "H5Screate_simple");
  hid_t group = -1;
  for (long i = 0; i < datasets; ++i) {
    char name[32];
    if (i % IN_GROUP == 0) {
      if (group >= 0) H5Gclose(group);
      snprintf(name, sizeof name, "/g%ld", i / IN_GROUP);
      group = check(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), name);
    }
    const double numbers[] = {(double)i, 1, 2, 3};
    snprintf(name, sizeof name, "d%ld", i);
    const hid_t set = check(H5Dcreate2(group, name, H5T_NATIVE_DOUBLE, small, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), name);
    check(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers), "H5Dwrite");
    H5Dclose(set);
  }
  if (group >= 0) H5Gclose(group);

  const hsize_t all[] = {(hsize_t)chunks * EDGE, EDGE}, one[] = {EDGE, EDGE};
  const hid_t space = check(H5Screate_simple(2, all, NULL), "H5Screate_simple");
  const hid_t plist = check(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
  check(H5Pset_chunk(plist, 2, one), "H5Pset_chunk");
  const hid_t set = check(H5Dcreate2(file, "/chunked", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, plist, H5P_DEFAULT), "H5Dcreate2");
  double* numbers = malloc(sizeof(double) * EDGE * EDGE * (size_t)chunks);
  if (numbers == NULL) check(-1, "malloc");
  for (long i = 0; i < chunks * EDGE * EDGE; ++i) numbers[i] = (double)i;
  check(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers), "H5Dwrite");
  free(numbers);
  H5Dclose(set);
  H5Pclose(plist);
  H5Sclose(space);
  H5Sclose(small);
  return H5Fclose(file) < 0;
}
