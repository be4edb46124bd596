/*
 * The C API as a C program uses it: a shared file and a file set are protected, damaged, verified, repaired and
 * restored.
 *
 *   capi_test [--no-mpi] DIRECTORY
 *
 * Runs on any number of ranks; with --no-mpi without MPI_Init, on MPI_COMM_NULL. Rank 0 makes files and damage.
 * DIRECTORY is made; it must not exist.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lzy/lzy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MEMBERS = 4, BLOCK = 4096 };

static MPI_Comm comm = MPI_COMM_NULL;
static int rank = 0;
static char directory[4000];

#define CHECK(condition)                                                                                        \
  do {                                                                                                          \
    if (!(condition)) {                                                                                         \
      fprintf(stderr, "%s:%d: rank %d: not so: %s (%s)\n", __FILE__, __LINE__, rank, #condition, last_words()); \
      if (comm != MPI_COMM_NULL) MPI_Abort(MPI_COMM_WORLD, 1);                                                  \
      exit(1);                                                                                                  \
    }                                                                                                           \
  } while (0)

/* The last operation, for messages: what it said. */
static lzy_report* report = NULL;

static const char* last_words(void) {
  static char text[5000];
  const lzy_dataset* first = lzy_report_dataset(report, 0);
  snprintf(text, sizeof text, "code %d; %s; %s", lzy_report_code(report), lzy_report_message(report),
           first == NULL ? "no dataset" : first->message);
  return text;
}

typedef int operation(MPI_Comm, const char*, const lzy_options*, lzy_report**);

static int run(operation* what, const char* path, const lzy_options* options) {
  lzy_report_free(report);
  report = NULL;
  if (comm != MPI_COMM_NULL) MPI_Barrier(comm); /* what rank 0 did to the files is done */
  const int code = what(comm, path, options, &report);
  CHECK(report != NULL);
  CHECK(lzy_report_code(report) == code);
  if (comm != MPI_COMM_NULL) MPI_Barrier(comm);
  return code;
}

/* Valid until the end; there are not many. */
static const char* in_directory(const char* name) {
  const size_t size = strlen(directory) + strlen(name) + 2;
  char* path = malloc(size);
  CHECK(path != NULL);
  snprintf(path, size, "%s/%s", directory, name);
  return path;
}

static unsigned char content(unsigned seed, size_t i) {
  return (unsigned char)((i * 2654435761u + seed * 40503u) >> 13);
}

static void make_file(const char* path, size_t size, unsigned seed) {
  if (rank != 0) return;
  unsigned char* bytes = malloc(size);
  CHECK(bytes != NULL);
  for (size_t i = 0; i < size; ++i) bytes[i] = content(seed, i);
  FILE* file = fopen(path, "wb");
  CHECK(file != NULL);
  CHECK(fwrite(bytes, 1, size, file) == size);
  CHECK(fclose(file) == 0);
  free(bytes);
  /* Well before now, so that no commit stamp is racy. */
  const struct timespec times[2] = {{1700000000, 0}, {1700000000, 0}};
  CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
}

static void check_file(const char* path, size_t size, unsigned seed) {
  if (rank != 0) return;
  FILE* file = fopen(path, "rb");
  CHECK(file != NULL);
  for (size_t i = 0; i < size; ++i) CHECK(fgetc(file) == content(seed, i));
  CHECK(fgetc(file) == EOF);
  fclose(file);
  struct stat after;
  CHECK(stat(path, &after) == 0);
  CHECK(after.st_mtim.tv_sec == 1700000000 && after.st_mtim.tv_nsec == 0);
}

/* Rot: a byte changes, the times do not. */
static void flip(const char* path, off_t offset) {
  if (rank != 0) return;
  struct stat before;
  unsigned char byte;
  const int file = open(path, O_RDWR);
  CHECK(file >= 0 && fstat(file, &before) == 0);
  CHECK(pread(file, &byte, 1, offset) == 1);
  byte ^= 0x40;
  CHECK(pwrite(file, &byte, 1, offset) == 1);
  const struct timespec times[2] = {before.st_atim, before.st_mtim};
  CHECK(futimens(file, times) == 0);
  close(file);
}

