# lzy_mpi_test(name RANKS 1 2 3 SOURCES a.cc LIBS lzy_comm)
#
# Builds the GoogleTest program `name`, with the main() of mpi_main.cc, and registers one test a number of ranks:
# mpi.name.npR, label "mpi". Every rank runs every test.
function(lzy_mpi_test name)
  cmake_parse_arguments(ARG "" "" "RANKS;SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/mpi_main.cc)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} lzy_flags MPI::MPI_C GTest::gmock GTest::gtest)
  foreach(ranks IN LISTS ARG_RANKS)
    add_test(NAME mpi.${name}.np${ranks}
             COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${name}>)
    # PROCESSORS: MPI polls while it waits, so runs beside each other only slow each other down.
    set_tests_properties(mpi.${name}.np${ranks} PROPERTIES
      LABELS mpi TIMEOUT 120 PROCESSORS 2
      ENVIRONMENT "${mpi_environment}")
  endforeach()
endfunction()

lzy_mpi_test(comm_mpi_test RANKS 1 2 3 4 SOURCES comm_mpi_test.cc comm_exchange_mpi_test.cc comm_multicast_mpi_test.cc comm_faults_mpi_test.cc LIBS lzy_mpi)

add_executable(mpi_version mpi_version.c)
set_target_properties(mpi_version PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_link_libraries(mpi_version PRIVATE lzy_flags MPI::MPI_C)
