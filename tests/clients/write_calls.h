#pragma once
// What the parts of write_calls share.
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

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

// A failure ends all ranks.

extern const char* path;

__attribute__((format(printf, 1, 2))) _Noreturn void fail(const char* format, ...);
void check(int code, const char* call);
// Memory of zeroes.
void* allocate(int64_t bytes);

// Calls that write, by name (write_calls_table.c).

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

// NULL if there is none of that name.
const Call* find_call(const char* name);
// Makes the call, or begins it. Finish a call that was begun with `end` or by its request.
int initiate(const Call* c, MPI_File f, MPI_Offset at, const void* data, int count, MPI_Datatype type,
             MPI_Status* status, MPI_Request* request);
// Whether the call writes by the shared file pointer.
bool shared_pointer(const Call* c);
void print_calls(void);

// Data, and where they lie in the file (write_calls_data.c).

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

void fill_block(char* block, int rank, int round, int seed);
// Where the byte of the data is in the file, given its place in a file without holes.
int64_t with_holes(const Run* run, int64_t at);
int64_t file_bytes(const Run* run);
bool in_hole(const Run* run, int64_t at);
// Lays the block out in the image of the file, as the given slot of those that a shared file pointer passes.
void place_block(const Run* run, char* image, const char* block, int slot);
void place_in_rank_view(const Run* run, char* image, const char* block, int rank, int round);
// The file that the call should leave. For calls that leave the order open, it is taken from what the file has.
char* expected_file(const Run* run, const Call* call, const char* actual);

// Writes the data to files (write_calls_file.c).

MPI_File open_as(MPI_Comm comm, const char* name, int mode);
MPI_File create(const char* name);
void close_file(MPI_File* file);
void size_first(const Run* run, MPI_File file);
// The same elements for all ranks: the file without the last piece of every stripe, or one piece of each for a rank.
void set_view(const Run* run, MPI_File file, bool same_for_all);
void check_moved(const Run* run, const MPI_Status* status, const char* call);
// In elements of the view.
MPI_Offset offset_of(const Run* run, int round);
// Writes the rounds [first, end). Calls that do not block have all of them on their way at once.
void write_rounds(const Run* run, const Call* call, MPI_File file, int first, int end);
void write_file(const Run* run, const Call* call, const char* name);
const Call* usual_call(void);

// What else a program may do to a file (write_calls_modes.c).

typedef enum { ABSENT, PRESENT } Outcome;

typedef struct {
  const char* name;
  void (*act)(const Run*);
  Outcome outcome;
  // Changes the image of a file that a call wrote into that of this mode and returns its size. NULL for no change.
  int64_t (*expect)(const Run*, char** image);
} Mode;

// NULL if there is none of that name.
const Mode* find_mode(const char* name);
void print_modes(void);
