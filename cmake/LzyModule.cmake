# Helpers that turn the rule of levels of CONTRIBUTING.md into build errors.

add_library(lzy_flags INTERFACE)
target_compile_options(lzy_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>)
if(LZY_WARNINGS_AS_ERRORS)
  target_compile_options(lzy_flags INTERFACE -Werror)
endif()
if(LZY_SANITIZE)
  # The vptr check reads memory through a pipe, so it calls every object wrong where tests leave no descriptor to be had.
  # Most of what null and object-size find, AddressSanitizer finds too, and they make a quarter of the time that building
  # takes.
  target_compile_options(lzy_flags INTERFACE -fsanitize=${LZY_SANITIZE} -fno-sanitize=vptr,null,object-size -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  # GCC 14 takes the checks for paths on which a std::optional has a value that it has not. A release has this warning.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 14)
    target_compile_options(lzy_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
  target_link_options(lzy_flags INTERFACE -fsanitize=${LZY_SANITIZE})
endif()

# lzy_compile_together(TARGET): compiles up to eight files of the target as one, which takes about half the time.
# Everything but tests does so only with sanitizers. In other builds each of those files is compiled alone, so an include
# that it lacks is an error.
function(lzy_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
endfunction()

# lzy_module(NAME SOURCES a.cc b.cc DEPENDS base hooks/contract LIBRARIES fmt::fmt)
#
# Declares a module as a static library: a room of lib/ (NAME: base) as lzy_base, a room of romio_hooks/ (NAME:
# hooks/files) as lzy_hooks_files. Its folder is that of the CMakeLists.txt that calls this, or NAME below it. Its headers
# are included as "NAME/header.h", and only those of modules named in DEPENDS (and theirs) are on the include path: each
# module's folder is reachable only through a directory of its own that holds one link, so including a module that is not
# declared does not compile.
function(lzy_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  set(folder ${CMAKE_CURRENT_SOURCE_DIR})
  if(IS_DIRECTORY ${folder}/${name})
    string(APPEND folder /${name})
  endif()
  string(REPLACE / _ module ${name})
  set(root ${CMAKE_BINARY_DIR}/levels/${module})
  get_filename_component(above ${root}/${name} DIRECTORY)
  file(MAKE_DIRECTORY ${above})
  file(CREATE_LINK ${folder} ${root}/${name} SYMBOLIC)
  add_library(lzy_${module} STATIC ${ARG_SOURCES})
  target_include_directories(lzy_${module} PUBLIC ${root})
  target_link_libraries(lzy_${module} PRIVATE lzy_flags)
  if(LZY_SANITIZE)
    lzy_compile_together(lzy_${module})
  endif()
  list(TRANSFORM ARG_DEPENDS REPLACE / _)
  list(TRANSFORM ARG_DEPENDS PREPEND lzy_)
  if(ARG_DEPENDS OR ARG_LIBRARIES)
    target_link_libraries(lzy_${module} PUBLIC ${ARG_DEPENDS} ${ARG_LIBRARIES})
  endif()
endfunction()
