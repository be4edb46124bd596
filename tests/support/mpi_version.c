// Says in one line what MPI a program built here is run with: the first line of MPI_Get_library_version, and, where it
// has several implementations of MPI-IO, which of them. Needs no MPI_Init.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  static char version[MPI_MAX_LIBRARY_VERSION_STRING + 1];
  int length = 0;
  if (MPI_Get_library_version(version, &length) != MPI_SUCCESS) return 1;
  version[strcspn(version, "\n")] = '\0';
  // Open MPI goes on with who built it where.
  if (strncmp(version, "Open MPI", 8) == 0) version[strcspn(version, ",")] = '\0';
  for (char *word = strtok(version, " \t"), *gap = ""; word; word = strtok(NULL, " \t"), gap = " ") {
    printf("%s%s", gap, word);
  }
#ifdef OPEN_MPI
  const char* io = getenv("OMPI_MCA_io");
  printf(", %s", io && strcmp(io, "^ompio") == 0 ? "ROMIO" : "OMPIO");
#endif
#ifdef MPI_ABI_VERSION
  printf(", ABI of MPI-5");
#endif
  printf("\n");
  return 0;
}
