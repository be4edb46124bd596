// bench_mapping DIRECTORY [MIB]: the ways in which the members of a group can be added up for the parity of a set. Two
// threads add up three files of MIB MiB (256) by XOR. Prints GB/s of the best of five runs for each way. No MPI.
//
// At the commit, from the page cache:
//
//   read       into a buffer that fits the second-level cache, as the row pipeline does (lib/rows)
//   populate   windows of 2 MiB, mapped with MAP_POPULATE and unmapped afterwards
//   large      the same with windows of 16 MiB
//
// Out of the write buffers of the program, which are in the cache here:
//
//   copies     each rank copies what it writes; at the commit, the copies are added up
//   sums       all ranks of a node add to sums in memory that they share. They would also have to wait for each other
//
// A mapping saves the copy, but has a page to map and to unmap for every 4 KiB. It would also need a handler of SIGBUS in
// the program, because another process may truncate the file. Copies and sums need new memory, and are read once more.
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
enum way { READ, MAP, COPIES, SUMS };
static enum way way;
static int64_t size, window;  // bytes of a file; of a mapping

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

static uint64_t* new_memory(int64_t bytes) {
  void* memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(memory != MAP_FAILED, "mmap");
  return memory;
}

// While the program writes: buffer by buffer of each file. At the commit, what was kept is added up, or read.
static void keep(int64_t part, uint64_t* sum) {
  const int64_t words = part / 8, step = PIECE / 8;
  const int kept = way == COPIES ? FILES : 1;
  uint64_t* buffer = aligned_alloc(4096, PIECE);
  uint64_t* memory = new_memory(kept * part);
  memset(buffer, 1, PIECE);
  for (int i = 0; i < FILES; ++i) {
    for (int64_t at = 0; at < words; at += step) {
      uint64_t* to = memory + at + (way == COPIES ? i * words : 0);
      if (way == COPIES || i == 0) memcpy(to, buffer, PIECE);
      for (int64_t k = 0; way == SUMS && i > 0 && k < step; ++k) to[k] ^= buffer[k];
    }
  }
  for (int64_t at = 0; at < words; at += step) {
    if (way == COPIES) add_up(memory + at, memory + words + at, memory + 2 * words + at, sum);
    if (way == SUMS) memcpy(sum, memory + at, PIECE);
  }
  munmap(memory, (size_t)(kept * part));
  free(buffer);
}

static void add_up_files(int64_t first, int64_t part, uint64_t* sum) {
  const int64_t step = way == MAP ? window : PIECE;
  const uint64_t* from[FILES];
  uint64_t* buffers[FILES];
  int files[FILES];
  for (int i = 0; i < FILES; ++i) {
    files[i] = open_file(i, O_RDONLY);
    from[i] = buffers[i] = aligned_alloc(4096, PIECE);
  }
  for (int64_t at = first; at < first + part; at += step) {
    for (int i = 0; i < FILES; ++i) {
      if (way == READ) check(pread(files[i], buffers[i], PIECE, at) == PIECE, "pread");
      if (way == MAP) from[i] = mmap(NULL, (size_t)window, PROT_READ, MAP_SHARED | MAP_POPULATE, files[i], at);
      check(from[i] != MAP_FAILED, "mmap");
    }
    for (int64_t done = 0; done < step; done += PIECE) add_up(from[0] + done / 8, from[1] + done / 8, from[2] + done / 8, sum);
    for (int i = 0; way == MAP && i < FILES; ++i) munmap((void*)from[i], (size_t)window);
  }
  for (int i = 0; i < FILES; ++i) {
    close(files[i]);
    free(buffers[i]);
  }
}

static void* work(void* argument) {
  const int64_t part = size / THREADS, first = (int64_t)(intptr_t)argument * part;
  uint64_t* sum = aligned_alloc(4096, PIECE);
  if (way == COPIES || way == SUMS) {
    keep(part, sum);
  } else {
    add_up_files(first, part, sum);
  }
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
  void* sums[THREADS];
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], &sums[i]);
  const double time = seconds() - start;
  for (int i = 0; i < THREADS; ++i) free(sums[i]);
  return time;
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    enum way way;
    int64_t window;
  } ways[] = {{"read", READ, 0}, {"populate", MAP, 2 << 20}, {"large", MAP, 16 << 20}, {"copies", COPIES, 0}, {"sums", SUMS, 0}};
  enum { WAYS = sizeof ways / sizeof *ways };
  double best[WAYS];
  for (int i = 0; i < WAYS; ++i) best[i] = 1e9;
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
    for (int i = 0; i < WAYS; ++i) {
      way = ways[i].way;
      window = ways[i].window;
      const double time = run();
      if (time < best[i]) best[i] = time;
    }
  }
  for (int i = 0; i < WAYS; ++i) printf("%s %.1f\n", ways[i].name, (double)(FILES * size) / best[i] / 1e9);
  for (int i = 0; i < FILES; ++i) {
    char name[4096];
    snprintf(name, sizeof name, "%s/mapping.%d", directory, i);
    unlink(name);
  }
  return 0;
}