static void lose(const char* path) {
  if (rank == 0) CHECK(unlink(path) == 0);
}

static void check_one_damaged_block(const char* path, uint32_t device, uint64_t offset, int repaired) {
  const lzy_dataset* dataset = lzy_report_dataset(report, 0);
  CHECK(dataset->damage_count == 1);
  const lzy_damage* damage = lzy_report_damage(report, 0, 0);
  CHECK(strcmp(damage->path, path) == 0);
  CHECK(damage->device == device);
  CHECK(damage->part == LZY_PART_DATA && damage->cause == LZY_CAUSE_HASH);
  CHECK(damage->offset == offset && damage->length == BLOCK);
  CHECK(damage->transient == 0 && damage->beyond_repair == 0);
  CHECK(damage->repaired == repaired);
  CHECK(damage->object_count == 0);
  CHECK(lzy_report_damage(report, 0, 1) == NULL && lzy_report_damage(report, 1, 0) == NULL);
}

static void check_dataset(lzy_kind kind, lzy_state state, uint32_t devices, uint32_t parity, uint64_t bytes) {
  CHECK(lzy_report_count(report) == 1);
  const lzy_dataset* dataset = lzy_report_dataset(report, 0);
  CHECK(dataset->kind == kind);
  CHECK(dataset->state == state);
  CHECK(dataset->devices == devices && dataset->parity == parity);
  CHECK(dataset->block_size == BLOCK && dataset->bytes == bytes);
  CHECK(strlen(dataset->root) == 32 && strspn(dataset->root, "0123456789abcdef") == 32);
  CHECK(dataset->message[0] == '\0');
}

/* Counts the calls, and keeps how far the last one was. */
struct progress {
  int calls;
  uint64_t done, total;
};
static void see(void* data, const char* phase, uint64_t done, uint64_t total) {
  struct progress* seen = data;
  CHECK(data != NULL && phase[0] != '\0' && done <= total);
  seen->calls += 1;
  seen->done = done;
  seen->total = total;
}

static void test_progress(void) {
  const char* path = in_directory("progress");
  const size_t size = 3000000;
  make_file(path, size, 3);
  CHECK(run(lzy_protect, path, NULL) == LZY_OK);
  struct progress seen = {0, 0, 0};
  lzy_options options;
  CHECK(lzy_options_init(&options, sizeof options) == LZY_OK && options.progress == NULL);
  options.progress = see;
  options.progress_data = &seen;
  CHECK(run(lzy_verify, path, &options) == LZY_OK);
  /* Of several processes, one may have nothing to read. */
  if (comm == MPI_COMM_NULL) CHECK(seen.calls > 0 && seen.done == seen.total);
}

