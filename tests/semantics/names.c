// What files are called, and where they are.
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "semantics.h"

static void write_one(const char* name) {
  tell("%s", name);
  MPI_File file = create_file(name);
  if (file == MPI_FILE_NULL) return;
  write_block(file, rank, rank);
  close_file(&file);
}

static void prefixes(void) {
  static const char* const names[] = {
      "ufs:with.ufs",  "nfs:with.nfs",       "UFS:upper",  "xfs:with.xfs", "ufs:./relative",
      "ufs:ufs:twice", "lustre:with.lustre", "unknown:f",  "a:b",          ":colon.first",
      "colon.last:",   "ab:cd:ef",           "gpfs:other", "1:2"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) write_one(names[i]);
  if (rank == 0) tell_code("delete", MPI_File_delete("ufs:with.nfs", MPI_INFO_NULL));
  barrier();
}

static void odd_names(void) {
  static const char* const names[] = {
      "  ",   "with space", " two  spaces ", "tab\tand\nline", "\xc3\xa9t\xc3\xa9", "bad\xff\xfe",    "*?[x]",     "%r",
      "%s%n", "'\"$(x)`",   "-rf",           "..dots",         ".hidden",           "back\\slash\\n", "./././here"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) write_one(names[i]);
  write_one("");
  write_one(".");
  write_one("x/");
}

enum { PREFIXES = 21 };  // what the names of sidecars and of their successors add

static void write_long(size_t length, const char* start) {
  char name[NAME_MAX + 2];
  memset(name, 'n', sizeof name);
  memcpy(name, start, strlen(start));
  name[length] = '\0';
  write_one(name);
}

static void long_names(void) {
  write_long(NAME_MAX - PREFIXES, "file");
  write_long(NAME_MAX + 1, "file");  // too long for anybody
}

// No protection, and one message each.
static void too_long_for_a_sidecar(void) {
  write_long(NAME_MAX - PREFIXES + 1, "plain");
  write_long(NAME_MAX, "plain");
}

static void make_directory(const char* name) {
  if (rank == 0 && mkdir(name, 0777) != 0) fail("mkdir", name);
  barrier();
}

static void go(const char* where) {
  if (chdir(where) != 0) fail("chdir", where);
}

static void changed_directory(void) {
  make_directory("elsewhere");
  MPI_File first = create_file("first");
  MPI_File second = create_file("./elsewhere/../second");
  go("elsewhere");
  write_block(first, rank, rank);
  MPI_File third = create_file("third");
  write_block(third, rank, rank);
  tell_code("sync", MPI_File_sync(first));
  write_block(first, ranks + rank, rank);
  close_file(&first);
  go("..");
  close_file(&third);
  write_block(second, rank, rank);
  close_file(&second);
  write_one("elsewhere/fourth");
}

// Each rank somewhere else, and the same name for all: rank 0's directory is where the sidecar belongs.
static void directories_that_differ(void) {
  char name[NAME], directory[NAME - 2];
  if (getcwd(directory, sizeof directory) == NULL) fail("getcwd", ".");
  snprintf(name, sizeof name, "%s/f", directory);
  make_directory("elsewhere");
  if (rank == 1) go("elsewhere");
  MPI_File file = create_file(name);
  write_block(file, rank, rank);
  close_file(&file);
  go(directory);
}

static void links(void) {
  make_directory("real");
  if (rank == 0) {
    make_plain("real/target", "was here");
    if (symlink("real/target", "link") != 0 || symlink("link", "link.to.link") != 0 || symlink("real", "lane") != 0 ||
        symlink("real/new", "dangling") != 0 || link("real/target", "plain.hard") != 0) {
      fail("symlink", "link");
    }
  }
  barrier();
  write_one("link");
  write_one("link.to.link");
  write_one("lane/in.lane");
  write_one("dangling");
  write_one("lane/../real/up.and.down");
}

// One file of two names in two directories: by either.
static void hard_links(void) {
  make_directory("a");
  make_directory("b");
  if (rank == 0) {
    make_plain("a/f", "was here");
    if (link("a/f", "b/f") != 0) fail("link", "b/f");
  }
  barrier();
  write_one("a/f");
  MPI_File file = open_file("b/f", MPI_MODE_RDWR);
  write_block(file, ranks + rank, rank);
  close_file(&file);
}

const Case kNames[] = {{"prefixes", prefixes},
                       {"odd_names", odd_names},
                       {"long_names", long_names},
                       {"too_long_for_a_sidecar", too_long_for_a_sidecar},
                       {"changed_directory", changed_directory},
                       {"directories_that_differ", directories_that_differ},
                       {"links", links},
                       {"hard_links", hard_links},
                       {NULL, NULL}};
