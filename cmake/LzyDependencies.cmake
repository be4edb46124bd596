# Everything lzy links with. Debian packages provide all of it (scripts/deps).
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3>=3.37)

# The MPI to build for is chosen by its compiler wrapper: one build directory per MPI. Debian's alternatives may point
# mpicc at another MPI than MPICH when several are installed, so MPICH's own name is preferred.
if(NOT MPI_C_COMPILER)
  find_program(MPI_C_COMPILER NAMES mpicc.mpich mpicc)
endif()
if(NOT MPIEXEC_EXECUTABLE)
  find_program(MPIEXEC_EXECUTABLE NAMES mpiexec.mpich mpiexec)
endif()
find_package(MPI REQUIRED COMPONENTS C)
# Without the C++ bindings of MPI-2, which mpi.h may still bring along, and which are in a library of their own.
target_compile_definitions(MPI::MPI_C INTERFACE MPICH_SKIP_MPICXX OMPI_SKIP_MPICXX)

include(${CMAKE_CURRENT_LIST_DIR}/LzyFindSharedMpi.cmake)
lzy_find_shared_mpi(LZY_MPI_LIBRARY LZY_MPI_SONAME)
if(NOT LZY_MPI_LIBRARY)
  message(FATAL_ERROR "No libmpi.so, libmpich.so or libmpi_abi.so with a SONAME among '${MPI_C_LIBRARIES}': "
                      "lzy needs a shared MPI library. (None at all: is CC itself an MPI wrapper? Give the wrapper as "
                      "-DMPI_C_COMPILER=... and leave CC alone.)")
endif()
message(STATUS "MPI: ${LZY_MPI_LIBRARY} (${LZY_MPI_SONAME}), programs are started by ${MPIEXEC_EXECUTABLE}")

# HDF5 for the one process that names damaged objects (tools/objects_helper). Serial: it never starts MPI. Without it, objects of
# HDF5 are not named.
pkg_check_modules(HDF5_SERIAL IMPORTED_TARGET hdf5-serial)
if(NOT HDF5_SERIAL_FOUND)
  pkg_check_modules(HDF5_SERIAL IMPORTED_TARGET hdf5>=1.10.5)
endif()
if(NOT HDF5_SERIAL_FOUND)
  message(STATUS "No HDF5 (pkg-config hdf5-serial or hdf5): tools will not name what damage in HDF5 files lies in")
endif()

# Parallel HDF5 is needed only by test clients and by the quickstart. One that is built for another MPI would bring that along.
if(LZY_MPI_SONAME MATCHES "^libmpich")
  pkg_check_modules(HDF5_MPI IMPORTED_TARGET hdf5-mpich)
elseif(LZY_MPI_LIBRARY MATCHES "^/usr/lib/.*/openmpi/")
  pkg_check_modules(HDF5_MPI IMPORTED_TARGET hdf5-openmpi)
endif()