static void test_shared(void) {
  const char* path = in_directory("shared");
  const size_t size = 1000001;
  make_file(path, size, 1);
  CHECK(run(lzy_verify, path, NULL) == LZY_UNPROTECTED);

  lzy_options options;
  CHECK(lzy_options_init(&options, sizeof options) == LZY_OK);
  options.block_size = BLOCK;
  options.group = 5;
  options.parity = 2;
  CHECK(run(lzy_protect, path, &options) == LZY_OK);
  check_dataset(LZY_KIND_SHARED, LZY_STATE_INTACT, 5, 2, size);
  const lzy_dataset* dataset = lzy_report_dataset(report, 0);
  CHECK(strcmp(dataset->path, path) == 0);
  CHECK(dataset->committed == 1 && dataset->generation == 1 &&
        dataset->commit_time_ns > 1700000000 * INT64_C(1000000000));
  CHECK(dataset->bytes_encoded == size && dataset->bytes_read >= size && dataset->sidecar_bytes > size * 2 / 3);
  CHECK(dataset->seconds_total > 0 && dataset->damage_count == 0);
  char root[33];
  strcpy(root, dataset->root);

  /* Up to date, and keeps its geometry though the options are the defaults. */
  CHECK(run(lzy_protect, path, NULL) == LZY_OK);
  check_dataset(LZY_KIND_SHARED, LZY_STATE_INTACT, 5, 2, size);
  CHECK(lzy_report_dataset(report, 0)->committed == 0);
  CHECK(run(lzy_info, path, NULL) == LZY_OK);
  check_dataset(LZY_KIND_SHARED, LZY_STATE_INTACT, 5, 2, size);
  CHECK(strcmp(lzy_report_dataset(report, 0)->root, root) == 0);
  CHECK(run(lzy_verify, path, NULL) == LZY_OK);

  flip(path, 5 * BLOCK + 17);
  CHECK(run(lzy_verify, path, NULL) == LZY_DAMAGED);
  CHECK(lzy_report_dataset(report, 0)->state == LZY_STATE_DAMAGED);
  const uint32_t device = (uint32_t)(5 * BLOCK / lzy_report_dataset(report, 0)->unit % 5);
  check_one_damaged_block(path, device, 5 * BLOCK, 0);
  CHECK(run(lzy_protect, path, NULL) == LZY_DAMAGED); /* rot is not blessed */

  /* The options reach the engine: a dry run changes nothing. */
  lzy_options_init(&options, sizeof options);
  options.dry_run = 1;
  CHECK(run(lzy_restore, path, &options) == LZY_DAMAGED);
  CHECK(run(lzy_repair, path, NULL) == LZY_OK);
  check_one_damaged_block(path, device, 5 * BLOCK, 1);
  CHECK(run(lzy_verify, path, NULL) == LZY_OK);
  check_file(path, size, 1);

  /* The whole file is more than two of five devices. */
  lose(path);
  CHECK(run(lzy_restore, path, NULL) == LZY_UNREPAIRABLE);
  CHECK(lzy_report_damage(report, 0, 0)->cause == LZY_CAUSE_MISSING);
}

static const char* member(int i) {
  char name[32];
  snprintf(name, sizeof name, "state.%04d", i);
  return in_directory(name);
}

static void test_set(void) {
  const char* pattern = in_directory("state.%04r");
  const size_t size = 300001;
  size_t bytes = 0;
  for (int i = 0; i < MEMBERS; ++i) {
    make_file(member(i), size + (size_t)i * 1000, (unsigned)i + 10);
    bytes += size + (size_t)i * 1000;
  }
  lzy_options options;
  lzy_options_init(&options, sizeof options);
  options.block_size = BLOCK;
  options.parity = 2;
  CHECK(run(lzy_protect, pattern, &options) == LZY_OK);
  check_dataset(LZY_KIND_SET, LZY_STATE_INTACT, MEMBERS, 2, bytes);
  CHECK(strcmp(lzy_report_dataset(report, 0)->path, pattern) == 0);

  const char* path = member(3);
  flip(path, 7 * BLOCK);
  CHECK(run(lzy_verify, pattern, NULL) == LZY_DAMAGED);
  check_one_damaged_block(path, 3, 7 * BLOCK, 0);
  CHECK(run(lzy_repair, path, NULL) == LZY_OK); /* a member stands for its set */
  CHECK(lzy_report_dataset(report, 0)->kind == LZY_KIND_SET);
  check_file(path, size + 3000, 13);

  lose(member(0));
  lose(member(2));
  lose(in_directory(".LZY.state.0002"));
  CHECK(run(lzy_verify, pattern, NULL) == LZY_DAMAGED);
  CHECK(run(lzy_repair, pattern, NULL) == LZY_DAMAGED); /* never creates files */
  CHECK(run(lzy_restore, pattern, NULL) == LZY_OK);
  CHECK(lzy_report_dataset(report, 0)->state == LZY_STATE_RESTORED);
  CHECK(run(lzy_verify, pattern, NULL) == LZY_OK);
  for (int i = 0; i < MEMBERS; ++i) check_file(member(i), size + (size_t)i * 1000, (unsigned)i + 10);

  /* A device named by the caller counts as lost. */
  const uint32_t devices[] = {1};
  lzy_options_init(&options, sizeof options);
  options.devices = devices;
  options.device_count = 1;
  options.dry_run = 1;
  CHECK(run(lzy_restore, pattern, &options) == LZY_DAMAGED);
  CHECK(lzy_report_damage(report, 0, 0)->device == 1);

  /* Three of four devices. */
  for (int i = 0; i < 3; ++i) {
    char sidecar[32];
    snprintf(sidecar, sizeof sidecar, ".LZY.state.%04d", i);
    lose(member(i));
    lose(in_directory(sidecar));
  }
  CHECK(run(lzy_restore, pattern, NULL) == LZY_UNREPAIRABLE);
  CHECK(lzy_report_dataset(report, 0)->state == LZY_STATE_UNREPAIRABLE);
}

