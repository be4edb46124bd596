// Times of calls that option posix makes lzy wrap: open_calls DIRECTORY COUNT. Prints {"CALLS": nanoseconds of one round, ...}. No MPI.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int argc, char** argv) {
  if (argc != 3 || chdir(argv[1]) != 0) return 2;
  const long count = atol(argv[2]);
  if (close(open("file", O_CREAT | O_WRONLY, 0644)) != 0) return 1;
  double start = now();
  for (long i = 0; i < count; ++i) close(open("file", O_RDONLY));
  printf("{\"open to read, close\": %.1f", (now() - start) / (double)count);
  start = now();
  for (long i = 0; i < count; ++i) close(open("file", O_WRONLY));
  printf(", \"open to write, close\": %.1f", (now() - start) / (double)count);
  start = now();
  for (long i = 0; i < count; ++i) fclose(fopen("file", "r+"));
  printf(", \"fopen to write, fclose\": %.1f", (now() - start) / (double)count);
  start = now();
  for (long i = 0; i < count; ++i) close(dup(STDERR_FILENO));
  printf(", \"dup, close\": %.1f", (now() - start) / (double)count);
  start = now();
  for (long i = 0; i < count; ++i) (void)!rename(i % 2 == 0 ? "file" : "other", i % 2 == 0 ? "other" : "file");
  printf(", \"rename\": %.1f}\n", (now() - start) / (double)count);
  return 0;
}
