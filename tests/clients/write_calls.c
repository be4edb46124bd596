// write_calls: makes a file with one chosen call of MPI-IO, so that tests see every way a program may write.
//
// Each rank writes ROUNDS blocks of known bytes. Without --view the blocks lie round by round, in the order of ranks
// within a round. With --view the file has pieces of 4100 bytes with a hole after every P of them for P ranks; each
// rank has a piece of every such stripe, but calls with the shared file pointer need one view for all ranks, and so lay
// out round by round what is not a hole. Only write_shared and iwrite_shared may put the blocks in another order.
//
// MPI leaves open what a hole holds that a write leaves at the end of a file, and ROMIO's data sieving indeed fills it
// with what its buffer happened to hold. Files with a view are therefore given their size first, which makes the holes
// zeroes, unless --unsized asks for the more common course of things. FILE should not exist beforehand.
//
// write_calls --check, run with as many ranks, compares the file with what the call should have left.

#include <errno.h>
#include <getopt.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Sizes that are no multiples of anything that a file system or a layer below might like.
enum {
  PIECE = 4100,
  PIECES_IN_BLOCK = 64,
  BLOCK = PIECE * PIECES_IN_BLOCK,
  ROUNDS = 4,
  STREAM = ROUNDS * BLOCK,
  UPDATED_ROUND = 2,
  UPDATE_SEED = 77,
  PATH_LIMIT = 4096
};

// ---------------------------------------------------------------------------------------------------------- Failures

static const char* path;

__attribute__((format(printf, 1, 2))) static _Noreturn void fail(const char* format, ...) {
  char message[2 * PATH_LIMIT];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fprintf(stderr, "write_calls: rank %d: %s: %s\n", rank, path, message);
  fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  abort();
}

static void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("%s: %s", call, text);
}

static void* allocate(int64_t bytes) {
  void* memory = calloc(1, bytes > 0 ? (size_t)bytes : 1);
  if (!memory) fail("out of memory");
  return memory;
}

// ------------------------------------------------------------------------------------------------------------- Calls

typedef enum { BLOCKING, BLOCKING_AT, NONBLOCKING, NONBLOCKING_AT, SPLIT, SPLIT_AT } Form;

typedef int Blocking(MPI_File, const void*, int, MPI_Datatype, MPI_Status*);
typedef int BlockingAt(MPI_File, MPI_Offset, const void*, int, MPI_Datatype, MPI_Status*);
typedef int Nonblocking(MPI_File, const void*, int, MPI_Datatype, MPI_Request*);
typedef int NonblockingAt(MPI_File, MPI_Offset, const void*, int, MPI_Datatype, MPI_Request*);
typedef int Begin(MPI_File, const void*, int, MPI_Datatype);
typedef int BeginAt(MPI_File, MPI_Offset, const void*, int, MPI_Datatype);
typedef int End(MPI_File, const void*, MPI_Status*);

typedef int LargeBlocking(MPI_File, const void*, MPI_Count, MPI_Datatype, MPI_Status*);
typedef int LargeBlockingAt(MPI_File, MPI_Offset, const void*, MPI_Count, MPI_Datatype, MPI_Status*);
typedef int LargeNonblocking(MPI_File, const void*, MPI_Count, MPI_Datatype, MPI_Request*);
typedef int LargeNonblockingAt(MPI_File, MPI_Offset, const void*, MPI_Count, MPI_Datatype, MPI_Request*);
typedef int LargeBegin(MPI_File, const void*, MPI_Count, MPI_Datatype);
typedef int LargeBeginAt(MPI_File, MPI_Offset, const void*, MPI_Count, MPI_Datatype);

// Whose place in the file the call writes to.
typedef enum { EXPLICIT, OWN_POINTER, SHARED_POINTER, SHARED_POINTER_IN_ORDER } Place;

typedef struct {
  const char* name;
  Place place;
  Form form;
  bool large;
  union {
    Blocking* blocking;
    BlockingAt* blocking_at;
    Nonblocking* nonblocking;
    NonblockingAt* nonblocking_at;
    Begin* split;
    BeginAt* split_at;
    LargeBlocking* large_blocking;
    LargeBlockingAt* large_blocking_at;
    LargeNonblocking* large_nonblocking;
    LargeNonblockingAt* large_nonblocking_at;
    LargeBegin* large_split;
    LargeBeginAt* large_split_at;
  } begin;
  End* end;
} Call;

