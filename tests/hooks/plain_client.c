// A program that writes files without MPI-IO, as its argument says: commands, separated by ';'. Each rank runs all of them. "@1 " before
// a command: only rank 1 does. "%d" in a name: the rank. Descriptors and streams have numbers from 0 to 9.
//
//   init | finalize | exit CODE | barrier | sleep MILLISECONDS | tell RANK | hear RANK
//   hold NUMBER                        makes STEP.NUMBER and waits for GO.NUMBER
//   open D NAME FLAGS                  FLAGS of letters: r w + c(reate) t(runcate) a(ppend) x(clusive)
//   openat D DIRECTORY NAME FLAGS | creat D NAME
//   write D BYTES SEED | pwrite D OFFSET BYTES SEED | ftruncate D SIZE | map D OFFSET BYTES SEED
//   shut DESCRIPTOR | chatter DESCRIPTOR COUNT (writes to it, whether it is open or not) | badpath (pointers that lead nowhere)
//   baddup2 D (over it, which fails) | forkopen NAME (a child writes it)
//   close D | dup D TO | dup2 D TO | fcntl D TO | fork D (a child writes 1 byte, and closes) | vfork D (a child closes it)
//   fopen S NAME MODE | freopen S NAME MODE | fwrite S BYTES SEED | fclose S
//   rename FROM TO | unlink NAME | remove NAME | link FROM TO | truncate NAME SIZE | mkdir NAME | chdir NAME
//   await NAME SECONDS CODE            as lzy_commit_wait does; CODE is what it must return
//   window BYTES                       memory that the ranks share by MPI
//   mpi_write NAME BYTES SEED          opens, writes and closes with MPI-IO, alone
//
// Content: byte i of a write with seed s is s * 31 + i * 7 + i / 251, modulo 256.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kMost = 10, kName = 4096 };

static int rank;
static int descriptors[kMost];
static FILE* streams[kMost];

static void fail(const char* what) {
  fprintf(stderr, "plain_client: rank %d: %s: %s\n", rank, what, strerror(errno));
  exit(1);
}

static void check(int ok, const char* what) {
  if (!ok) fail(what);
}

static void fill(char* bytes, long count, long seed) {
  for (long i = 0; i < count; ++i) bytes[i] = (char)(seed * 31 + i * 7 + i / 251);
}

static int flags_of(const char* text) {
  int flags = strchr(text, '+') ? O_RDWR : strchr(text, 'w') ? O_WRONLY : O_RDONLY;
  if (strchr(text, 'c')) flags |= O_CREAT;
  if (strchr(text, 't')) flags |= O_TRUNC;
  if (strchr(text, 'a')) flags |= O_APPEND;
  if (strchr(text, 'x')) flags |= O_EXCL;
  return flags;
}

static void hold(const char* number) {
  char name[kName];
  snprintf(name, sizeof name, "STEP.%s", number);
  const int made = open(name, O_CREAT | O_WRONLY, 0644);
  check(made >= 0 && close(made) == 0, name);
  snprintf(name, sizeof name, "GO.%s", number);
  while (access(name, F_OK) != 0) usleep(10000);
}

static void write_with_mpi(const char* name, long count, long seed) {
  MPI_File file;
  char* bytes = malloc((size_t)count);
  fill(bytes, count, seed);
  check(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file) == MPI_SUCCESS, name);
  MPI_File_write(file, bytes, (int)count, MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
  free(bytes);
}

