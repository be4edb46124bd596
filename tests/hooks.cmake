# The interposition layer: its parts, and programs run with and without it (tests/hooks_*).
if(NOT TARGET write_calls)
  add_subdirectory(clients)
endif()

add_executable(hooks_unit_test hooks_names_test.cc hooks_peek_test.cc)
set_target_properties(hooks_unit_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_include_directories(hooks_unit_test PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(hooks_unit_test PRIVATE lzy_hooks_names lzy_flags GTest::gmock GTest::gtest_main)
gtest_discover_tests(hooks_unit_test TEST_PREFIX hooks. DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 120 LABELS unit)

lzy_mpi_test(hooks_rendezvous_test RANKS 3 SOURCES hooks_rendezvous_test.cc LIBS lzy_hooks_core)
lzy_mpi_test(hooks_commit_test RANKS 1 SOURCES hooks_commit_test.cc LIBS lzy_hooks_core)
lzy_mpi_test(hooks_view_test RANKS 1 SOURCES hooks_view_test.cc LIBS lzy_hooks_core)
lzy_mpi_test(hooks_ranges_test RANKS 1 SOURCES hooks_ranges_test.cc hooks_types.cc LIBS lzy_hooks_core)
lzy_mpi_test(hooks_capture_test RANKS 1 SOURCES hooks_capture_test.cc hooks_types.cc LIBS lzy_hooks_core)

# What the programs in clients/ do not do: files opened twice, renamed or removed while open, members of sets, ...
add_executable(hooks_client hooks_client.c)
set_target_properties(hooks_client PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/clients)
target_link_libraries(hooks_client PRIVATE lzy_flags MPI::MPI_C Threads::Threads)

add_executable(hooks_linked_client hooks_client.c)
set_target_properties(hooks_linked_client PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/clients)
target_link_libraries(hooks_linked_client PRIVATE lzy_flags lzy_mpiio MPI::MPI_C Threads::Threads)

add_library(hooks_tool SHARED hooks_tool.c)
set_target_properties(hooks_tool PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_link_libraries(hooks_tool PRIVATE lzy_flags MPI::MPI_C)

# A program of another MPI, by the file name of one: MPICH's to Open MPI, Open MPI's to all others.
set(foreign_version 40)
if(LZY_MPI_SONAME STREQUAL "libmpi.so.40")
  set(foreign_version 12)
endif()
add_library(hooks_foreign_mpi SHARED hooks_foreign_mpi.c)
set_target_properties(hooks_foreign_mpi PROPERTIES OUTPUT_NAME mpi SOVERSION ${foreign_version}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/foreign)
target_link_libraries(hooks_foreign_mpi PRIVATE lzy_flags)
add_executable(hooks_foreign_client hooks_foreign_client.c)
set_target_properties(hooks_foreign_client PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/foreign)
target_link_libraries(hooks_foreign_client PRIVATE hooks_foreign_mpi lzy_flags)

# lzy_hooks_tests(MODULE CLASSES...): Python's unittest, one test a class, named PREFIX.CLASS for the module PREFIX_test.
set(hooks_test_environment HOOKS_TEST_BUILD=${CMAKE_BINARY_DIR} HOOKS_TEST_MPIEXEC=${MPIEXEC_EXECUTABLE}
  HOOKS_TEST_MPI=${LZY_MPI_LIBRARY} ${mpi_environment})
if(LZY_SANITIZE MATCHES address)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libasan.so OUTPUT_VARIABLE sanitizer
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  list(APPEND hooks_test_environment HOOKS_TEST_SANITIZER=${sanitizer})
endif()
function(lzy_hooks_tests module)
  string(REPLACE _test "" prefix ${module})
  foreach(class IN LISTS ARGN)
    add_test(NAME ${prefix}.${class}
             COMMAND Python3::Interpreter -B -m unittest -v ${module}.${class}
             WORKING_DIRECTORY ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
    set_tests_properties(${prefix}.${class} PROPERTIES LABELS mpi TIMEOUT 1200 PROCESSORS 2
      ENVIRONMENT "${hooks_test_environment}")
  endforeach()
endfunction()

lzy_hooks_tests(hooks_test Symbols Calls CallsWithView Modes Capture DeviceDirectories Sealed Updates Lifetimes Others Selection Summary Sets Heal Determinism
  Failures Foreign)
lzy_hooks_tests(launch_test Launchers Linked)
# Reads that are checked.
add_executable(reads_client reads_client.c)
set_target_properties(reads_client PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/clients)
target_link_libraries(reads_client PRIVATE lzy_flags MPI::MPI_C)
lzy_hooks_tests(reads_test EveryCall Damage Writers)

# Writes that are checked, and an MPI library that is faulty.
add_library(faulty_io SHARED faulty_io.c)
set_target_properties(faulty_io PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests C_VISIBILITY_PRESET default)
target_link_libraries(faulty_io PRIVATE ${CMAKE_DL_LIBS})
lzy_hooks_tests(writes_test Faults Others Sets)

lzy_hooks_tests(trouble_test FullFileSystem FullDisk FullXfs DiskThatGivesUp ReadOnly Permissions OneMember Limits
  InPlaceOfASidecar)

# Programs and tools that are killed at every point of what they do to storage.
add_executable(kill_client kill_client.c)
set_target_properties(kill_client PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/clients)
target_link_libraries(kill_client PRIVATE lzy_flags MPI::MPI_C)
add_library(kill_at SHARED kill_at.c)
set_target_properties(kill_at PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests C_VISIBILITY_PRESET default)
target_link_libraries(kill_at PRIVATE ${CMAKE_DL_LIBS})
lzy_hooks_tests(kill_test InPrograms InProgramsAndThenRenamed AtRandom InTools Interrupted)

# Calls of the system that are interrupted, come short, fail or take long.
add_library(io_trouble SHARED io_trouble.c)
set_target_properties(io_trouble PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests C_VISIBILITY_PRESET default)
target_link_libraries(io_trouble PRIVATE ${CMAKE_DL_LIBS})
lzy_hooks_tests(io_trouble_test Restless Failing Slow)
add_test(NAME slow.io_trouble CONFIGURATIONS Slow
  COMMAND Python3::Interpreter -B -m unittest -v io_trouble_test WORKING_DIRECTORY ${CMAKE_CURRENT_LIST_DIR})
set_tests_properties(slow.io_trouble PROPERTIES LABELS slow TIMEOUT 7200
  ENVIRONMENT "${hooks_test_environment};LZY_TEST_ALL_POINTS=1")

add_test(NAME slow.valgrind CONFIGURATIONS Slow
  COMMAND Python3::Interpreter -B -m unittest -v valgrind_test WORKING_DIRECTORY ${CMAKE_CURRENT_LIST_DIR})
set_tests_properties(slow.valgrind PROPERTIES LABELS slow TIMEOUT 1800 ENVIRONMENT "${hooks_test_environment}")

# A program that writes down what MPI tells it, with and without the layer.
file(GLOB semantics_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/semantics/*.c)
add_executable(semantics_client ${semantics_sources})
set_target_properties(semantics_client PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/clients)
target_link_libraries(semantics_client PRIVATE lzy_flags MPI::MPI_C Threads::Threads)
lzy_hooks_tests(semantics_test Errors Statuses Hints Names Modes Lifetimes Communicators ManyThreads Surroundings Starts
  SwitchedOff)
