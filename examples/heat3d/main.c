// Options, the loop over the steps, restarts, and failures.
//
// Exit codes: 0; 1 after a failure, which ends the whole job by MPI_Abort; 2 for options that are not accepted. Lines
// on stdout begin with a word and then have pairs of name and value, so that scripts can read them.

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heat3d.h"

// Bytes of a path, with its end.
enum { PATH_LIMIT = 4096 };

// As print_usage() explains them. Strings point into argv.
typedef struct {
  int size;
  int steps;
  int every;
  const char* checkpoint;
  // `checkpoint` has a place for the rank.
  bool per_rank;
  const char* hdf5;
  const char* final;
  bool restart;
  bool quiet;
} Options;

// On the rank that failed alone: the others may be in a collective call, which only MPI_Abort ends.
_Noreturn void fail(const char* format, ...) {
  char message[2 * PATH_LIMIT];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fprintf(stderr, "heat3d: rank %d: %s\n", rank, message);
  fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  abort();
}

void check(int code, const char* call, const char* path) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("%s: %s: %s", path, call, text);
}

void check_moved(const MPI_Status* status, MPI_Datatype type, int64_t expected, const char* call,
                        const char* path) {
  MPI_Count elements = 0;
  MPI_Get_elements_x(status, type, &elements);
  if (elements != expected) {
    fail("%s: %s: short transfer: %lld of %" PRId64 " elements", path, call, (long long)elements, expected);
  }
}

void* allocate(size_t count, size_t bytes) {
  void* memory = calloc(count, bytes);
  if (!memory) fail("out of memory: %zu times %zu bytes", count, bytes);
  return memory;
}

// Replaces %r, or %04r for leading zeroes, by the rank. Returns the number of replacements or -1 for a bad pattern.
static int expand_pattern(const char* pattern, int rank, char out[PATH_LIMIT]) {
  size_t used = 0;
  int replaced = 0;
  for (const char* p = pattern; *p; ++p) {
    char text[32] = {*p, '\0'};
    if (*p == '%' && p[1] == '%') {
      ++p;
    } else if (*p == '%') {
      char* end = NULL;
      const long width = strtol(p + 1, &end, 10);
      if (*end != 'r' || width < 0 || width > 20 || p[1] == '+' || p[1] == ' ') return -1;
      snprintf(text, sizeof text, p[1] == '0' ? "%0*d" : "%*d", (int)width, rank);
      ++replaced;
      p = end;
    }
    const size_t length = strlen(text);
    if (used + length >= PATH_LIMIT) return -1;
    memcpy(out + used, text, length);
    used += length;
  }
  out[used] = '\0';
  return replaced;
}

// On stdout for --help, on stderr after a mistake.
static void print_usage(FILE* stream) {
  fputs(
      "usage: heat3d [options]\n"
      "  --size N              cells along each edge of the cube (default 96)\n"
      "  --steps S             the step to stop at (default 100)\n"
      "  --every K             checkpoint after every K steps, 0 for none (default 10)\n"
      "  --checkpoint PATTERN  checkpoint to a shared MPI-IO file, or to a file per rank if PATTERN has %r or %04r\n"
      "  --hdf5 FILE           checkpoint to a shared HDF5 file\n"
      "  --restart             go on from the checkpoint that --checkpoint or --hdf5 names\n"
      "  --final FILE          write the field at the end as raw doubles, x fastest\n"
      "  --quiet               print nothing\n"
      "  --help                print this\n",
      stream);
}

// Accepts whole decimal numbers from `least` to 10^9.
static bool parse_number(const char* text, int least, int* value) {
  char* end = NULL;
  errno = 0;
  const long number = strtol(text, &end, 10);
  if (errno || end == text || *end || number < least || number > 1000000000) return false;
  *value = (int)number;
  return true;
}

// Options that do not go together, or NULL.
static const char* find_conflict(const Options* options) {
  if (options->checkpoint && options->hdf5) return "--checkpoint and --hdf5 exclude each other";
  if (options->restart && !options->checkpoint && !options->hdf5) return "--restart needs --checkpoint or --hdf5";
#ifndef HEAT_HAVE_HDF5
  if (options->hdf5) return "--hdf5: built without parallel HDF5";
#endif
  return NULL;
}

