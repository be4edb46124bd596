// hooks_client ACTION FILE [ARGUMENT]: a program that does to FILE what careful programs do not, or what the ones in
// clients/ have no use for. It knows nothing about lzy. What its calls return is printed where tests want to know.
// The actions are in hooks_client_*.c.
#define _DEFAULT_SOURCE
#include "hooks_client.h"

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int rank, ranks;
const char* path;
const char* argument;
char block[BLOCK];

void fail(const char* what, const char* why) {
  fprintf(stderr, "hooks_client: rank %d: %s: %s: %s\n", rank, path, what, why);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int check(int code, const char* call) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (code == MPI_SUCCESS) return code;
  MPI_Error_string(code, text, &length);
  fail(call, text);
  return code;
}

void fill(int seed) {
  uint64_t state = (uint64_t)seed * 0x9e3779b97f4a7c15u + 1;
  for (int i = 0; i < BLOCK; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    block[i] = (char)state;
  }
}

MPI_File open_with(MPI_Comm comm, const char* name, int mode, MPI_Info info) {
  MPI_File file = MPI_FILE_NULL;
  check(MPI_File_open(comm, name, mode, info, &file), "MPI_File_open");
  return file;
}

MPI_File create(MPI_Comm comm, const char* name) {
  return open_with(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL);
}

void write_block(MPI_File file, int number, int seed) {
  fill(seed);
  check(MPI_File_write_at(file, (MPI_Offset)number * BLOCK, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
}

void close_file(MPI_File* file) {
  check(MPI_File_close(file), "MPI_File_close");
}

void print_code(const char* call, int code) {
  int class = code;
  MPI_Error_class(code, &class);
  printf("%s %d %s\n", call, rank, class == MPI_SUCCESS ? "ok" : class == MPI_ERR_IO ? "MPI_ERR_IO" : "other");
  fflush(stdout);
}

void crash(void) {
  char name[NAME];
  snprintf(name, sizeof name, "CRASHED.%d", rank);
  const int note = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (note < 0 || close(note) != 0) fail(name, strerror(errno));
  MPI_Barrier(MPI_COMM_WORLD);  // nobody is killed before all have noted that they came here
  _exit(0);
}

void hold(int number) {
  char name[NAME];
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    snprintf(name, sizeof name, "STEP.%d", number);
    const int step = open(name, O_WRONLY | O_CREAT, 0666);
    if (step < 0 || close(step) != 0) fail(name, strerror(errno));
    snprintf(name, sizeof name, "GO.%d", number);
    while (access(name, F_OK) != 0) usleep(10000);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

void print_time(const char* what, double since) {
  printf("%s %d took %.3f\n", what, rank, MPI_Wtime() - since);
  fflush(stdout);
}

void own_name(char* name) {
  const char* at = strchr(path, '@');
  if (at != NULL) {
    snprintf(name, NAME, "%.*s%d%s", (int)(at - path), path, rank, at + 1);
  } else {
    snprintf(name, NAME, "%s.%d", path, rank);
  }
}

void limit_files(void) {
  const char* comma = strchr(argument, ',');
  if (*argument == '\0' || (comma != NULL && atoi(comma + 1) != rank)) return;
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = (rlim_t)atol(argument);
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) fail("setrlimit", strerror(errno));
}

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, argc > 1 && strcmp(argv[1], "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                  &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  path = argc > 2 ? argv[2] : "";
  argument = argc > 3 ? argv[3] : "";
  const Action* const tables[] = {background_actions, shared_file_actions, large_write_actions, gpu_actions, memory_actions, pointer_actions, set_actions};
  int found = 0;
  for (size_t t = 0; argc > 2 && t < sizeof tables / sizeof tables[0]; ++t) {
    for (const Action* action = tables[t]; action->name != NULL; ++action) {
      if (strcmp(argv[1], action->name) != 0) continue;
      found = 1;
      action->act();
    }
  }
  if (!found && rank == 0) fprintf(stderr, "usage: hooks_client ACTION FILE [ARGUMENT]\n");
  const int ended = MPI_Finalize();
  if (ended != MPI_SUCCESS) return 3;
  return found ? 0 : 2;
}