#if MPI_VERSION >= 4
#define CALL(PLACE, FORM, member, call, end)                                     \
  {#call, PLACE, FORM, false, {.member = MPI_File_##call}, end}, {               \
#call "_c", PLACE, FORM, true, {.large_##member = MPI_File_##call##_c }, end \
  }
#else
#define CALL(PLACE, FORM, member, call, end) \
  { #call, PLACE, FORM, false, {.member = MPI_File_##call }, end }
#endif

static const Call calls[] = {
    CALL(OWN_POINTER, BLOCKING, blocking, write, NULL),
    CALL(OWN_POINTER, BLOCKING, blocking, write_all, NULL),
    CALL(EXPLICIT, BLOCKING_AT, blocking_at, write_at, NULL),
    CALL(EXPLICIT, BLOCKING_AT, blocking_at, write_at_all, NULL),
    CALL(OWN_POINTER, NONBLOCKING, nonblocking, iwrite, NULL),
    CALL(OWN_POINTER, NONBLOCKING, nonblocking, iwrite_all, NULL),
    CALL(EXPLICIT, NONBLOCKING_AT, nonblocking_at, iwrite_at, NULL),
    CALL(EXPLICIT, NONBLOCKING_AT, nonblocking_at, iwrite_at_all, NULL),
    CALL(SHARED_POINTER, BLOCKING, blocking, write_shared, NULL),
    CALL(SHARED_POINTER, NONBLOCKING, nonblocking, iwrite_shared, NULL),
    CALL(SHARED_POINTER_IN_ORDER, BLOCKING, blocking, write_ordered, NULL),
    CALL(OWN_POINTER, SPLIT, split, write_all_begin, MPI_File_write_all_end),
    CALL(EXPLICIT, SPLIT_AT, split_at, write_at_all_begin, MPI_File_write_at_all_end),
    CALL(SHARED_POINTER_IN_ORDER, SPLIT, split, write_ordered_begin, MPI_File_write_ordered_end),
};
enum { CALLS = sizeof calls / sizeof calls[0] };

static const Call* find_call(const char* name) {
  for (int i = 0; i < CALLS; ++i) {
    if (strcmp(calls[i].name, name) == 0) return &calls[i];
  }
  return NULL;
}

static int initiate(const Call* c, MPI_File f, MPI_Offset at, const void* data, int count, MPI_Datatype type,
                    MPI_Status* status, MPI_Request* request) {
  switch (c->form) {
    case BLOCKING:
      return c->large ? c->begin.large_blocking(f, data, count, type, status)
                      : c->begin.blocking(f, data, count, type, status);
    case BLOCKING_AT:
      return c->large ? c->begin.large_blocking_at(f, at, data, count, type, status)
                      : c->begin.blocking_at(f, at, data, count, type, status);
    case NONBLOCKING:
      return c->large ? c->begin.large_nonblocking(f, data, count, type, request)
                      : c->begin.nonblocking(f, data, count, type, request);
    case NONBLOCKING_AT:
      return c->large ? c->begin.large_nonblocking_at(f, at, data, count, type, request)
                      : c->begin.nonblocking_at(f, at, data, count, type, request);
    case SPLIT:
      return c->large ? c->begin.large_split(f, data, count, type) : c->begin.split(f, data, count, type);
    case SPLIT_AT:
      return c->large ? c->begin.large_split_at(f, at, data, count, type) : c->begin.split_at(f, at, data, count, type);
  }
  return MPI_ERR_OTHER;
}

static bool shared_pointer(const Call* c) {
  return c->place == SHARED_POINTER || c->place == SHARED_POINTER_IN_ORDER;
}

// -------------------------------------------------------------------------------------------------------------- Data

typedef struct {
  int rank;
  int ranks;
  bool view;
  bool unsized;
  bool existing;  // the modes that need a file find it instead of making it
  MPI_Datatype element;
  int element_bytes;
  char* stream;  // what this rank writes, ROUNDS blocks
} Run;

static uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

static void fill_block(char* block, int rank, int round, int seed) {
  const uint64_t state = mix(((uint64_t)seed << 48) ^ ((uint64_t)rank << 16) ^ (uint64_t)round);
  for (int i = 0; i < BLOCK; i += 4) {
    const uint32_t word = (uint32_t)mix(state + (uint64_t)i);
    memcpy(block + i, &word, sizeof word);
  }
}

static int64_t data_bytes(const Run* run) {
  return (int64_t)run->ranks * STREAM;
}

// Where the byte of the data is in the file, given its place in a file without holes.
static int64_t with_holes(const Run* run, int64_t at) {
  if (!run->view) return at;
  return at + at / ((int64_t)run->ranks * PIECE) * PIECE;
}

static int64_t file_bytes(const Run* run) {
  return with_holes(run, data_bytes(run) - 1) + 1;
}

static bool in_hole(const Run* run, int64_t at) {
  const int64_t pieces = at / PIECE;
  return run->view && pieces % (run->ranks + 1) == run->ranks;
}

// Lays the block out in the image of the file, as the given slot of those that a shared file pointer passes.
static void place_block(const Run* run, char* image, const char* block, int slot) {
  for (int i = 0; i < PIECES_IN_BLOCK; ++i) {
    memcpy(image + with_holes(run, (int64_t)slot * BLOCK + (int64_t)i * PIECE), block + (size_t)i * PIECE, PIECE);
  }
}

static void place_in_rank_view(const Run* run, char* image, const char* block, int rank, int round) {
  for (int i = 0; i < PIECES_IN_BLOCK; ++i) {
    const int64_t stripe = (int64_t)round * PIECES_IN_BLOCK + i;
    memcpy(image + with_holes(run, (stripe * run->ranks + rank) * PIECE), block + (size_t)i * PIECE, PIECE);
  }
}

// The file that the call should leave. For calls that leave the order open, it is taken from what the file has.
static char* expected_file(const Run* run, const Call* call, const char* actual) {
  char* image = allocate(file_bytes(run));
  char* block = allocate(BLOCK);
  bool* taken = allocate((int64_t)run->ranks * ROUNDS);
  for (int round = 0; round < ROUNDS; ++round) {
    for (int rank = 0; rank < run->ranks; ++rank) {
      fill_block(block, rank, round, 0);
      if (run->view && !shared_pointer(call)) {
        place_in_rank_view(run, image, block, rank, round);
        continue;
      }
      int slot = round * run->ranks + rank;
      if (call->place == SHARED_POINTER) {
        for (slot = 0; slot < run->ranks * ROUNDS; ++slot) {
          const char* there = actual + with_holes(run, (int64_t)slot * BLOCK);
          if (!taken[slot] && memcmp(there, block, PIECE) == 0) break;
        }
        if (slot == run->ranks * ROUNDS) fail("block %d of rank %d is not in the file", round, rank);
        taken[slot] = true;
      }
      place_block(run, image, block, slot);
    }
  }
  free(taken);
  free(block);
  return image;
}

// ------------------------------------------------------------------------------------------------------------- Files

static MPI_File open_as(MPI_Comm comm, const char* name, int mode) {
  MPI_File file = MPI_FILE_NULL;
  check(MPI_File_open(comm, name, mode, MPI_INFO_NULL, &file), "MPI_File_open");
  return file;
}

static MPI_File create(const char* name) {
  return open_as(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
}

static void close_file(MPI_File* file) {
  check(MPI_File_close(file), "MPI_File_close");
}

static void size_first(const Run* run, MPI_File file) {
  if (run->view && !run->unsized) check(MPI_File_set_size(file, file_bytes(run)), "MPI_File_set_size");
}

// The same elements for all ranks: the file without the last piece of every stripe, or one piece of each for a rank.
static void set_view(const Run* run, MPI_File file, bool same_for_all) {
  if (!run->view) return;
  const int elements = PIECE / run->element_bytes;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  check(MPI_Type_vector(ROUNDS * PIECES_IN_BLOCK, same_for_all ? run->ranks * elements : elements,
                        (run->ranks + 1) * elements, run->element, &type),
        "MPI_Type_vector");
  check(MPI_Type_commit(&type), "MPI_Type_commit");
  const MPI_Offset begin = same_for_all ? 0 : (MPI_Offset)run->rank * PIECE;
  check(MPI_File_set_view(file, begin, run->element, type, "native", MPI_INFO_NULL), "MPI_File_set_view");
  check(MPI_Type_free(&type), "MPI_Type_free");
}

static void check_moved(const Run* run, const MPI_Status* status, const char* call) {
  int count = 0;
  check(MPI_Get_count(status, run->element, &count), "MPI_Get_count");
  if (count != BLOCK / run->element_bytes) fail("%s: %d of %d elements", call, count, BLOCK / run->element_bytes);
}

// In elements of the view.
static MPI_Offset offset_of(const Run* run, int round) {
  const MPI_Offset block = run->view ? round : (MPI_Offset)round * run->ranks + run->rank;
  return block * (BLOCK / run->element_bytes);
}

// Writes the rounds [first, end). Calls that do not block have all of them on their way at once.
static void write_rounds(const Run* run, const Call* call, MPI_File file, int first, int end) {
  MPI_Request requests[ROUNDS];
  for (int round = first; round < end; ++round) {
    const char* data = run->stream + (size_t)round * BLOCK;
    const MPI_Offset at = offset_of(run, round);
    MPI_Status status;
    if (call->place == OWN_POINTER) check(MPI_File_seek(file, at, MPI_SEEK_SET), "MPI_File_seek");
    check(initiate(call, file, at, data, BLOCK / run->element_bytes, run->element, &status, &requests[round]),
          call->name);
    if (call->form == NONBLOCKING || call->form == NONBLOCKING_AT) continue;
    if (call->end) check(call->end(file, data, &status), call->name);
    check_moved(run, &status, call->name);
  }
  if (call->form != NONBLOCKING && call->form != NONBLOCKING_AT) return;
  for (int round = first; round < end; ++round) {
    MPI_Status status;
    check(MPI_Wait(&requests[round], &status), call->name);
    check_moved(run, &status, call->name);
  }
}

static void write_file(const Run* run, const Call* call, const char* name) {
  MPI_File file = create(name);
  size_first(run, file);
  set_view(run, file, shared_pointer(call));
  write_rounds(run, call, file, 0, ROUNDS);
  close_file(&file);
}

static const Call* usual_call(void) {
  return find_call("write_at_all");
}

static void need_file(const Run* run) {
  if (!run->existing) write_file(run, usual_call(), path);
}

// ------------------------------------------------------------------------------------------------------------- Modes

typedef enum { ABSENT, PRESENT } Outcome;

static void set_size(const Run* run) {
  MPI_File file = create(path);
  check(MPI_File_set_size(file, 2 * file_bytes(run)), "MPI_File_set_size");
  set_view(run, file, false);
  write_rounds(run, usual_call(), file, 0, ROUNDS);
  // A cut in mid-block, then a growth that must read as zeroes.
  check(MPI_File_set_size(file, file_bytes(run) / 2 + 13), "MPI_File_set_size");
  check(MPI_File_set_size(file, file_bytes(run) / 4 * 3 + 7), "MPI_File_set_size");
  MPI_Offset size = 0;
  check(MPI_File_get_size(file, &size), "MPI_File_get_size");
  if (size != file_bytes(run) / 4 * 3 + 7) fail("MPI_File_set_size: the size is %lld", (long long)size);
  close_file(&file);
}

static int64_t expect_set_size(const Run* run, char** image) {
  const int64_t size = file_bytes(run) / 4 * 3 + 7;
  const int64_t kept = file_bytes(run) / 2 + 13;
  memset(*image + kept, 0, (size_t)(size - kept));
  return size;
}

static void preallocate(const Run* run) {
  MPI_File file = create(path);
  check(MPI_File_preallocate(file, 2 * file_bytes(run)), "MPI_File_preallocate");
  set_view(run, file, false);
  write_rounds(run, usual_call(), file, 0, ROUNDS);
  close_file(&file);
}

static int64_t expect_preallocate(const Run* run, char** image) {
  char* longer = allocate(2 * file_bytes(run));
  memcpy(longer, *image, (size_t)file_bytes(run));
  free(*image);
  *image = longer;
  return 2 * file_bytes(run);
}

static void sync_in_mid_run(const Run* run) {
  MPI_File file = create(path);
  size_first(run, file);
  set_view(run, file, false);
  write_rounds(run, usual_call(), file, 0, ROUNDS / 2);
  check(MPI_File_sync(file), "MPI_File_sync");
  write_rounds(run, usual_call(), file, ROUNDS / 2, ROUNDS);
  close_file(&file);
}

static void delete_on_close(const Run* run) {
  MPI_File file = open_as(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
  size_first(run, file);
  set_view(run, file, false);
  write_rounds(run, usual_call(), file, 0, ROUNDS);
  close_file(&file);
}

static void delete_file(const Run* run) {
  need_file(run);
  MPI_Barrier(MPI_COMM_WORLD);
  if (run->rank == 0) check(MPI_File_delete(path, MPI_INFO_NULL), "MPI_File_delete");
  MPI_Barrier(MPI_COMM_WORLD);
}

static void read_only(const Run* run) {
  need_file(run);
  MPI_File file = open_as(MPI_COMM_WORLD, path, MPI_MODE_RDONLY);
  set_view(run, file, false);
  char* block = allocate(BLOCK);
  for (int round = 0; round < ROUNDS; ++round) {
    MPI_Status status;
    check(MPI_File_read_at_all(file, offset_of(run, round), block, BLOCK / run->element_bytes, run->element, &status),
          "MPI_File_read_at_all");
    check_moved(run, &status, "MPI_File_read_at_all");
    if (memcmp(block, run->stream + (size_t)round * BLOCK, BLOCK) != 0) fail("block %d reads as other bytes", round);
  }
  free(block);
  close_file(&file);
}

static void rename_when_done(const Run* run) {
  char temporary[PATH_LIMIT];
  if (snprintf(temporary, sizeof temporary, "%s.tmp", path) >= PATH_LIMIT) fail("the path is too long");
  write_file(run, usual_call(), temporary);
  MPI_Barrier(MPI_COMM_WORLD);
  if (run->rank == 0 && rename(temporary, path) != 0) fail("rename: %s", strerror(errno));
  MPI_Barrier(MPI_COMM_WORLD);
}

// The last rank alone writes one of its blocks anew.
static void update(const Run* run) {
  need_file(run);
  MPI_File file = open_as(MPI_COMM_WORLD, path, MPI_MODE_RDWR);
  set_view(run, file, false);
  if (run->rank == run->ranks - 1) {
    char* block = allocate(BLOCK);
    fill_block(block, run->rank, UPDATED_ROUND, UPDATE_SEED);
    MPI_Status status;
    check(MPI_File_write_at(file, offset_of(run, UPDATED_ROUND), block, BLOCK / run->element_bytes, run->element,
                            &status),
          "MPI_File_write_at");
    check_moved(run, &status, "MPI_File_write_at");
    free(block);
  }
  close_file(&file);
}

static int64_t expect_update(const Run* run, char** image) {
  char* block = allocate(BLOCK);
  fill_block(block, run->ranks - 1, UPDATED_ROUND, UPDATE_SEED);
  if (run->view) {
    place_in_rank_view(run, *image, block, run->ranks - 1, UPDATED_ROUND);
  } else {
    place_block(run, *image, block, UPDATED_ROUND * run->ranks + run->ranks - 1);
  }
  free(block);
  return file_bytes(run);
}

static void close_without_writing(const Run* run) {
  MPI_File file = create(path);
  set_view(run, file, false);
  close_file(&file);
}

static int64_t expect_empty(const Run* run, char** image) {
  (void)run;
  (void)image;
  return 0;
}

typedef struct {
  const char* name;
  void (*act)(const Run*);
  Outcome outcome;
  // Changes the image of a file that a call wrote into that of this mode and returns its size. NULL for no change.
  int64_t (*expect)(const Run*, char** image);
} Mode;

static const Mode modes[] = {
    {"set_size", set_size, PRESENT, expect_set_size},
    {"preallocate", preallocate, PRESENT, expect_preallocate},
    {"sync", sync_in_mid_run, PRESENT, NULL},
    {"delete_on_close", delete_on_close, ABSENT, NULL},
    {"delete", delete_file, ABSENT, NULL},
    {"read_only", read_only, PRESENT, NULL},
    {"rename", rename_when_done, PRESENT, NULL},
    {"update", update, PRESENT, expect_update},
    {"close_only", close_without_writing, PRESENT, expect_empty},
};
enum { MODES = sizeof modes / sizeof modes[0] };

static const Mode* find_mode(const char* name) {
  for (int i = 0; i < MODES; ++i) {
    if (strcmp(modes[i].name, name) == 0) return &modes[i];
  }
  return NULL;
}

// ------------------------------------------------------------------------------------------------------------- Check

// Reads the file with plain C, as anyone would who knows nothing of MPI. Returns NULL if there is none.
static char* read_plainly(int64_t* bytes) {
  FILE* stream = fopen(path, "rb");
  if (!stream) {
    if (errno != ENOENT) fail("fopen: %s", strerror(errno));
    return NULL;
  }
  if (fseek(stream, 0, SEEK_END) != 0) fail("fseek: %s", strerror(errno));
  *bytes = ftell(stream);
  rewind(stream);
  char* content = allocate(*bytes);
  if (fread(content, 1, (size_t)*bytes, stream) != (size_t)*bytes) fail("fread: %s", strerror(errno));
  fclose(stream);
  return content;
}

static void check_file(const Run* run, const Call* call, const Mode* mode) {
  int64_t actual_bytes = 0;
  char* actual = read_plainly(&actual_bytes);
  if (mode && mode->outcome == ABSENT) {
    if (actual) fail("the file is still there");
    return;
  }
  if (!actual) fail("there is no such file");
  if (!mode && actual_bytes != file_bytes(run)) {
    fail("%lld bytes instead of %lld", (long long)actual_bytes, (long long)file_bytes(run));
  }
  char* expected = expected_file(run, call, actual);
  int64_t bytes = file_bytes(run);
  if (mode && mode->expect) bytes = mode->expect(run, &expected);
  if (actual_bytes != bytes) fail("%lld bytes instead of %lld", (long long)actual_bytes, (long long)bytes);
  for (int64_t i = 0; i < bytes; ++i) {
    if (actual[i] != expected[i] && !(run->unsized && in_hole(run, i))) fail("byte %lld is wrong", (long long)i);
  }
  free(expected);
  free(actual);
}

// -------------------------------------------------------------------------------------------------------------- Main

static void print_usage(FILE* stream) {
  fputs(
      "usage: write_calls --call NAME [--view [--unsized]] [--existing] [--check] FILE\n"
      "       write_calls --list\n"
      "  --call NAME  write FILE with this call, or do to it what this mode does\n"
      "  --view       set a strided view of the file first\n"
      "  --unsized    with --view, do not give the file its size first: what its holes hold is then left open\n"
      "  --existing   delete, read_only and update take the file that is there instead of writing one first\n"
      "  --check      only compare FILE with what the call should have left, run with as many ranks and the same "
      "options\n"
      "  --list       print the names of all calls and modes\n",
      stream);
}

static void print_names(void) {
  for (int i = 0; i < CALLS; ++i) puts(calls[i].name);
  for (int i = 0; i < MODES; ++i) puts(modes[i].name);
}

static void run_call(Run* run, const Call* call, const Mode* mode, bool only_check) {
  MPI_Comm_size(MPI_COMM_WORLD, &run->ranks);
  // A view of elements larger than a byte tells offsets in elements from offsets in bytes.
  run->element = run->view ? MPI_INT32_T : MPI_BYTE;
  run->element_bytes = run->view ? 4 : 1;
  run->stream = allocate(STREAM);
  for (int round = 0; round < ROUNDS; ++round) {
    fill_block(run->stream + (size_t)round * BLOCK, run->rank, round, 0);
  }
  if (only_check) {
    if (run->rank == 0) check_file(run, call ? call : usual_call(), mode);
  } else if (call) {
    write_file(run, call, path);
  } else {
    mode->act(run);
  }
  free(run->stream);
}

int main(int argc, char** argv) {
  static const struct option known[] = {{"call", required_argument, NULL, 'c'}, {"view", no_argument, NULL, 'v'},
                                        {"unsized", no_argument, NULL, 'u'},    {"existing", no_argument, NULL, 'e'},
                                        {"check", no_argument, NULL, 'k'},      {"list", no_argument, NULL, 'l'},
                                        {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0}};
  MPI_Init(&argc, &argv);
  Run run = {.rank = 0};
  MPI_Comm_rank(MPI_COMM_WORLD, &run.rank);
  opterr = run.rank == 0;
  const char* name = NULL;
  bool only_check = false;
  bool list = false;
  bool help = false;
  bool wrong = false;
  int option = 0;
  while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
    if (option == 'c') name = optarg;
    run.view |= option == 'v';
    run.unsized |= option == 'u';
    run.existing |= option == 'e';
    only_check |= option == 'k';
    list |= option == 'l';
    help |= option == 'h';
    wrong |= option == '?';
  }
  const Call* call = name ? find_call(name) : NULL;
  const Mode* mode = name ? find_mode(name) : NULL;
  int code = 0;
  if (!wrong && help) {
    if (run.rank == 0) print_usage(stdout);
  } else if (!wrong && list) {
    if (run.rank == 0) print_names();
  } else if (!wrong && name && !call && !mode) {
    if (run.rank == 0) fprintf(stderr, "write_calls: no such call: %s\n", name);
    code = 2;
  } else if (wrong || !name || optind + 1 != argc) {
    if (run.rank == 0) print_usage(stderr);
    code = 2;
  } else {
    path = argv[optind];
    run_call(&run, call, mode, only_check);
  }
  MPI_Finalize();
  return code;
}
