// semantics_client OUT CASE...: runs the cases one after the other; rank R writes its transcript to OUT.R.
// semantics_client --list: the cases, a group a line.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "semantics.h"

static const struct {
  const char* name;
  const Case* cases;
} kGroups[] = {{"errors", kErrors},
               {"statuses", kStatuses},
               {"hints", kHints},
               {"names", kNames},
               {"modes", kModes},
               {"lifetimes", kLifetimes},
               {"threads", kThreads},
               {"communicators", kCommunicators},
               {"surroundings", kSurroundings},
               {"starts", kStarts}};
enum { GROUPS = sizeof kGroups / sizeof kGroups[0] };

void begin_world(void) {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  make_handlers();
  // Whatever fails on them and is none of the program's calls must not come to its ears.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, comm_handler);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, comm_handler);
}

static void list(void) {
  for (int group = 0; group < GROUPS; ++group) {
    printf("%s", kGroups[group].name);
    for (const Case* one = kGroups[group].cases; one->name != NULL; ++one) printf(" %s", one->name);
    printf("\n");
  }
}

static const Case* find(const char* name, const Case** of) {
  for (int group = 0; group < GROUPS; ++group) {
    *of = kGroups[group].cases;
    for (const Case* one = *of; one->name != NULL; ++one) {
      if (strcmp(one->name, name) == 0) return one;
    }
  }
  fprintf(stderr, "semantics_client: no case %s; --list lists them\n", name);
  exit(2);
}

// With the name of a directory that rank 0 makes.
static void run_in_directory(const Case* one) {
  char start[NAME];
  if (getcwd(start, sizeof start) == NULL) fail("getcwd", one->name);
  if (rank == 0 && mkdir(one->name, 0777) != 0) fail("mkdir", one->name);
  MPI_Barrier(MPI_COMM_WORLD);
  if (chdir(one->name) != 0) fail("chdir", one->name);
  tell("== %s", one->name);
  one->run();
  MPI_Barrier(MPI_COMM_WORLD);
  if (chdir(start) != 0) fail("chdir", start);
}

void open_transcript(const char* start);

int main(int argc, char** argv) {
  const Case* group = NULL;
  if (argc == 2 && strcmp(argv[1], "--list") == 0) {
    list();
    return 0;
  }
  if (argc < 3) {
    fprintf(stderr, "usage: semantics_client OUT CASE... | --list\n");
    return 2;
  }
  open_transcript(argv[1]);
  const Case* first = find(argv[2], &group);
  if (group == kStarts) {
    first->run();
    return 0;
  }
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads_level);
  begin_world();
  for (int i = 2; i < argc; ++i) run_in_directory(find(argv[i], &group));
  tell_code("MPI_Finalize", MPI_Finalize());
  return 0;
}
