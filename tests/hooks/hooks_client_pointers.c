// Actions of hooks_client that write by the individual file pointer, also from several threads.
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "hooks_client.h"

// ROMIO sets the individual pointer back while it waits for collective calls, of others and of its own.
static void pointer_set_back(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  MPI_Request request;
  char some[100];
  fill(rank);
  check(MPI_File_set_view(file, rank * (MPI_Offset)BLOCK, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), "set_view");
  check(MPI_File_write(file, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE), "write");
  check(MPI_File_sync(file), "sync");
  for (int round = 0; round < 2; ++round) {
    check(MPI_File_seek(file, 10000, MPI_SEEK_SET), "seek");
    if (round == 0) {
      check(MPI_File_iread_at_all(file, 5, some, sizeof some, MPI_BYTE, &request), "iread_at_all");
    } else {
      check(MPI_File_iwrite_at_all(file, 5, block + 900, sizeof some, MPI_BYTE, &request), "iwrite_at_all");
    }
    check(MPI_File_write(file, block + 1000, 4096, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_Wait(&request, MPI_STATUS_IGNORE), "wait");
    check(MPI_File_write(file, block + 7000, 4096, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_File_sync(file), "sync");
  }
  close_file(&file);
}

// A program that changes its mind, or asks, between writes by the individual pointer. What it leaves is printed.
static void own_pointer(void) {
  MPI_File file = create(MPI_COMM_WORLD, path);
  MPI_Offset at = 0;
  MPI_Datatype every_other;
  MPI_Request request;
  char some[9000];
  fill(rank);
  MPI_Type_vector(2, 100, 200 * ranks, MPI_BYTE, &every_other);
  MPI_Type_commit(&every_other);
  check(MPI_File_set_view(file, rank * 100, MPI_BYTE, every_other, "native", MPI_INFO_NULL), "set_view");
  check(MPI_File_write(file, block, 40000, MPI_BYTE, MPI_STATUS_IGNORE), "write");
  check(MPI_File_sync(file), "sync");
  for (int round = 0; round < 3; ++round) {
    check(MPI_File_seek(file, 20000, MPI_SEEK_SET), "seek");
    check(MPI_File_read(file, some, sizeof some, MPI_BYTE, MPI_STATUS_IGNORE), "read");
    check(MPI_File_write(file, block + round, 300, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_File_sync(file), "sync");
    check(MPI_File_seek(file, at, MPI_SEEK_SET), "seek");
    check(MPI_File_write(file, block, 1234, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_File_write(file, block + 50000, 0, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_File_iwrite(file, block + 1234, 777, MPI_BYTE, &request), "iwrite");
    check(MPI_Wait(&request, MPI_STATUS_IGNORE), "wait");
    check(MPI_File_seek(file, -500, MPI_SEEK_CUR), "seek");
    check(MPI_File_write_all(file, block + 3000, 900, MPI_BYTE, MPI_STATUS_IGNORE), "write_all");
    check(MPI_File_seek(file, 100, MPI_SEEK_SET), "seek");
    check(MPI_File_read(file, some, 1000, MPI_BYTE, MPI_STATUS_IGNORE), "read");
    check(MPI_File_write(file, some, 300, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_File_write_all_begin(file, block + 4000, 333, MPI_BYTE), "write_all_begin");
    check(MPI_File_write_all_end(file, block + 4000, MPI_STATUS_IGNORE), "write_all_end");
    check(MPI_File_iread(file, some, 10, MPI_BYTE, &request), "iread");
    check(MPI_Wait(&request, MPI_STATUS_IGNORE), "wait");
    check(MPI_File_write(file, block + 5000, 200, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_File_sync(file), "sync");
    check(MPI_File_write(file, block + 6000, 200, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_File_get_position(file, &at), "get_position");
    check(MPI_File_seek(file, 0, MPI_SEEK_END), "seek");
    check(MPI_File_write(file, block + 7000, 200, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_File_sync(file), "sync");
  }
  MPI_Type_free(&every_other);
  close_file(&file);
  printf("%d: %lld\n", rank, (long long)at);
}

// Threads with a file each, and all of them with one more by its individual pointer. Their own files are not shared
// with other ranks: ROMIO (MPICH 4.0.2) holds its one lock during the barrier in MPI_File_close, so two ranks that
// close two files from two threads lock each other out.
enum { THREADS = 4 };
static MPI_File everybodys;

static void* one_thread(void* of) {
  const int number = rank * THREADS + *(const int*)of;
  char name[NAME];
  char data[1000];
  memset(data, 'a' + number, sizeof data);
  snprintf(name, sizeof name, "%s.%d", path, number);
  for (int again = 0; again < 3; ++again) {
    MPI_File file = create(MPI_COMM_SELF, name);
    for (int i = 0; i < 50; ++i) {
      check(MPI_File_write_at(file, (MPI_Offset)i * (MPI_Offset)sizeof data, data, sizeof data, MPI_BYTE,
                              MPI_STATUS_IGNORE),
            "write_at");
      if (i == 25) check(MPI_File_sync(file), "MPI_File_sync");
      check(MPI_File_write(everybodys, data, sizeof data, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    }
    close_file(&file);
  }
  return NULL;
}

static void threads(void) {
  pthread_t running[THREADS];
  int numbers[THREADS];
  everybodys = create(MPI_COMM_WORLD, path);
  check(MPI_File_seek(everybodys, rank * (MPI_Offset)1000000, MPI_SEEK_SET), "seek");
  for (int i = 0; i < THREADS; ++i) {
    numbers[i] = i;
    pthread_create(&running[i], NULL, one_thread, &numbers[i]);
  }
  for (int i = 0; i < THREADS; ++i) pthread_join(running[i], NULL);
  close_file(&everybodys);
}

const Action pointer_actions[] = {
    ACTION(pointer_set_back),
    ACTION(own_pointer),
    ACTION(threads),
    END_OF_ACTIONS,
};
