# Everything lzy links with. Debian packages provide all of it (scripts/deps).
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

# The MPI to build for is chosen by its compiler wrapper: one build directory per MPI. Debian's alternatives may point
# mpicc at another MPI than MPICH when several are installed, so MPICH's own name is preferred.
if(NOT MPI_C_COMPILER)
  find_program(MPI_C_COMPILER NAMES mpicc.mpich mpicc)
endif()
if(NOT MPIEXEC_EXECUTABLE)
  find_program(MPIEXEC_EXECUTABLE NAMES mpiexec.mpich mpiexec)
endif()
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI REQUIRED COMPONENTS C)

# HDF5 is needed only by test clients and by the quickstart.
pkg_check_modules(HDF5_MPI IMPORTED_TARGET hdf5-mpich)
