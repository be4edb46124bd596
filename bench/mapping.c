// bench_mapping DIRECTORY [MIB]: what a commit of a set does with the members of a group, by read and by mmap. Two threads
// add up three files of MIB MiB (256) by XOR, from the page cache. Prints GB/s of the best of five runs for each way. No MPI.
//
//   read       into a buffer that fits the second-level cache, as the row pipeline does (lib/rows)
//   populate   windows of 2 MiB, mapped with MAP_POPULATE and unmapped afterwards
//   large      the same with windows of 16 MiB
//
// A mapping saves the copy, but has a page to map and to unmap for every 4 KiB. It would also need a handler of SIGBUS in
// the program, because another process may truncate the file.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 3, THREADS = 2, PIECE = 256 << 10, RUNS = 5 };

static const char* directory;
static int64_t size, window;  // bytes of a file; of a mapping, or 0 for read

static void check(int good, const char* what) {
  if (good) return;
  perror(what);
  exit(1);
}

static int open_file(int number, int flags) {
  char name[4096];
  snprintf(name, sizeof name, "%s/mapping.%d", directory, number);
  const int file = open(name, flags, 0600);
  check(file >= 0, name);
  return file;
}

// The compiler makes vector instructions of it.
static void add_up(const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t* sum) {
  for (int i = 0; i < PIECE / 8; ++i) sum[i] = a[i] ^ b[i] ^ c[i];
}

static void* work(void* argument) {
  const int64_t part = size / THREADS, first = (int64_t)(intptr_t)argument * part;
  const int64_t step = window > 0 ? window : PIECE;
  uint64_t* sum = aligned_alloc(4096, PIECE);
  const uint64_t* from[FILES];
  int files[FILES];
  for (int i = 0; i < FILES; ++i) {
    files[i] = open_file(i, O_RDONLY);
    from[i] = aligned_alloc(4096, PIECE);
  }
  for (int64_t at = first; at < first + part; at += step) {
    for (int i = 0; i < FILES; ++i) {
      if (window == 0) check(pread(files[i], (void*)from[i], PIECE, at) == PIECE, "pread");
      if (window > 0) from[i] = mmap(NULL, (size_t)window, PROT_READ, MAP_SHARED | MAP_POPULATE, files[i], at);
      check(from[i] != MAP_FAILED, "mmap");
    }
    for (int64_t done = 0; done < step; done += PIECE) add_up(from[0] + done / 8, from[1] + done / 8, from[2] + done / 8, sum);
    for (int i = 0; window > 0 && i < FILES; ++i) munmap((void*)from[i], (size_t)window);
  }
  for (int i = 0; i < FILES; ++i) close(files[i]);
  return sum;  // so that nothing is optimised away
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double run(void) {
  pthread_t threads[THREADS];
  const double start = seconds();
  for (intptr_t i = 0; i < THREADS; ++i) check(pthread_create(&threads[i], NULL, work, (void*)i) == 0, "pthread_create");
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  return seconds() - start;
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    int64_t window;
  } ways[] = {{"read", 0}, {"populate", 2 << 20}, {"large", 16 << 20}};
  double best[3] = {1e9, 1e9, 1e9};
  directory = argc > 1 ? argv[1] : "/dev/shm";
  size = (argc > 2 ? atoll(argv[2]) : 256) << 20;
  check(size > 0 && size % (THREADS * (16 << 20)) == 0, "MIB, a multiple of 32,");
  char* bytes = malloc(PIECE);
  for (int i = 0; i < FILES; ++i) {
    const int file = open_file(i, O_CREAT | O_TRUNC | O_RDWR);
    memset(bytes, i + 1, PIECE);
    for (int64_t at = 0; at < size; at += PIECE) check(write(file, bytes, PIECE) == PIECE, "write");
    close(file);
  }
  // The ways take turns, since the machine changes from second to second.
  for (int turn = 0; turn < RUNS; ++turn) {
    for (int way = 0; way < 3; ++way) {
      window = ways[way].window;
      const double time = run();
      if (time < best[way]) best[way] = time;
    }
  }
  for (int way = 0; way < 3; ++way) printf("%s %.1f\n", ways[way].name, (double)(FILES * size) / best[way] / 1e9);
  for (int i = 0; i < FILES; ++i) {
    char name[4096];
    snprintf(name, sizeof name, "%s/mapping.%d", directory, i);
    unlink(name);
  }
  return 0;
}
