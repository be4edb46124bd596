// A checkpoint of one file for each rank by C++ streams: the name without the rank is argument 1, the seed argument 2. The file gets its
// name by a rename, as std::filesystem makes it.
#include <mpi.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc != 3) return 2;
  const std::string name = std::string(argv[1]) + "." + std::to_string(rank);
  std::vector<double> values(20000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::atof(argv[2]) + rank + static_cast<double>(i) / 3;
  bool good = false;
  {
    std::ofstream out(name + ".new", std::ios::binary);
    out << "checkpoint of rank " << rank << "\n";
    out.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(double)));
    out.close();
    good = out.good();
  }
  std::filesystem::rename(name + ".new", name);
  MPI_Finalize();
  return good ? 0 : 1;
}
