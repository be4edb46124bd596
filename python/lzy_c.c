// What Python cannot say by ctypes alone: what an MPI communicator is (an integer or a pointer), and how large the
// structures of lzy.h are.
#include <lzy/lzy.h>

#define EXPORT __attribute__((visibility("default")))

typedef int operation(MPI_Comm, const char*, const lzy_options*, lzy_report**);

// In the order of _c.OPERATIONS. `comm` points to an MPI_Comm; NULL: this process alone.
EXPORT int lzy_python_run(int number, const void* comm, const char* path, const lzy_options* options, lzy_report** report) {
  static operation* const operations[] = {lzy_protect, lzy_verify, lzy_repair, lzy_restore, lzy_info};
  if (number < 0 || number >= (int)(sizeof operations / sizeof operations[0])) return LZY_INTERNAL;
  return operations[number](comm == NULL ? MPI_COMM_NULL : *(const MPI_Comm*)comm, path, options, report);
}

EXPORT int lzy_python_copy(const void* comm, const char* source, const char* destination, const lzy_options* options,
                           const lzy_copy_options* copy, lzy_copied* copied, lzy_report** report) {
  return lzy_copy(comm == NULL ? MPI_COMM_NULL : *(const MPI_Comm*)comm, source, destination, options, copy, copied, report);
}

EXPORT int lzy_python_diff(const void* comm, const char* a, const char* b, int deep, const lzy_options* options, lzy_report** report) {
  return lzy_diff(comm == NULL ? MPI_COMM_NULL : *(const MPI_Comm*)comm, a, b, deep, options, report);
}

// In the order of _c.STRUCTURES, and then that of a communicator.
EXPORT size_t lzy_python_size(int structure) {
  static const size_t sizes[] = {sizeof(lzy_options),      sizeof(lzy_dataset), sizeof(lzy_damage),
                                 sizeof(lzy_copy_options), sizeof(lzy_copied),  sizeof(lzy_range),
                                 sizeof(lzy_difference),   sizeof(lzy_not_visible), sizeof(MPI_Comm)};
  return structure < 0 || structure >= (int)(sizeof sizes / sizeof sizes[0]) ? 0 : sizes[structure];
}

// The MPI of this library, to be compared with that of mpi4py.
EXPORT int lzy_python_mpi(char* text) {
  int length = 0;
  return MPI_Get_library_version(text, &length);
}
EXPORT size_t lzy_python_mpi_size(void) {
  return MPI_MAX_LIBRARY_VERSION_STRING;
}
