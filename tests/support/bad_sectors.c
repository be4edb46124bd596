// Preloaded into tools by cli/cli_sectors.py and campaign/tools_driver.cc: files with sectors that cannot be read until
// they are written over. BAD_SECTORS names the list, a line each: inode, offset, length. As with Linux, a page with a bad
// sector cannot be read (with BAD_SECTORS_PAGE, pages are of so many bytes); what is in front of it can. WRONG_ONCE names a
// file with an inode and an offset: the first reading of this byte is wrong.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 256 };

struct sector {
  unsigned long inode, offset, length;
};

// Under a lock that goes with the file; null if there is no list.
static FILE* open_list(void) {
  const char* name = getenv("BAD_SECTORS");
  FILE* list = name != NULL ? fopen(name, "r+e") : NULL;
  if (list != NULL) flock(fileno(list), LOCK_EX);
  return list;
}

static int read_list(FILE* list, struct sector* sectors) {
  int count = 0;
  while (count < MOST && fscanf(list, "%lu %lu %lu", &sectors[count].inode, &sectors[count].offset,
                                &sectors[count].length) == 3) {
    ++count;
  }
  return count;
}

static unsigned long page_size(void) {
  const char* text = getenv("BAD_SECTORS_PAGE");
  return text != NULL ? strtoul(text, NULL, 10) : 4096;
}

// How many of `count` bytes can be read, or -1.
static ssize_t readable(int fd, size_t count, unsigned long offset) {
  struct sector sectors[MOST];
  struct stat about;
  FILE* list = open_list();
  if (list == NULL) return (ssize_t)count;
  const int known = fstat(fd, &about) == 0 ? read_list(list, sectors) : 0;
  fclose(list);
  unsigned long end = offset + count;
  for (int i = 0; i < known; ++i) {
    const unsigned long page = page_size(), begin = sectors[i].offset / page * page;
    if (sectors[i].inode != about.st_ino || begin >= end || begin + page <= offset) continue;
    if (sectors[i].offset >= (unsigned long)about.st_size || offset >= (unsigned long)about.st_size) continue;
    if (begin <= offset) return -1;
    end = begin;
  }
  return (ssize_t)(end - offset);
}

static void written(int fd, size_t count, unsigned long offset) {
  struct sector sectors[MOST];
  struct stat about;
  FILE* list = open_list();
  if (list == NULL) return;
  const int known = fstat(fd, &about) == 0 ? read_list(list, sectors) : 0;
  rewind(list);
  for (int i = 0; i < known; ++i) {
    const struct sector* bad = &sectors[i];
    const int well = bad->inode == about.st_ino && bad->offset >= offset && bad->offset + bad->length <= offset + count;
    if (!well) fprintf(list, "%lu %lu %lu\n", bad->inode, bad->offset, bad->length);
  }
  fflush(list);
  if (known > 0 && ftruncate(fileno(list), ftell(list)) != 0) abort();
  fclose(list);
}

static void spoil_once(int fd, unsigned char* got, ssize_t count, unsigned long offset) {
  const char* name = getenv("WRONG_ONCE");
  FILE* file = name != NULL && count > 0 ? fopen(name, "r+e") : NULL;
  unsigned long inode, at;
  struct stat about;
  if (file == NULL) return;
  flock(fileno(file), LOCK_EX);
  const int meant = fscanf(file, "%lu %lu", &inode, &at) == 2 && fstat(fd, &about) == 0 && inode == about.st_ino;
  if (meant && at >= offset && at < offset + (unsigned long)count) {
    got[at - offset] ^= 0x40;
    if (ftruncate(fileno(file), 0) != 0) abort();
  }
  fclose(file);
}

// The list itself is read by other calls than these.
#define WRAP(suffix, offset_type)                                                                      \
  ssize_t pread##suffix(int fd, void* to, size_t count, offset_type offset) {                          \
    ssize_t (*next)(int, void*, size_t, offset_type) = dlsym(RTLD_NEXT, "pread" #suffix);              \
    const ssize_t most = readable(fd, count, (unsigned long)offset);                                   \
    if (most < 0) {                                                                                    \
      errno = EIO;                                                                                     \
      return -1;                                                                                       \
    }                                                                                                  \
    const ssize_t got = next(fd, to, (size_t)most, offset);                                            \
    spoil_once(fd, to, got, (unsigned long)offset);                                                    \
    return got;                                                                                        \
  }                                                                                                    \
  ssize_t pwrite##suffix(int fd, const void* from, size_t count, offset_type offset) {                 \
    ssize_t (*next)(int, const void*, size_t, offset_type) = dlsym(RTLD_NEXT, "pwrite" #suffix);       \
    const ssize_t put = next(fd, from, count, offset);                                                 \
    if (put > 0) written(fd, (size_t)put, (unsigned long)offset);                                      \
    return put;                                                                                        \
  }
WRAP(, off_t)
WRAP(64, off64_t)