static void test_directory(void) {
  const char* tree = in_directory("tree");
  if (rank == 0) CHECK(mkdir(tree, 0700) == 0);
  make_file(in_directory("tree/b"), 50000, 21);
  make_file(in_directory("tree/a"), 70000, 22);
  CHECK(run(lzy_verify, tree, NULL) == LZY_UNPROTECTED);
  CHECK(lzy_report_count(report) == 0 && strstr(lzy_report_message(report), "tree") != NULL);
  lzy_options options;
  lzy_options_init(&options, sizeof options);
  options.block_size = BLOCK;
  CHECK(run(lzy_protect, tree, &options) == LZY_OK);
  CHECK(lzy_report_count(report) == 2);
  CHECK(strcmp(lzy_report_dataset(report, 0)->path, in_directory("tree/a")) == 0);
  CHECK(strcmp(lzy_report_dataset(report, 1)->path, in_directory("tree/b")) == 0);
  flip(in_directory("tree/b"), 0);
  CHECK(run(lzy_verify, tree, NULL) == LZY_DAMAGED);
  CHECK(lzy_report_dataset(report, 0)->code == LZY_OK && lzy_report_dataset(report, 1)->code == LZY_DAMAGED);
  CHECK(lzy_report_damage(report, 0, 0) == NULL && lzy_report_damage(report, 1, 0)->offset == 0);

  /* An edit is stale, not damaged, and is committed by the next lzy_protect. */
  make_file(in_directory("tree/b"), 50000, 23);
  const struct timespec later[2] = {{1700000001, 0}, {1700000001, 0}};
  if (rank == 0) CHECK(utimensat(AT_FDCWD, in_directory("tree/b"), later, 0) == 0);
  CHECK(run(lzy_verify, tree, NULL) == LZY_STALE);
  CHECK(lzy_report_damage(report, 1, 0)->cause == LZY_CAUSE_STALE);
  CHECK(run(lzy_protect, tree, NULL) == LZY_OK);
  CHECK(lzy_report_dataset(report, 1)->warning_count == 1 && lzy_report_warning(report, 1, 0)[0] != '\0');
  CHECK(lzy_report_warning(report, 1, 1) == NULL && lzy_report_warning(report, 0, 0) == NULL);
  CHECK(run(lzy_verify, tree, NULL) == LZY_OK);
}

/* A number in the byte order of classic netCDF. */
static size_t put(unsigned char* bytes, size_t at, uint32_t number) {
  for (int i = 0; i < 4; ++i) bytes[at + (size_t)i] = (unsigned char)(number >> (24 - 8 * i));
  return at + 4;
}

