# Checks of the source tree, and what scripts/test needs to know.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

function(lzy_lint_tests name)
  foreach(class ${ARGN})
    add_test(NAME lint.${name}.${class}
             COMMAND Python3::Interpreter -B -m unittest -v ${name}_test.${class}
             WORKING_DIRECTORY ${CMAKE_CURRENT_LIST_DIR})
    set_tests_properties(lint.${name}.${class} PROPERTIES LABELS lint TIMEOUT 60)
  endforeach()
endfunction()

lzy_lint_tests(layering Layering Documents TheChecksThemselves)
lzy_lint_tests(scripts TestMpi Results)
lzy_lint_tests(bench Rounds Page)

# tests_without_mpi builds what tests without the labels "mpi" and "preload" need: the test programs that link no MPI, and
# the programs they run. tests_with_mpi (scripts/test-mpi) builds what is left: all but the programs of unit tests. Which
# these are is known when all of tests/CMakeLists.txt has been read.
add_custom_target(tests_without_mpi DEPENDS lzy-run lzy-protect lzy-verify lzy-restore lzy-info)
add_custom_target(tests_with_mpi DEPENDS test_clients)
function(lzy_find_tests_by_mpi)
  foreach(directory romio_hooks/calls romio_hooks/preload tools tests/clients tests)
    get_property(programs DIRECTORY ${CMAKE_SOURCE_DIR}/${directory} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(program IN LISTS programs)
      get_target_property(type ${program} TYPE)
      get_target_property(libraries ${program} LINK_LIBRARIES)
      if(directory STREQUAL tests AND type STREQUAL EXECUTABLE AND NOT "MPI::MPI_C" IN_LIST libraries)
        add_dependencies(tests_without_mpi ${program})
      endif()
      if(NOT type MATCHES "UTILITY|STATIC_LIBRARY" AND NOT "GTest::gtest_main" IN_LIST libraries)
        add_dependencies(tests_with_mpi ${program})
      endif()
    endforeach()
  endforeach()
endfunction()
cmake_language(DEFER CALL lzy_find_tests_by_mpi)
