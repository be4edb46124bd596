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

#include "write_calls.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char* path;

_Noreturn void fail(const char* format, ...) {
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

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("%s: %s", call, text);
}

void* allocate(int64_t bytes) {
  void* memory = calloc(1, bytes > 0 ? (size_t)bytes : 1);
  if (!memory) fail("out of memory");
  return memory;
}

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
    if (run.rank == 0) {
      print_calls();
      print_modes();
    }
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
