# The interposition layer: its parts, and programs run with and without it (tests/hooks_*).
if(NOT TARGET write_calls)
  add_subdirectory(clients)
endif()

add_executable(hooks_unit_test hooks_interval_set_test.cc hooks_names_test.cc hooks_peek_test.cc)
set_target_properties(hooks_unit_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_include_directories(hooks_unit_test PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(hooks_unit_test PRIVATE lzy_hooks_names lzy_flags GTest::gmock GTest::gtest_main)
gtest_discover_tests(hooks_unit_test TEST_PREFIX hooks. DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 120 LABELS unit)

lzy_mpi_test(hooks_rendezvous_test RANKS 3 SOURCES hooks_rendezvous_test.cc LIBS lzy_hooks_core)
lzy_mpi_test(hooks_commit_test RANKS 1 SOURCES hooks_commit_test.cc LIBS lzy_hooks_core)
lzy_mpi_test(hooks_view_test RANKS 1 SOURCES hooks_view_test.cc LIBS lzy_hooks_core)
lzy_mpi_test(hooks_ranges_test RANKS 1 SOURCES hooks_ranges_test.cc hooks_types.cc LIBS lzy_hooks_core)

# What the programs in clients/ do not do: files opened twice, renamed or removed while open, members of sets, ...
add_executable(hooks_client hooks_client.c)
set_target_properties(hooks_client PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/clients)
target_link_libraries(hooks_client PRIVATE lzy_flags MPI::MPI_C Threads::Threads)

# A program of another MPI, by the file name of one.
add_library(hooks_foreign_mpi SHARED hooks_foreign_mpi.c)
set_target_properties(hooks_foreign_mpi PROPERTIES OUTPUT_NAME mpi SOVERSION 40
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/foreign)
target_link_libraries(hooks_foreign_mpi PRIVATE lzy_flags)
add_executable(hooks_foreign_client hooks_foreign_client.c)
set_target_properties(hooks_foreign_client PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/foreign)
target_link_libraries(hooks_foreign_client PRIVATE hooks_foreign_mpi lzy_flags)

# hooks_test.py CLASS...: Python's unittest, one test a class.
foreach(class Symbols Calls CallsWithView Modes Updates Lifetimes Others Selection Sets Determinism Failures Foreign)
  add_test(NAME hooks.${class}
           COMMAND Python3::Interpreter -B -m unittest hooks_test.${class}
           WORKING_DIRECTORY ${CMAKE_CURRENT_LIST_DIR})
  set_tests_properties(hooks.${class} PROPERTIES LABELS mpi TIMEOUT 1200 PROCESSORS 2
    ENVIRONMENT "HOOKS_TEST_BUILD=${CMAKE_BINARY_DIR};HOOKS_TEST_MPIEXEC=${MPIEXEC_EXECUTABLE};HOOKS_TEST_MPI=${MPI_C_LIBRARIES};OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1;PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe")
endforeach()
