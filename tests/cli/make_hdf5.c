/* make_hdf5 FILE earliest|latest|userblock|paged|unclosed: a file with datasets of every layout, groups and attributes of every storage.
 *
 * Every element of a dataset is a number that is nowhere else in the file: MARK, the number of the dataset, the number of the
 * element. So a test finds where an element is without asking HDF5. Prints a JSON document: {"datasets": {PATH: {"number",
 * "shape", "chunk", "filtered": [[address, size, index of the chunk...], ...]}}, "attributes": {PATH: value}}. Only where chunks
 * are compressed is by HDF5's own word. */
#include <hdf5.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK UINT64_C(0xA5C3) /* the highest two bytes; then the dataset's two; then the element's four */

static void check(hid_t result, const char* what) {
  if (result < 0) {
    fprintf(stderr, "make_hdf5: %s failed\n", what);
    exit(1);
  }
}
#define CHECK(call) check((hid_t)(call), #call)

static hid_t file;

static void print_name(const char* name) {
  putchar('"');
  for (; *name; ++name) printf((unsigned char)*name < 32 ? "\\u%04x" : "%c", *name);
  putchar('"');
}
static unsigned datasets = 0;

enum { GZIP = 1, EARLY = 2, COMPACT = 4, DENSE = 8 };

static void print_chunks(hid_t dataset, int rank, const hsize_t* chunk) {
  hsize_t count = 0;
  hid_t space = H5Dget_space(dataset);
  CHECK(H5Dget_num_chunks(dataset, space, &count));
  printf(", \"filtered\": [");
  for (hsize_t i = 0; i < count; ++i) {
    hsize_t offset[8], size;
    unsigned mask;
    haddr_t address;
    CHECK(H5Dget_chunk_info(dataset, space, i, offset, &mask, &address, &size));
    printf("%s[%llu, %llu", i ? ", " : "", (unsigned long long)address, (unsigned long long)size);
    for (int d = 0; d < rank; ++d) printf(", %llu", (unsigned long long)(offset[d] / chunk[d]));
    printf("]");
  }
  printf("]");
  H5Sclose(space);
}

static void print_list(const char* name, int rank, const hsize_t* list) {
  printf(", \"%s\": [", name);
  for (int d = 0; d < rank; ++d) printf("%s%llu", d ? ", " : "", (unsigned long long)list[d]);
  printf("]");
}

