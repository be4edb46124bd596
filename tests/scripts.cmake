# Checks of the source tree, and what scripts/test needs to know.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

foreach(class Layering Documents TheChecksThemselves)
  add_test(NAME lint.layering.${class}
           COMMAND Python3::Interpreter -B -m unittest -v layering_test.${class}
           WORKING_DIRECTORY ${CMAKE_CURRENT_LIST_DIR})
  set_tests_properties(lint.layering.${class} PROPERTIES LABELS lint TIMEOUT 60)
endforeach()

# Builds what tests without the label "mpi" need: the test programs that link no MPI, and the programs they run. Which
# these are is known when all of tests/CMakeLists.txt has been read.
add_custom_target(tests_without_mpi DEPENDS lzy-run lzy-protect lzy-verify lzy-restore lzy-info)
function(lzy_find_tests_without_mpi)
  get_property(programs DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  foreach(program IN LISTS programs)
    get_target_property(type ${program} TYPE)
    get_target_property(libraries ${program} LINK_LIBRARIES)
    if(type STREQUAL EXECUTABLE AND NOT "MPI::MPI_C" IN_LIST libraries)
      add_dependencies(tests_without_mpi ${program})
    endif()
  endforeach()
endfunction()
cmake_language(DEFER CALL lzy_find_tests_without_mpi)
