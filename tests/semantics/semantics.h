#pragma once
// A program that knows nothing of lzy and writes down what MPI tells it, case by case. Run bare and under the layer,
// what it writes down must be the same (tests/semantics/semantics_test.py).
//
// Every case runs in a directory of its own, named like the case. A file in it whose name begins with "plain" is one
// that nothing was written to through MPI; every other one was, and is expected to be protected afterwards.
#include <mpi.h>
#include <stddef.h>

typedef struct {
  const char* name;
  void (*run)(void);
} Case;

// The groups; each ends with {NULL, NULL}. Cases of all groups but kStarts run between MPI_Init_thread and
// MPI_Finalize, many in a process; those of kStarts call these themselves, and have their process to themselves.
extern const Case kErrors[], kStatuses[], kHints[], kNames[], kModes[], kLifetimes[], kCommunicators[], kThreads[];
extern const Case kSurroundings[];
extern const Case kStarts[];

enum { BLOCK = 100000, NAME = 4096 };

extern int rank, ranks;    // in MPI_COMM_WORLD
extern int threads_level;  // what MPI_Init_thread provided
extern char block[BLOCK];  // bytes to write; see fill()

// A line of this rank's transcript, as printf.
void tell(const char* format, ...) __attribute__((format(printf, 1, 2)));
// "WHAT: CLASS", and what MPI says of the error. Returns the code.
int tell_code(const char* what, int code);
const char* class_name(int code);

// Makes the bytes of `block`, the same for the same seed.
void fill(int seed);
// Opens on MPI_COMM_WORLD without hints; what goes wrong is told.
MPI_File open_file(const char* name, int mode);
MPI_File create_file(const char* name);
// Writes block number `number` of BLOCK bytes.
void write_block(MPI_File file, int number, int seed);
void close_file(MPI_File* file);
// A filetype, committed: `blocks` blocks of `length` etypes, with room for those of the other ranks between them and at
// the end. The view of a rank is displaced by its number times `length` etypes.
MPI_Datatype interleaved(int blocks, int length, MPI_Datatype etype);
// A regular file with POSIX, by this process.
void make_plain(const char* name, const char* content);
void barrier(void);
// Ends all ranks: the test itself cannot go on.
void fail(const char* what, const char* why);

// Error handlers that tell of their calls and let the program go on.
extern MPI_Errhandler file_handler, comm_handler;
void make_handlers(void);

// What is told of a status; `type` is what the call was given.
void forget_status(MPI_Status* status);
void tell_status(const char* what, MPI_Status* status, MPI_Datatype type);

// Between MPI's start and its end: called by main and by the cases of kStarts.
void begin_world(void);