/* CDF-1 with two variables of 4096 floats: "T" at byte 4096, "step" behind it. */
static void make_netcdf(const char* path) {
  enum { COUNT = 4096, SIZE = 4096 + 2 * 4 * COUNT };
  static unsigned char bytes[SIZE];
  static const char* const names[] = {"T", "step"};
  size_t at = 4;
  memcpy(bytes, "CDF\1", 4);
  at = put(bytes, put(bytes, put(bytes, at, 0), 10), 1); /* no records; one dimension */
  at = put(bytes, at, 1);
  bytes[at] = 'x';
  at = put(bytes, at + 4, COUNT) + 8; /* no attributes */
  at = put(bytes, put(bytes, at, 11), 2);
  for (uint32_t i = 0; i < 2; ++i) {
    at = put(bytes, at, (uint32_t)strlen(names[i]));
    memcpy(bytes + at, names[i], strlen(names[i]));
    at = put(bytes, put(bytes, at + 4, 1), 0) + 8;
    at = put(bytes, put(bytes, put(bytes, at, 5), 4 * COUNT), 4096 + i * 4 * COUNT);
  }
  make_file(path, SIZE, 77);
  if (rank != 0) return;
  FILE* file = fopen(path, "r+b");
  CHECK(file != NULL && fwrite(bytes, 1, 4096, file) == 4096 && fclose(file) == 0);
  const struct timespec times[2] = {{1700000000, 0}, {1700000000, 0}};
  CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
}

static void test_objects(void) {
  const char* path = in_directory("f.nc");
  make_netcdf(path);
  lzy_options options;
  lzy_options_init(&options, sizeof options);
  options.block_size = BLOCK;
  CHECK(run(lzy_protect, path, &options) == LZY_OK);
  flip(path, 4096 + 4 * 4096 + BLOCK);
  CHECK(run(lzy_verify, path, NULL) == LZY_DAMAGED && lzy_report_dataset(report, 0)->warning_count == 0);
  const lzy_damage* damage = lzy_report_damage(report, 0, 0);
  CHECK(damage->object_count == 1 && strcmp(damage->objects[0], "/step") == 0 && damage->objects_left_off == 0);
  CHECK(strcmp(damage->object_texts[0], "/step (raw data, elements [1024] to [2047])") == 0);
  options.no_objects = 1;
  CHECK(run(lzy_verify, path, &options) == LZY_DAMAGED && lzy_report_damage(report, 0, 0)->object_count == 0);
  CHECK(run(lzy_repair, path, NULL) == LZY_OK);
  damage = lzy_report_damage(report, 0, 0);
  CHECK(damage->repaired && damage->object_count == 1 && strcmp(damage->objects[0], "/step") == 0);
}

static int copy_file(const char* from, const char* to, const lzy_copy_options* options, lzy_copied* copied) {
  lzy_report_free(report);
  report = NULL;
  if (comm != MPI_COMM_NULL) MPI_Barrier(comm);
  const int code = lzy_copy(comm, from, to, NULL, options, copied, &report);
  CHECK(report != NULL);
  CHECK(lzy_report_code(report) == code);
  CHECK(lzy_report_count(report) == 0);
  if (comm != MPI_COMM_NULL) MPI_Barrier(comm);
  return code;
}

static int diff_files(const char* a, const char* b, int deep) {
  lzy_report_free(report);
  report = NULL;
  if (comm != MPI_COMM_NULL) MPI_Barrier(comm);
  const int code = lzy_diff(comm, a, b, deep, NULL, &report);
  CHECK(report != NULL && lzy_report_code(report) == code && lzy_report_count(report) == 0);
  return code;
}

/* Counts bytes, and stops after `limit` of them. */
struct progress_seen {
  uint64_t done, total, limit;
};
static int note_progress(void* data, uint64_t done, uint64_t total) {
  struct progress_seen* seen = data;
  seen->done = done;
  seen->total = total;
  return done > seen->limit;
}

