/*
 * A checkpoint, protected: every rank writes its part of one file through MPI-IO, all of them make the redundancy, and
 * the file is verified. Then, as an example of what a report holds, a byte of it goes bad and is repaired.
 *
 *   mpicc example.c -I<lzy>/lib/include -L<build>/lib -llzy -Wl,-rpath,<build>/lib -o example
 *   mpiexec -n 2 ./example /scratch/checkpoint
 *
 * The tests compile this file and run it.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <lzy/lzy.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNT = 1 << 20 }; /* doubles each rank writes: 8 MiB */

static void write_checkpoint(const char* path) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  double* values = malloc(COUNT * sizeof *values);
  if (values == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int i = 0; i < COUNT; ++i) values[i] = rank + i * 1e-6;

  MPI_File file;
  int error = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
  if (error == MPI_SUCCESS) {
    const MPI_Offset offset = (MPI_Offset)rank * COUNT * (MPI_Offset)sizeof *values;
    error = MPI_File_write_at_all(file, offset, values, COUNT, MPI_DOUBLE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
  }
  free(values);
  if (error != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Says what a report holds, and frees it. The report is the same on all ranks, so one of them prints. */
static void tell(const char* what, lzy_report* report) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    printf("%s: %s\n", what, lzy_strerror(lzy_report_code(report)));
    if (lzy_report_message(report)[0] != '\0') printf("  %s\n", lzy_report_message(report));
    for (size_t i = 0; i < lzy_report_count(report); ++i) {
      const lzy_dataset* dataset = lzy_report_dataset(report, i);
      printf("  %s: %s, %" PRIu64 " bytes, root %s\n", dataset->path, lzy_state_name(dataset->state), dataset->bytes,
             dataset->root);
      if (dataset->message[0] != '\0') printf("    %s\n", dataset->message);
      for (size_t k = 0; k < dataset->damage_count; ++k) {
        const lzy_damage* damage = lzy_report_damage(report, i, k);
        printf("    %s of %s: bytes %" PRIu64 " to %" PRIu64 " (%s)%s\n", lzy_part_name(damage->part), damage->path,
               damage->offset, damage->offset + damage->length, lzy_cause_name(damage->cause),
               damage->repaired ? ", repaired" : "");
      }
    }
  }
  lzy_report_free(report);
}

/* What a failing disk does: a byte changes, and the file's times do not. */
static void damage_one_byte(const char* path) {
  struct stat before;
  unsigned char byte;
  const int file = open(path, O_RDWR);
  if (file < 0 || fstat(file, &before) != 0 || pread(file, &byte, 1, 1000000) != 1) MPI_Abort(MPI_COMM_WORLD, 1);
  byte ^= 1;
  const struct timespec times[2] = {before.st_atim, before.st_mtim};
  if (pwrite(file, &byte, 1, 1000000) != 1 || futimens(file, times) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  close(file);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const char* path = argc > 1 ? argv[1] : "checkpoint";
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);

  write_checkpoint(path);

  lzy_options options;
  lzy_options_init(&options, sizeof options);
  options.parity = 2;
  lzy_report* report;
  int code = lzy_protect(MPI_COMM_WORLD, path, &options, &report);
  tell("protected", report);

  if (code == LZY_OK) {
    code = lzy_verify(MPI_COMM_WORLD, path, NULL, &report);
    tell("verified", report);
  }

  if (code == LZY_OK) {
    if (rank == 0) damage_one_byte(path);
    MPI_Barrier(MPI_COMM_WORLD);
    (void)lzy_verify(MPI_COMM_WORLD, path, NULL, &report);
    tell("verified again", report);
    code = lzy_repair(MPI_COMM_WORLD, path, NULL, &report);
    tell("repaired", report);
  }

  MPI_Finalize();
  return code; /* the same on all ranks */
}
