# Nodes on this machine (scripts/cluster), jobs on them, and what is lost with a node (tests/cluster/*_test.py, Python's
# unittest). One test a class. Skipped, with the reason, where namespaces are not permitted, and with launchers other than MPICH's.
add_library(finalize_progress SHARED cluster/finalize_progress.c)
set_target_properties(finalize_progress PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests C_VISIBILITY_PRESET default)
target_link_libraries(finalize_progress PRIVATE ${CMAKE_DL_LIBS})
set(cluster_environment CLUSTER_TEST_BUILD=${CMAKE_BINARY_DIR} CLUSTER_TEST_MPIEXEC=${MPIEXEC_EXECUTABLE} ${mpi_environment})

# lzy_cluster_tests(MODULE CLASSES... [SLOW]): with SLOW only in `ctest -C Slow -L slow`.
function(lzy_cluster_tests module)
  cmake_parse_arguments(ARG "SLOW" "" "" ${ARGN})
  string(REPLACE _test "" prefix ${module})
  foreach(class IN LISTS ARG_UNPARSED_ARGUMENTS)
    set(command Python3::Interpreter -B -m unittest -v ${module}.${class})
    if(ARG_SLOW)
      set(name slow.cluster.${class})
      add_test(NAME ${name} CONFIGURATIONS Slow COMMAND ${command} WORKING_DIRECTORY ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/cluster)
      set_tests_properties(${name} PROPERTIES LABELS slow TIMEOUT 7200)
    else()
      set(name cluster.${prefix}.${class})
      add_test(NAME ${name} COMMAND ${command} WORKING_DIRECTORY ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/cluster)
      set_tests_properties(${name} PROPERTIES LABELS "cluster;mpi" TIMEOUT 1200)
    endif()
    set_tests_properties(${name} PROPERTIES PROCESSORS 2 ENVIRONMENT "${cluster_environment}")
  endforeach()
endfunction()

lzy_cluster_tests(cluster_test Apart Lost Abandoned)
lzy_cluster_tests(loss_test AfterCheckpoint)