static void test_copy(void) {
  const size_t size = 3000001;
  const char* from = in_directory("copy/from");
  const char* to = in_directory("copy/to");
  if (rank == 0) CHECK(mkdir(in_directory("copy"), 0700) == 0 && mkdir(from, 0700) == 0);
  make_file(in_directory("copy/from/a"), size, 31);
  make_file(in_directory("copy/from/b"), 1000, 32);
  lzy_options options;
  lzy_options_init(&options, sizeof options);
  options.block_size = BLOCK;
  CHECK(run(lzy_protect, from, &options) == LZY_OK);
  flip(in_directory("copy/from/a"), 100000);

  lzy_copy_options copy;
  lzy_copied copied;
  CHECK(lzy_copied_init(NULL, sizeof copied) == LZY_USAGE && lzy_copied_init(&copied, 56) == LZY_USAGE);
  memset(&copied, 0, sizeof copied);
  CHECK(copy_file(from, to, NULL, &copied) == LZY_USAGE && strstr(lzy_report_message(report), "lzy_copied_init") != NULL);
  CHECK(copied.size == 0 && access(to, F_OK) != 0);
  CHECK(lzy_copied_init(&copied, sizeof copied) == LZY_OK);
  CHECK(lzy_copy_options_init(NULL, sizeof copy) == LZY_USAGE);
  CHECK(lzy_copy_options_init(&copy, 3) == LZY_USAGE);
  CHECK(lzy_copy_options_init(&copy, sizeof copy) == LZY_OK);
  struct progress_seen seen = {0, 0, UINT64_MAX};
  copy.progress = note_progress;
  copy.progress_data = &seen;
  CHECK(copy_file(from, to, &copy, &copied) == LZY_OK);
  CHECK(copied.files == 2 && copied.failed == 0 && copied.already == 0);
  CHECK(copied.bytes == size + 1000 && copied.healed_bytes == BLOCK && copied.lost_bytes == 0);
  CHECK(rank > 1 || (seen.total == size + 1000 && seen.done <= seen.total)); /* two files, two ranks */
  check_file(in_directory("copy/to/a"), size, 31);
  CHECK(run(lzy_verify, to, NULL) == LZY_OK && lzy_report_count(report) == 2);

  /* Once more: an error, or nothing to do. */
  CHECK(copy_file(from, to, NULL, NULL) == LZY_USAGE && strstr(lzy_report_message(report), "exists") != NULL);
  copy.resume = 1;
  CHECK(copy_file(from, to, &copy, &copied) == LZY_OK);
  CHECK(copied.files == 0 && copied.already == 2);

  /* The same was committed; the data differ where the source is damaged. */
  CHECK(diff_files(from, to, 0) == LZY_OK && lzy_report_difference_count(report) == 0 && lzy_report_same(report) == 2);
  CHECK(diff_files(from, to, 1) == LZY_DAMAGED && lzy_report_same(report) == 1);
  CHECK(lzy_report_difference_count(report) == 1 && lzy_report_difference(report, 1) == NULL);
  const lzy_difference* difference = lzy_report_difference(report, 0);
  CHECK(difference->verdict == LZY_VERDICT_DIFFERENT && difference->code == LZY_DAMAGED && difference->ranges_known);
  CHECK(strcmp(difference->name, "a") == 0 && difference->bytes_a == size && difference->message[0] == '\0');
  CHECK(difference->range_count == 1 && difference->ranges[0].offset == 100000 && difference->ranges[0].length == 1);
  CHECK(diff_files(from, in_directory("copy/none"), 0) == LZY_USAGE && diff_files(from, NULL, 0) == LZY_USAGE);
  CHECK(lzy_report_difference(NULL, 0) == NULL && lzy_report_difference_count(NULL) == 0 && lzy_report_same(NULL) == 0);

  /* A program of a later version: what this one does not know stays 0. */
  union {
    lzy_copied copied;
    unsigned char bytes[sizeof(lzy_copied) + 16];
  } later;
  CHECK(lzy_copied_init(&later.copied, sizeof later) == LZY_OK);
  CHECK(copy_file(from, to, &copy, &later.copied) == LZY_OK && later.copied.already == 2 && later.copied.size == sizeof later);
  for (size_t i = sizeof(lzy_copied); i < sizeof later; ++i) CHECK(later.bytes[i] == 0);

  /* One file; the program ends it; bad arguments. */
  CHECK(copy_file(in_directory("copy/from/b"), in_directory("copy/c"), NULL, &copied) == LZY_OK && copied.files == 1);
  seen.limit = 0;
  CHECK(copy_file(in_directory("copy/from/a"), in_directory("copy/d"), &copy, &copied) == LZY_IO);
  CHECK(access(in_directory("copy/d"), F_OK) != 0);
  copy.verify = (lzy_verify_copy)7;
  CHECK(copy_file(from, to, &copy, &copied) == LZY_USAGE && strstr(lzy_report_message(report), "verify") != NULL);
  CHECK(copy_file(from, NULL, NULL, &copied) == LZY_USAGE);
  CHECK(copied.files == 0);
  CHECK(copy_file(in_directory("copy/none"), to, NULL, NULL) == LZY_USAGE);
}

