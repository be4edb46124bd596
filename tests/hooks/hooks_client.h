#pragma once
// What the parts of hooks_client share: each part has a table of actions, and main() looks an action up by its name.
#include <mpi.h>
#include <stddef.h>

enum { BLOCK = 100000, NAME = 4096 };

typedef struct {
  const char* name;
  void (*act)(void);
} Action;
#define ACTION(name) \
  { #name, name }
#define END_OF_ACTIONS \
  { NULL, NULL }
extern const Action background_actions[], shared_file_actions[], large_write_actions[], gpu_actions[], memory_actions[], pointer_actions[], set_actions[];

extern int rank, ranks;
extern const char* path;
extern const char* argument;
extern char block[BLOCK];

// Says what failed, and ends all ranks.
void fail(const char* what, const char* why);
// Returns `code`. Any but MPI_SUCCESS ends all ranks.
int check(int code, const char* call);
// Fills `block`: each seed gives other bytes.
void fill(int seed);
MPI_File open_with(MPI_Comm comm, const char* name, int mode, MPI_Info info);
MPI_File create(MPI_Comm comm, const char* name);
void write_block(MPI_File file, int number, int seed);
void close_file(MPI_File* file);
void print_code(const char* call, int code);
void print_time(const char* what, double since);
// Ends this process as a crash does, without MPI_Finalize. Launchers may then kill the other ranks, wherever they are,
// lose what was printed and call the whole run a failure; so what is to be known afterwards is a file: CRASHED.RANK.
void crash(void);
// Waits for the test: it finds STEP.number, does what it wants to, and makes GO.number.
void hold(int number);
// FILE.RANK; or where FILE has an @, the rank in its place.
void own_name(char* name);
// ARGUMENT, BYTES or BYTES,RANK: from now on no file may be larger, in that rank or in all.
void limit_files(void);