static void run(int argc, char** argv) {
  const char* const verb = argv[0];
#define IS(name, count) (strcmp(verb, name) == 0 && argc == (count) + 1)
#define DESCRIPTOR(i) descriptors[atoi(argv[i])]
#define STREAM(i) streams[atoi(argv[i])]
  if (IS("init", 0)) {
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  } else if (IS("finalize", 0)) {
    MPI_Finalize();
  } else if (IS("exit", 1)) {
    exit(atoi(argv[1]));
  } else if (IS("barrier", 0)) {
    MPI_Barrier(MPI_COMM_WORLD);
  } else if (IS("sleep", 1)) {
    usleep((useconds_t)atoi(argv[1]) * 1000);
  } else if (IS("tell", 1)) {
    MPI_Send(NULL, 0, MPI_BYTE, atoi(argv[1]), 0, MPI_COMM_WORLD);
  } else if (IS("hear", 1)) {
    MPI_Recv(NULL, 0, MPI_BYTE, atoi(argv[1]), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (IS("hold", 1)) {
    hold(argv[1]);
  } else if (IS("open", 3)) {
    DESCRIPTOR(1) = open(argv[2], flags_of(argv[3]), 0644);
    check(DESCRIPTOR(1) >= 0, argv[2]);
  } else if (IS("tryopen", 3)) {
    check(open(argv[2], flags_of(argv[3]), 0644) < 0, "an open that should fail");
  } else if (IS("openat", 4)) {
    const int directory = open(argv[2], O_RDONLY | O_DIRECTORY);
    DESCRIPTOR(1) = openat(directory, argv[3], flags_of(argv[4]), 0644);
    check(DESCRIPTOR(1) >= 0 && close(directory) == 0, argv[3]);
  } else if (IS("creat", 2)) {
    DESCRIPTOR(1) = creat(argv[2], 0644);
    check(DESCRIPTOR(1) >= 0, argv[2]);
  } else if (IS("write", 3) || IS("pwrite", 4)) {
    const int places = argc == 5;
    const long count = atol(argv[2 + places]);
    char* bytes = malloc((size_t)count + 1);
    fill(bytes, count, atol(argv[3 + places]));
    const ssize_t done = places ? pwrite(DESCRIPTOR(1), bytes, (size_t)count, atol(argv[2])) : write(DESCRIPTOR(1), bytes, (size_t)count);
    check(done == count, verb);
    free(bytes);
  } else if (IS("ftruncate", 2)) {
    check(ftruncate(DESCRIPTOR(1), atol(argv[2])) == 0, verb);
  } else if (IS("map", 4)) {
    const long from = atol(argv[2]), count = atol(argv[3]);
    char* bytes = mmap(NULL, (size_t)(from + count), PROT_READ | PROT_WRITE, MAP_SHARED, DESCRIPTOR(1), 0);
    check(bytes != MAP_FAILED, verb);
    fill(bytes + from, count, atol(argv[4]));
    check(munmap(bytes, (size_t)(from + count)) == 0, verb);
  } else if (IS("close", 1)) {
    check(close(DESCRIPTOR(1)) == 0, verb);
  } else if (IS("dup", 2)) {
    check((DESCRIPTOR(2) = dup(DESCRIPTOR(1))) >= 0, verb);
  } else if (IS("dup2", 2)) {
    check(dup2(DESCRIPTOR(1), DESCRIPTOR(2)) >= 0, verb);
  } else if (IS("fcntl", 2)) {
    check((DESCRIPTOR(2) = fcntl(DESCRIPTOR(1), F_DUPFD_CLOEXEC, 0)) >= 0, verb);
  } else if (IS("fork", 1)) {
    const pid_t child = fork();
    if (child == 0) {
      const int wrote = write(DESCRIPTOR(1), "x", 1) == 1;
      close(DESCRIPTOR(1));
      _exit(wrote ? 0 : 1);
    }
    int status = 0;
    check(waitpid(child, &status, 0) == child && status == 0, verb);
  } else if (IS("shut", 1)) {
    check(close(atoi(argv[1])) == 0, verb);
  } else if (IS("chatter", 2)) {
    for (int i = 0; i < atoi(argv[2]); ++i) {
      (void)!write(atoi(argv[1]), "progress\n", 9);
      usleep(100);
    }
  } else if (IS("badpath", 0)) {
    const char* const nowhere = (const char*)8;
    check(open(nowhere, O_WRONLY | O_CREAT, 0644) < 0 && errno == EFAULT && unlink(nowhere) < 0 && errno == EFAULT, verb);
    check(rename(nowhere, nowhere) < 0 && errno == EFAULT && creat(nowhere, 0644) < 0 && errno == EFAULT, verb);
  } else if (IS("baddup2", 1)) {
    check(dup2(-1, DESCRIPTOR(1)) < 0, verb);
  } else if (IS("forkopen", 1)) {
    const pid_t child = fork();
    if (child == 0) {
      const int made = open(argv[1], O_CREAT | O_WRONLY, 0644);
      const int wrote = made >= 0 && write(made, "x", 1) == 1 && close(made) == 0;
      usleep(100000);
      _exit(wrote ? 0 : 1);
    }
    int status = 0;
    check(waitpid(child, &status, 0) == child && status == 0, verb);
  } else if (IS("vfork", 1)) {
    const pid_t child = vfork();
    if (child == 0) {
      close(DESCRIPTOR(1));
      _exit(0);
    }
    check(waitpid(child, NULL, 0) == child, verb);
  } else if (IS("fopen", 3)) {
    check((STREAM(1) = fopen(argv[2], argv[3])) != NULL, argv[2]);
  } else if (IS("freopen", 3)) {
    check((STREAM(1) = freopen(argv[2], argv[3], STREAM(1))) != NULL, argv[2]);
  } else if (IS("fwrite", 3)) {
    const long count = atol(argv[2]);
    char* bytes = malloc((size_t)count + 1);
    fill(bytes, count, atol(argv[3]));
    check((long)fwrite(bytes, 1, (size_t)count, STREAM(1)) == count, verb);
    free(bytes);
  } else if (IS("fclose", 1)) {
    check(fclose(STREAM(1)) == 0, verb);
  } else if (IS("rename", 2)) {
    check(rename(argv[1], argv[2]) == 0, argv[1]);
  } else if (IS("unlink", 1)) {
    check(unlink(argv[1]) == 0, argv[1]);
  } else if (IS("remove", 1)) {
    check(remove(argv[1]) == 0, argv[1]);
  } else if (IS("link", 2)) {
    check(link(argv[1], argv[2]) == 0, argv[1]);
  } else if (IS("truncate", 2)) {
    check(truncate(argv[1], atol(argv[2])) == 0, argv[1]);
  } else if (IS("mkdir", 1)) {
    check(mkdir(argv[1], 0755) == 0 || errno == EEXIST, argv[1]);
  } else if (IS("chdir", 1)) {
    check(chdir(argv[1]) == 0, argv[1]);
  } else if (IS("await", 3)) {
    int (*await)(const char*, double, char*, size_t) = NULL;
    *(void**)&await = dlsym(RTLD_DEFAULT, "lzy_mpiio_await_commits");
    char why[500] = "";
    const int code = await == NULL ? -1 : await(strcmp(argv[1], "-") == 0 ? NULL : argv[1], atof(argv[2]), why, sizeof why);
    if (code != atoi(argv[3])) fail(why);
  } else if (IS("window", 1)) {
    MPI_Win window;
    char* memory = NULL;
    MPI_Win_allocate(atol(argv[1]), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    memory[0] = 1;
    MPI_Win_free(&window);
  } else if (IS("mpi_write", 3)) {
    write_with_mpi(argv[1], atol(argv[2]), atol(argv[3]));
  } else {
    fprintf(stderr, "plain_client: unknown command %s with %d arguments\n", verb, argc - 1);
    exit(2);
  }
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  char* commands = NULL;
  for (char* command = strtok_r(argv[1], ";", &commands); command != NULL; command = strtok_r(NULL, ";", &commands)) {
    static char names[6][kName];
    char* words[6];
    int count = 0;
    char* rest = NULL;
    char* word = strtok_r(command, " ", &rest);
    const int others = word != NULL && word[0] == '@' && atoi(word + 1) != rank;
    if (word != NULL && word[0] == '@') word = strtok_r(NULL, " ", &rest);
    for (; word != NULL && count < 6; word = strtok_r(NULL, " ", &rest)) {
      // Only %d is replaced.
      const char* const mark = strstr(word, "%d");
      if (mark == NULL) {
        snprintf(names[count], kName, "%s", word);
      } else {
        snprintf(names[count], kName, "%.*s%d%s", (int)(mark - word), word, rank, mark + 2);
      }
      words[count] = names[count];
      ++count;
    }
    if (count > 0 && !others) run(count, words);
  }
  return 0;
}
