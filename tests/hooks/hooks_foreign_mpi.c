// A library that looks like another MPI than the one lzy was built for, whatever that is. Its handles are pointers with
// bits all over them, and its calls fail when one of them arrives changed.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define API __attribute__((visibility("default")))

static const intptr_t kComm = (intptr_t)0x7123456789abcdef;
static const intptr_t kInfo = (intptr_t)0x6fedcba987654321;
static const intptr_t kFile = (intptr_t)0x5a5a5a5aa5a5a5a5;
static const intptr_t kType = (intptr_t)0x4321432143214321;

static int calls;

API int PMPI_Get_library_version(char* version, int* length) {
  strcpy(version, "Other MPI 1.0");
  *length = (int)strlen(version);
  return 0;
}
API int PMPI_Init(int* argc, char*** argv) {
  ++calls;
  return argc || argv ? 1 : 0;
}
API int PMPI_Finalize(void) {
  ++calls;
  return 0;
}
API int PMPI_File_open(intptr_t comm, const char* name, int mode, intptr_t info, intptr_t* file) {
  ++calls;
  *file = kFile;
  return comm == kComm && info == kInfo && mode == 2 && strcmp(name, "name") == 0 ? 0 : 1;
}
API int PMPI_File_write_at(intptr_t file, int64_t at, const void* data, int count, intptr_t type, void* status) {
  ++calls;
  return file == kFile && at == 77 && data == &calls && count == 5 && type == kType && status == &calls ? 0 : 1;
}
API int PMPI_File_close(intptr_t* file) {
  ++calls;
  return *file == kFile ? 0 : 1;
}

// MPI_X as the weak alias that MPI libraries make it.
#define ALIAS(name) __attribute__((weak, alias("P" #name), visibility("default")))
int MPI_Init(int* argc, char*** argv) ALIAS(MPI_Init);
int MPI_Finalize(void) ALIAS(MPI_Finalize);
int MPI_File_open(intptr_t, const char*, int, intptr_t, intptr_t*) ALIAS(MPI_File_open);
int MPI_File_write_at(intptr_t, int64_t, const void*, int, intptr_t, void*) ALIAS(MPI_File_write_at);
int MPI_File_close(intptr_t*) ALIAS(MPI_File_close);

/// Calls everything above through the names that a program would use. 0 when all of it arrived.
API int foreign_main(void) {
  intptr_t file = 0;
  int failed = MPI_Init(NULL, NULL);
  failed |= MPI_File_open(kComm, "name", 2, kInfo, &file);
  failed |= MPI_File_write_at(file, 77, &calls, 5, kType, &calls);
  failed |= MPI_File_close(&file);
  failed |= MPI_Finalize();
  return failed || calls != 5;
}
