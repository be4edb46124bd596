// bench_limits WORK DIRECTORY THREADS MIB N M: how fast this machine can do what lzy must do at least, with THREADS
// threads and MIB MiB of data in DIRECTORY. Prints "seconds NUMBER", and "processor NUMBER", the
// processor time of all threads. No MPI.
//
//   rows    rows of N blocks, M of them parity: read the others, add them up M times by XOR, write as many bytes as that
//           parity has. What lzy-protect does, without hashes and with the simplest code
//   read    read MIB MiB, from the beginning again if the file is shorter
//
// In `rows`, each thread writes to a file of its own, so that no thread waits for another. What a kernel does
// with several writers of one file:
//
//   calls   write MIB MiB, new, to one file by calls
//   pages   through a shared mapping, which the kernel writes to, as lzy-protect does with many threads on a tmpfs
//   direct  by calls with O_DIRECT, into room that was allocated before
//   files   by calls, to a file for each thread
//
// The file that is read is DIRECTORY/limits.data. The script that runs this makes it, and removes what is written.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 64 << 10, PIECE = 1 << 20, MOST_THREADS = 1024, MOST_PARITY = 8 };

static const char *work, *directory;
static int threads, n, m;
static uint64_t size;  // bytes of data, or to be written
static uint64_t next;  // the piece that nobody has taken yet
static uint64_t end;   // of the file that is read
static int data, out[MOST_THREADS];
static uint8_t* map;

static void check(int good, const char* what) {
  if (good) return;
  perror(what);
  exit(1);
}

static int is(const char* name) {
  return strcmp(work, name) == 0;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint8_t* buffer(size_t bytes) {
  void* memory = NULL;
  check(posix_memalign(&memory, 4096, bytes) == 0, "posix_memalign");
  memset(memory, 1, bytes);
  return memory;
}

// The compiler makes vector instructions of it.
static void add(const uint64_t* from, uint64_t* to) {
  for (int i = 0; i < BLOCK / 8; ++i) to[i] ^= from[i];
}

static uint64_t take(uint64_t bytes) {
  return __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) * bytes;
}

// A unit row: N - M pieces that follow each other, in blocks, so that what was read is in the cache when it is added up.
static void rows(int me) {
  const int k = n - m;
  uint8_t* const read = buffer(BLOCK);
  uint8_t* const parity = buffer((size_t)m * PIECE);
  uint64_t at = 0;
  for (uint64_t row = take((uint64_t)k * PIECE); row < size; row = take((uint64_t)k * PIECE)) {
    for (int block = 0; block < PIECE / BLOCK; ++block) {
      for (int source = 0; source < k; ++source) {
        const ssize_t got = pread(data, read, BLOCK, (off_t)(row + (uint64_t)source * PIECE + (uint64_t)block * BLOCK));
        check(got >= 0, "pread");
        for (int q = 0; q < m; ++q) add((const uint64_t*)read, (uint64_t*)(parity + (size_t)q * PIECE + (size_t)block * BLOCK));
      }
    }
    check(pwrite(out[me], parity, (size_t)m * PIECE, (off_t)at) == (ssize_t)m * PIECE, "pwrite");
    at += (uint64_t)m * PIECE;
  }
  free(read);
  free(parity);
}

static void reading(void) {
  uint8_t* const to = buffer(PIECE / 4);
  for (uint64_t at = take(PIECE / 4); at < size; at = take(PIECE / 4)) check(pread(data, to, PIECE / 4, (off_t)(at % end)) > 0, "pread");
  free(to);
}

static void writing(int me) {
  uint8_t* const from = buffer(PIECE);
  for (uint64_t at = take(PIECE); at < size; at = take(PIECE)) {
    if (is("pages")) {
      const struct iovec to = {map + at, PIECE}, source = {from, PIECE};
      check(process_vm_writev(getpid(), &source, 1, &to, 1, 0) == PIECE, "process_vm_writev");
      madvise(map + at, PIECE, MADV_DONTNEED);
    } else {
      check(pwrite(out[is("files") ? me : 0], from, PIECE, (off_t)at) == PIECE, "pwrite");
    }
  }
  free(from);
}

static void* run(void* number) {
  const int me = (int)(intptr_t)number;
  if (is("rows")) {
    rows(me);
  } else if (is("read")) {
    reading();
  } else {
    writing(me);
  }
  return NULL;
}

static void open_files(void) {
  char name[4096];
  const int own = is("rows") || is("files");
  for (int t = 0; t < (is("read") ? 0 : own ? threads : 1); ++t) {
    snprintf(name, sizeof name, "%s/limits.%d", directory, t);
    unlink(name);
    out[t] = open(name, O_RDWR | O_CREAT | (is("direct") ? O_DIRECT : 0), 0600);
    check(out[t] >= 0, name);
  }
  if (own || is("read")) return;
  check(ftruncate(out[0], (off_t)size) == 0, "ftruncate");
  if (is("direct")) check(fallocate(out[0], 0, 0, (off_t)size) == 0, "fallocate");
  if (!is("pages")) return;
  map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, out[0], 0);
  check(map != MAP_FAILED, "mmap");
}

int main(int count, char** words) {
  if (count != 7) {
    fprintf(stderr, "bench_limits WORK DIRECTORY THREADS MIB N M\n");
    return 2;
  }
  work = words[1], directory = words[2], threads = atoi(words[3]);
  size = strtoull(words[4], NULL, 10) << 20, n = atoi(words[5]), m = atoi(words[6]);
  if (threads < 1 || threads > MOST_THREADS || m < 1 || m > MOST_PARITY || n <= m) return 2;
  char name[4096];
  snprintf(name, sizeof name, "%s/limits.data", directory);
  data = open(name, O_RDONLY);
  if (is("rows") || is("read")) {
    check(data >= 0, name);
    end = (uint64_t)lseek(data, 0, SEEK_END);
    check(end > 0, name);
  }
  const double begin = now();  // opening is in it, since allocating is a part of the way with O_DIRECT
  open_files();
  pthread_t others[MOST_THREADS];
  for (int t = 1; t < threads; ++t) check(pthread_create(&others[t], NULL, run, (void*)(intptr_t)t) == 0, "pthread_create");
  run(NULL);
  for (int t = 1; t < threads; ++t) pthread_join(others[t], NULL);
  printf("seconds %.6f\n", now() - begin);
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  printf("processor %.6f\n", (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec));
  return 0;
}