// Returns -1 to run, else the exit code. Only rank 0 prints. All ranks have the same arguments, so they return the
// same. A pattern is expanded once here, for rank 0, to find mistakes in it before any step is computed.
static int parse_options(int argc, char** argv, int rank, Options* options) {
  static const struct option known[] = {
      {"size", required_argument, NULL, 'n'},  {"steps", required_argument, NULL, 's'},
      {"every", required_argument, NULL, 'k'}, {"checkpoint", required_argument, NULL, 'c'},
      {"hdf5", required_argument, NULL, '5'},  {"restart", no_argument, NULL, 'r'},
      {"final", required_argument, NULL, 'f'}, {"quiet", no_argument, NULL, 'q'},
      {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0}};
  *options = (Options){.size = 96, .steps = 100, .every = 10};
  opterr = rank == 0;
  const char* error = NULL;
  char path[PATH_LIMIT];
  int option = 0;
  while (!error && (option = getopt_long(argc, argv, "", known, NULL)) != -1) {
    switch (option) {
      case 'n':
        if (!parse_number(optarg, 1, &options->size)) error = "--size takes a number from 1";
        break;
      case 's':
        if (!parse_number(optarg, 0, &options->steps)) error = "--steps takes a number from 0";
        break;
      case 'k':
        if (!parse_number(optarg, 0, &options->every)) error = "--every takes a number from 0";
        break;
      case 'c': {
        const int replaced = expand_pattern(optarg, 0, path);
        if (replaced < 0) error = "--checkpoint takes a path with %r or %04r for the rank and %% for a percent sign";
        options->checkpoint = optarg;
        options->per_rank = replaced > 0;
        break;
      }
      case '5':
        options->hdf5 = optarg;
        break;
      case 'r':
        options->restart = true;
        break;
      case 'f':
        options->final = optarg;
        break;
      case 'q':
        options->quiet = true;
        break;
      case 'h':
        if (rank == 0) print_usage(stdout);
        return 0;
      default:
        if (rank == 0) print_usage(stderr);
        return 2;
    }
  }
  if (!error && optind < argc) error = "there are no arguments besides the options";
  if (!error) error = find_conflict(options);
  if (!error) return -1;
  if (rank == 0) fprintf(stderr, "heat3d: %s\n", error);
  return 2;
}

// Ranks that are done early wait for the others, so the slowest rank's time is the time of all.
static double slowest(const Solver* s, double seconds) {
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, s->comm);
  return seconds;
}

// Reads the last checkpoint. With a file per rank, a crash between two closes leaves files of different steps, from
// which no run can go on.
static void restart(Solver* s, const Options* options) {
  char path[PATH_LIMIT];
  int step = 0;
  if (options->hdf5) {
    step = read_hdf5(s, options->hdf5);
  } else {
    expand_pattern(options->checkpoint, s->rank, path);
    step = options->per_rank ? read_per_rank(s, path) : read_shared(s, path);
  }
  int bounds[2] = {step, -step};
  MPI_Allreduce(MPI_IN_PLACE, bounds, 2, MPI_INT, MPI_MAX, s->comm);
  if (bounds[0] != -bounds[1]) {
    fail("the ranks' checkpoints are of different steps: %d to %d, this rank's %d", -bounds[1], bounds[0], step);
  }
  if (step > options->steps) fail("the checkpoint is of step %d, beyond --steps %d", step, options->steps);
  s->step = step;
}

// Returns how long it took, in seconds. The barrier keeps the imbalance of the solver out of the time.
static double checkpoint(Solver* s, const Options* options) {
  char path[PATH_LIMIT];
  MPI_Barrier(s->comm);
  const double begin = MPI_Wtime();
  double bytes = (double)cube_bytes(s);
  if (options->hdf5) {
    write_hdf5(s, options->hdf5);
    bytes *= 2;
  } else {
    expand_pattern(options->checkpoint, s->rank, path);
    if (options->per_rank) {
      write_per_rank(s, path);
    } else {
      write_shared(s, path, true);
    }
  }
  const double seconds = slowest(s, MPI_Wtime() - begin);
  if (s->rank == 0 && !options->quiet) {
    printf("checkpoint step %d time %.3f seconds %.6f MB/s %.1f\n", s->step, time_of(s->step), seconds,
           bytes / 1e6 / seconds);
    fflush(stdout);
  }
  return seconds;
}

// Checkpoints are made after the steps that --every divides, also after a restart, so both runs make the same ones.
static void run(Solver* s, const Options* options) {
  set_up_fields(s);
  if (options->restart) restart(s, options);
  const bool checkpoints = (options->checkpoint || options->hdf5) && options->every > 0;
  const double begin = MPI_Wtime();
  double checkpoint_seconds = 0;
  while (s->step < options->steps) {
    advance(s);
    if (checkpoints && s->step % options->every == 0) checkpoint_seconds += checkpoint(s, options);
  }
  const double seconds = slowest(s, MPI_Wtime() - begin);
  if (options->final) write_shared(s, options->final, false);
  const uint64_t sum = checksum(s);
  if (s->rank == 0 && !options->quiet) {
    printf("final step %d time %.3f checksum %016" PRIx64 " seconds %.6f checkpoint-seconds %.6f\n", s->step,
           time_of(s->step), sum, seconds, checkpoint_seconds);
  }
}

// Options are parsed on every rank, after MPI_Init, because rank 0 alone prints.
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Options options;
  int code = parse_options(argc, argv, rank, &options);
  if (code < 0) {
    Solver solver;
    code = 0;
    if (decompose(&solver, options.size)) {
      run(&solver, &options);
      tear_down(&solver);
    } else {
      if (rank == 0) {
        fprintf(stderr, "heat3d: --size %d is too small for %d ranks as %dx%dx%d\n", options.size, solver.ranks,
                solver.dims[Z], solver.dims[Y], solver.dims[X]);
      }
      code = 2;
    }
  }
  MPI_Finalize();
  return code;
}