/* Writes `rows` of the first dimension, 0: all. */
static void dataset(const char* path, int rank, const hsize_t* shape, const hsize_t* most, const hsize_t* chunk, int how, hsize_t rows) {
  const unsigned number = ++datasets;
  hid_t space = rank ? H5Screate_simple(rank, shape, most) : H5Screate(H5S_SCALAR);
  hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
  if (chunk) CHECK(H5Pset_chunk(plist, rank, chunk));
  if (how & GZIP) CHECK(H5Pset_deflate(plist, 1));
  if (how & EARLY) CHECK(H5Pset_alloc_time(plist, H5D_ALLOC_TIME_EARLY));
  if (how & COMPACT) CHECK(H5Pset_layout(plist, H5D_COMPACT));
  CHECK(H5Pset_fill_time(plist, H5D_FILL_TIME_NEVER));
  hid_t id = H5Dcreate2(file, path, H5T_STD_U64BE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
  check(id, path);
  size_t count = 1;
  for (int d = 0; d < rank; ++d) count *= shape[d];
  if (rows) count = count / shape[0] * rows;
  uint64_t* data = malloc(count * sizeof *data);
  for (size_t i = 0; i < count; ++i) data[i] = MARK << 48 | (uint64_t)number << 32 | i;
  hid_t memory = H5S_ALL, part = H5S_ALL;
  hsize_t some[8], start[8] = {0};
  if (rows) {
    memcpy(some, shape, (size_t)rank * sizeof *some);
    some[0] = rows;
    part = H5Dget_space(id);
    CHECK(H5Sselect_hyperslab(part, H5S_SELECT_SET, start, NULL, some, NULL));
    memory = H5Screate_simple(rank, some, NULL);
  }
  CHECK(H5Dwrite(id, H5T_NATIVE_UINT64, memory, part, H5P_DEFAULT, data));
  free(data);
  CHECK(H5Fflush(file, H5F_SCOPE_LOCAL));
  printf("%s", number > 1 ? ",\n" : "");
  print_name(path);
  printf(": {\"number\": %u", number);
  print_list("shape", rank, shape);
  if (chunk) print_list("chunk", rank, chunk);
  if (how & GZIP) print_chunks(id, rank, chunk);
  printf("}");
  H5Dclose(id);
  H5Pclose(plist);
  H5Sclose(space);
}

static unsigned attributes = 0;

/* An attribute whose value is nowhere else. */
static void attribute(hid_t object, const char* path, const char* name) {
  char value[80];
  snprintf(value, sizeof value, "ATTRIBUTE-%03u-%s-", ++attributes, name);
  hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
  CHECK(H5Tset_size(type, sizeof value));
  hid_t id = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  CHECK(id);
  CHECK(H5Awrite(id, type, value));
  printf("%s\"%s\": \"%s\"", attributes > 1 ? ",\n" : "", value, path);
  H5Aclose(id);
  H5Sclose(space);
  H5Tclose(type);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  hid_t access = H5Pcreate(H5P_FILE_ACCESS), create = H5Pcreate(H5P_FILE_CREATE);
  if (strcmp(argv[2], "earliest") != 0) CHECK(H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST));
  if (strcmp(argv[2], "userblock") == 0) CHECK(H5Pset_userblock(create, 8192));
  if (strcmp(argv[2], "paged") == 0) CHECK(H5Pset_file_space_strategy(create, H5F_FSPACE_STRATEGY_PAGE, 1, 1));
  file = H5Fcreate(argv[1], H5F_ACC_TRUNC, create, access);
  check(file, argv[1]);
  H5Gclose(H5Gcreate2(file, "/fields", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Gclose(H5Gcreate2(file, "/fields/deep", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  printf("{\"datasets\": {");
  const hsize_t matrix[] = {150, 70}, line[] = {3000}, cube[] = {20, 15, 40}, small[] = {12, 5};
  const hsize_t tile[] = {40, 32}, stick[] = {4, 15, 7}, whole[] = {150, 70}, rows[] = {10, 70};
  const hsize_t one[] = {H5S_UNLIMITED, 70}, both[] = {H5S_UNLIMITED, H5S_UNLIMITED};
  const hsize_t vast[] = {1000000000, 1000000000}, patch[] = {32, 16};
  dataset("/scalar", 0, NULL, NULL, NULL, 0, 0);
  dataset("/fields/contiguous", 2, matrix, NULL, NULL, 0, 0);
  dataset("/fields/line", 1, line, NULL, NULL, EARLY, 0);
  dataset("/fields/deep/cube", 3, cube, NULL, NULL, 0, 0);
  dataset("/fields/compact", 2, small, NULL, NULL, COMPACT, 0);
  dataset("/chunked", 2, matrix, NULL, tile, 0, 0);              /* latest: fixed array */
  dataset("/chunked-early", 2, matrix, NULL, tile, EARLY, 0);    /* latest: no index */
  dataset("/chunked-3d", 3, cube, NULL, stick, 0, 0);
  dataset("/one-chunk", 2, matrix, NULL, whole, 0, 0);           /* latest: a single one */
  dataset("/growing", 2, matrix, one, rows, 0, 0);               /* latest: extensible array */
  dataset("/growing-both", 2, matrix, both, tile, 0, 0);         /* latest: B-tree of version 2 */
  dataset("/sparse", 2, matrix, one, rows, 0, 30);               /* not all chunks are there */
  dataset("/odd \033[2J\n", 1, line, NULL, NULL, 0, 0);
  dataset("/zipped", 2, matrix, NULL, tile, GZIP, 0);
  dataset("/zipped-growing", 2, matrix, one, rows, GZIP, 0);
  dataset("/zipped-both", 2, matrix, both, tile, GZIP, 0);
  dataset("/zipped-one", 2, matrix, NULL, whole, GZIP, 0);
  {
    /* Of 10^18 elements, one chunk. */
    const unsigned number = ++datasets;
    hid_t space = H5Screate_simple(2, vast, both), plist = H5Pcreate(H5P_DATASET_CREATE);
    CHECK(H5Pset_chunk(plist, 2, patch));
    CHECK(H5Pset_fill_time(plist, H5D_FILL_TIME_NEVER));
    hid_t id = H5Dcreate2(file, "/vast", H5T_STD_U64BE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    CHECK(id);
    const hsize_t start[] = {320, 640}, count[] = {32, 16};
    uint64_t data[32 * 16];
    for (unsigned i = 0; i < 32 * 16; ++i) data[i] = MARK << 48 | (uint64_t)number << 32 | i;
    hid_t memory = H5Screate_simple(2, count, NULL);
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
    CHECK(H5Dwrite(id, H5T_NATIVE_UINT64, memory, space, H5P_DEFAULT, data));
    printf(",\n\"/vast\": {\"number\": %u, \"only\": [10, 40], \"shape\": [1000000000, 1000000000], \"chunk\": [32, 16]}", number);
    H5Dclose(id);
  }
  printf("},\n\"attributes\": {");
  {
    hid_t group = H5Gopen2(file, "/fields", H5P_DEFAULT), data = H5Dopen2(file, "/fields/contiguous", H5P_DEFAULT);
    hid_t dense = H5Dopen2(file, "/chunked", H5P_DEFAULT);
    attribute(group, "/fields", "of-group");
    attribute(data, "/fields/contiguous", "of-dataset");
    char name[32];
    for (int i = 0; i < 60; ++i) {
      snprintf(name, sizeof name, "dense-%d", i);
      attribute(dense, "/chunked", name);
    }
    H5Gclose(group);
    H5Dclose(data);
    H5Dclose(dense);
  }
  /* Groups of many links: a symbol table and local heap, or a fractal heap and B-tree. */
  hid_t many = H5Gcreate2(file, "/many", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  for (int i = 0; i < 120; ++i) {
    char name[64], path[80];
    snprintf(name, sizeof name, "group-with-a-long-name-%03d", i);
    hid_t group = H5Gcreate2(many, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(group);
    snprintf(path, sizeof path, "/many/%s", name);
    if (i % 10 == 0) attribute(group, path, "mark");
    H5Gclose(group);
  }
  /* Strings of variable length, in global heaps. */
  {
    const hsize_t count = 500;
    char* strings[500];
    for (unsigned i = 0; i < count; ++i) {
      strings[i] = malloc(64);
      snprintf(strings[i], 64, "ATTRIBUTE-HEAP-%03u-", i);
      printf(",\n\"%s\": \"/strings\"", strings[i]);
    }
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate_simple(1, &count, NULL);
    CHECK(H5Tset_size(type, H5T_VARIABLE));
    hid_t id = H5Dcreate2(file, "/strings", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, strings));
    H5Dclose(id);
  }
  printf("}}\n");
  /* More names of the same objects, a way round, and what is in other files. */
  CHECK(H5Lcreate_hard(file, "/fields", file, "/zz-again", H5P_DEFAULT, H5P_DEFAULT));
  CHECK(H5Lcreate_hard(file, "/", file, "/fields/deep/root", H5P_DEFAULT, H5P_DEFAULT));
  CHECK(H5Lcreate_soft("/nowhere", file, "/soft", H5P_DEFAULT, H5P_DEFAULT));
  CHECK(H5Lcreate_external("other.h5", "/x", file, "/external", H5P_DEFAULT, H5P_DEFAULT));
  {
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, line, NULL);
    CHECK(H5Pset_external(plist, "external.raw", 0, H5F_UNLIMITED));
    H5Dclose(H5Dcreate2(file, "/elsewhere", H5T_STD_U64BE, space, H5P_DEFAULT, plist, H5P_DEFAULT));
    if (strcmp(argv[2], "earliest") != 0) {
      hid_t virtual_plist = H5Pcreate(H5P_DATASET_CREATE);
      CHECK(H5Pset_virtual(virtual_plist, space, ".", "/fields/line", space));
      H5Dclose(H5Dcreate2(file, "/virtual", H5T_STD_U64BE, space, H5P_DEFAULT, virtual_plist, H5P_DEFAULT));
    }
    H5Dclose(H5Dcreate2(file, "/null", H5T_STD_U64BE, H5Screate(H5S_NULL), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Dclose(H5Dcreate2(file, "/never-written", H5T_STD_U64BE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    CHECK(H5Tcommit2(file, "/type", H5Tcopy(H5T_STD_U64BE), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  /* Free space. */
  {
    const hsize_t count = 40000;
    hid_t space = H5Screate_simple(1, &count, NULL);
    hid_t id = H5Dcreate2(file, "/removed", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    int* data = malloc(count * sizeof *data);
    for (unsigned i = 0; i < count; ++i) data[i] = 0x46524545; /* "EERF" */
    CHECK(H5Dwrite(id, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
    H5Dclose(id);
    id = H5Dcreate2(file, "/after", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    for (unsigned i = 0; i < count; ++i) data[i] = (int)i;
    CHECK(H5Dwrite(id, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
    H5Dclose(id);
    CHECK(H5Ldelete(file, "/removed", H5P_DEFAULT));
  }
  if (strcmp(argv[2], "unclosed") == 0) {
    /* As a program leaves it that dies: marked as open for writing. */
    CHECK(H5Fflush(file, H5F_SCOPE_GLOBAL));
    fflush(stdout);
    _exit(0);
  }
  CHECK(H5Fclose(file));
  return 0;
}
