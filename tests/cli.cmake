# The programs as a user runs them: exit codes and output (tests/cli/*.py, Python's unittest). One test a class.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

# Changes what sidecars say, hashes made right again.
add_executable(forge_sidecar forge_sidecar.cc)
set_target_properties(forge_sidecar PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_link_libraries(forge_sidecar PRIVATE lzy_sidecar lzy_flags)

# lzy_cli_test(FILE cli_usage.py CLASSES Help BadOptions [LABELS mpi])
function(lzy_cli_test)
  cmake_parse_arguments(ARG "" "FILE" "CLASSES;LABELS" ${ARGN})
  get_filename_component(module ${ARG_FILE} NAME_WE)
  foreach(class IN LISTS ARG_CLASSES)
    add_test(NAME cli.${module}.${class}
             COMMAND Python3::Interpreter -B -m unittest -v ${module}.${class}
             WORKING_DIRECTORY ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/cli)
    set_tests_properties(cli.${module}.${class} PROPERTIES
      LABELS "cli;${ARG_LABELS}" TIMEOUT 900
      ENVIRONMENT "TEST_LZY_BIN=${CMAKE_BINARY_DIR}/bin;TEST_LZY_LIB=${CMAKE_BINARY_DIR}/lib;TEST_LZY_MPIEXEC=${MPIEXEC_EXECUTABLE};TEST_LZY_VERSION=${PROJECT_VERSION};TEST_LZY_FORGE=$<TARGET_FILE:forge_sidecar>;${mpi_environment}")
  endforeach()
endfunction()

# A device with sectors that cannot be read, to be preloaded.
add_library(bad_sectors SHARED bad_sectors.c)
set_target_properties(bad_sectors PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests C_VISIBILITY_PRESET default)
target_link_libraries(bad_sectors PRIVATE ${CMAKE_DL_LIBS})

lzy_cli_test(FILE cli_usage.py CLASSES Help BadOptions BadPaths Tuning)
# What preloads the layer into programs; a sanitized one does not go into others.
lzy_cli_test(FILE cli_usage.py CLASSES Run LABELS preload)
lzy_cli_test(FILE cli_shared.py CLASSES SharedFile Output Directories)
lzy_cli_test(FILE cli_sets.py CLASSES Sets)
lzy_cli_test(FILE cli_sealed.py CLASSES SealedFiles)
lzy_cli_test(FILE cli_devices.py CLASSES Kept)
lzy_cli_test(FILE cli_devices.py CLASSES Lost LABELS mpi)
lzy_cli_test(FILE cli_names.py CLASSES Renamed Leftovers Debris Advice)
lzy_cli_test(FILE cli_names.py CLASSES OddNames LABELS preload)
lzy_cli_test(FILE cli_sectors.py CLASSES BadSectors LABELS preload)
lzy_cli_test(FILE cli_race.py CLASSES TwoAtOnce)
lzy_cli_test(FILE cli_hostile.py CLASSES Planted Raced StrangersDirectories)
# Some two thousand runs of tools, which take sanitized ones too long; they see forged sidecars in the fuzz targets.
lzy_cli_test(FILE cli_hostile.py CLASSES Forged LABELS preload)
lzy_cli_test(FILE cli_mpi.py CLASSES UnderMpi LABELS mpi)