/* Those of whoever runs the test. */
static void forget_environment(void) {
  extern char** environ;
  for (char** entry = environ; *entry != NULL;) {
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
    if (strncmp(name, "LZY_", 4) != 0 || unsetenv(name) != 0) {
      ++entry;
    } else {
      entry = environ;
    }
  }
}

static void test_options(void) {
  forget_environment();
  lzy_options options;
  CHECK(lzy_options_init(NULL, sizeof options) == LZY_USAGE);
  CHECK(lzy_options_init(&options, 8) == LZY_USAGE);
  CHECK(lzy_options_init(&options, sizeof options) == LZY_OK);

  make_file(in_directory("plain"), 10000, 31);
  const char* path = in_directory("plain");
  options.parity = 8;
  CHECK(run(lzy_protect, path, &options) == LZY_USAGE);
  CHECK(strstr(lzy_report_message(report), "parity: '8'") != NULL);
  options.parity = -1;
  options.exchange = "tree";
  CHECK(run(lzy_protect, path, &options) == LZY_USAGE);
  CHECK(strstr(lzy_report_message(report), "exchange: 'tree'") != NULL);
  options.exchange = "mpi";
  CHECK(run(lzy_protect, path, &options) == LZY_OK);
  options.exchange = NULL;
  options.block_size = 5000;
  CHECK(run(lzy_protect, path, &options) == LZY_USAGE);
  CHECK(strstr(lzy_report_message(report), "block_size: '5000'") != NULL);
  memset(&options, 0, sizeof options);
  CHECK(run(lzy_protect, path, &options) == LZY_USAGE);
  CHECK(strstr(lzy_report_message(report), "lzy_options_init") != NULL);
  lzy_options_init(&options, sizeof options);
  options.device_count = 1;
  CHECK(run(lzy_restore, path, &options) == LZY_USAGE);
  CHECK(run(lzy_protect, NULL, NULL) == LZY_USAGE);
  CHECK(run(lzy_protect, in_directory("not there"), NULL) == LZY_USAGE);

  /* A program of a later version, whose structure is larger. */
  union {
    lzy_options options;
    unsigned char bytes[sizeof(lzy_options) + 16];
  } later;
  CHECK(lzy_options_init(&later.options, sizeof later) == LZY_OK);
  CHECK(run(lzy_protect, path, &later.options) == LZY_OK);
  later.bytes[sizeof later - 1] = 1;
  CHECK(run(lzy_protect, path, &later.options) == LZY_USAGE);

  /* The environment counts only when asked for, and less than a field. */
  setenv("LZY_PARITY", "3", 1);
  CHECK(run(lzy_protect, path, NULL) == LZY_OK);
  CHECK(lzy_report_dataset(report, 0)->parity == 1);
  lzy_options_init(&options, sizeof options);
  options.use_environment = 1;
  CHECK(run(lzy_protect, path, &options) == LZY_OK);
  CHECK(lzy_report_dataset(report, 0)->parity == 3);
  options.parity = 2;
  CHECK(run(lzy_protect, path, &options) == LZY_OK);
  CHECK(lzy_report_dataset(report, 0)->parity == 2);
  setenv("LZY_PARITY", "many", 1);
  options.parity = -1;
  CHECK(run(lzy_protect, path, &options) == LZY_USAGE);
  CHECK(strstr(lzy_report_message(report), "LZY_PARITY: 'many'") != NULL);
  unsetenv("LZY_PARITY");

  /* A report is not obligatory. */
  CHECK(lzy_verify(comm, path, NULL, NULL) == LZY_OK);
}

