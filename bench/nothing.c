// bench_nothing: MPI begins, all ranks meet, MPI ends. What a launcher and MPI take is in the time of every program under
// mpiexec, and is not the program's.
#include <mpi.h>

int main(int count, char** words) {
  MPI_Init(&count, &words);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
