# Helpers that turn the layering rule of CONTRIBUTING.md into build errors.

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
  target_link_options(lzy_flags INTERFACE -fsanitize=${LZY_SANITIZE})
endif()

# lzy_module(NAME SOURCES a.cc b.cc DEPENDS base geometry LIBRARIES fmt::fmt)
#
# Declares the layer lib/NAME as the static library lzy_NAME. A layer's headers are included as "NAME/header.h", and
# only layers named in DEPENDS (and theirs) are on the include path: each layer's folder is reachable only through a
# directory of its own that holds one link, so including a layer that is not declared does not compile.
function(lzy_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  set(root ${CMAKE_BINARY_DIR}/layers/${name})
  file(MAKE_DIRECTORY ${root})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${root}/${name} SYMBOLIC)
  add_library(lzy_${name} STATIC ${ARG_SOURCES})
  target_include_directories(lzy_${name} PUBLIC ${root})
  target_link_libraries(lzy_${name} PRIVATE lzy_flags)
  foreach(dep IN LISTS ARG_DEPENDS)
    target_link_libraries(lzy_${name} PUBLIC lzy_${dep})
  endforeach()
  if(ARG_LIBRARIES)
    target_link_libraries(lzy_${name} PUBLIC ${ARG_LIBRARIES})
  endif()
endfunction()