static void test_arguments_that_differ(void) {
  int size;
  MPI_Comm_size(comm, &size);
  if (size == 1) return;
  CHECK(run(lzy_verify, rank == 0 ? in_directory("plain") : in_directory("tree"), NULL) == LZY_USAGE);
  CHECK(run(rank == 0 ? lzy_verify : lzy_info, in_directory("plain"), NULL) == LZY_USAGE);
  CHECK(run(lzy_verify, rank == 0 ? in_directory("plain") : NULL, NULL) == LZY_USAGE);
}

static void test_names(void) {
  for (int code = LZY_OK; code <= LZY_STALE; ++code) CHECK(strcmp(lzy_strerror(code), "unknown code") != 0);
  CHECK(strcmp(lzy_strerror(10), "unknown code") == 0 && strcmp(lzy_strerror(-1), "unknown code") == 0);
  CHECK(strcmp(lzy_state_name(LZY_STATE_AT_RISK), "at-risk") == 0 && strcmp(lzy_state_name(7), "unknown") == 0);
  CHECK(strcmp(lzy_part_name(LZY_PART_METADATA), "metadata") == 0 && strcmp(lzy_part_name(3), "unknown") == 0);
  CHECK(strcmp(lzy_cause_name(LZY_CAUSE_ENCODING), "encoding") == 0);
  CHECK(strcmp(lzy_cause_name(LZY_CAUSE_UNREADABLE), "unreadable") == 0 && strcmp(lzy_cause_name(7), "unknown") == 0);
  CHECK(strcmp(lzy_cause_name(LZY_CAUSE_NOT_VISIBLE), "not-visible") == 0);
  CHECK(lzy_version()[0] >= '0' && lzy_version()[0] <= '9');
  CHECK(lzy_report_code(NULL) == LZY_NO_MEMORY && lzy_report_count(NULL) == 0);
  CHECK(lzy_report_dataset(NULL, 0) == NULL && lzy_report_message(NULL)[0] == '\0');
  lzy_report_free(NULL);
}

/* Before MPI_Init a communicator is refused, not followed. */
static void test_without_mpi(void) {
  lzy_report* refused = NULL;
  CHECK(lzy_verify(MPI_COMM_SELF, ".", NULL, &refused) == LZY_USAGE);
  CHECK(strstr(lzy_report_message(refused), "not initialised") != NULL);
  lzy_report_free(refused);
}

int main(int argc, char** argv) {
  const int with_mpi = argc < 2 || strcmp(argv[1], "--no-mpi") != 0;
  if (argc != (with_mpi ? 2 : 3)) {
    fprintf(stderr, "usage: capi_test [--no-mpi] DIRECTORY\n");
    return 2;
  }
  snprintf(directory, sizeof directory, "%s", argv[argc - 1]);
  test_without_mpi();
  if (with_mpi) {
    MPI_Init(&argc, &argv);
    comm = MPI_COMM_WORLD;
    MPI_Comm_rank(comm, &rank);
  }
  if (rank == 0) CHECK(mkdir(directory, 0700) == 0);
  test_names();
  test_shared();
  test_progress();
  test_set();
  test_directory();
  test_objects();
  test_copy();
  test_options();
  if (with_mpi) test_arguments_that_differ();
  lzy_report_free(report);
  if (with_mpi) MPI_Finalize();
  return 0;
}
