# The public C API (lib/include/lzy/lzy.h): as C11 and C++ see it, what the library shows, and programs that use it.

# As strict as a user's build may be: what he includes must not warn.
function(lzy_capi_options target)
  target_link_libraries(${target} PRIVATE lzy)
  target_compile_options(${target} PRIVATE -Wall -Wextra -pedantic -Werror)
  set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(LZY_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${LZY_SANITIZE})
    target_link_options(${target} PRIVATE -fsanitize=${LZY_SANITIZE})
  endif()
endfunction()

# The header alone, first and twice, in both languages.
foreach(suffix c cc)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/capi_header.${suffix} @ONLY CONTENT
    "#include <lzy/exchange.h>\n#include <lzy/lzy.h>\n#include <lzy/exchange.h>\n#include <lzy/lzy.h>\nint Use(void);\nint Use(void) { return lzy_info(MPI_COMM_NULL, \"\", NULL, NULL); }\n")
endforeach()
add_library(capi_header OBJECT ${CMAKE_CURRENT_BINARY_DIR}/capi_header.c ${CMAKE_CURRENT_BINARY_DIR}/capi_header.cc)
lzy_capi_options(capi_header)

add_executable(capi_test ${CMAKE_CURRENT_LIST_DIR}/capi_test.c)
lzy_capi_options(capi_test)
add_executable(capi_example ${CMAKE_SOURCE_DIR}/docs/example.c)
lzy_capi_options(capi_example)
target_compile_definitions(capi_example PRIVATE _POSIX_C_SOURCE=200809L)

# lzy_capi_test(name script): runs the shell script in a scratch directory of its own.
function(lzy_capi_test name script)
  add_test(NAME capi.${name}
           COMMAND sh -c "scratch=$(mktemp -d) && trap 'rm -rf \"$scratch\"' EXIT && cd \"$scratch\" && { ${script}\n}")
  set_tests_properties(capi.${name} PROPERTIES LABELS capi TIMEOUT 120
    ENVIRONMENT "${mpi_environment}")
endfunction()

lzy_capi_test(symbols "
  symbols=$(${CMAKE_NM} -D --defined-only $<TARGET_FILE:lzy>) && test -n \"$symbols\" || exit 1
  ! echo \"$symbols\" | grep -v ' T lzy_'")
lzy_capi_test(alone "$<TARGET_FILE:capi_test> --no-mpi \"$PWD/work\"")
foreach(ranks 1 2 3)
  lzy_capi_test(np${ranks}
    "${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:capi_test> \"$PWD/work\"")
endforeach()
lzy_capi_test(example "
  said=$(${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2 $<TARGET_FILE:capi_example> checkpoint) || exit 1
  echo \"$said\"
  case $said in
    *'verified: intact'*'verified again: damage found'*'bytes 983040 to 1048576 (hash)'*'(hash), repaired'*) ;;
    *) exit 1 ;;
  esac")
set_tests_properties(capi.np1 capi.np2 capi.np3 capi.example PROPERTIES LABELS "capi;mpi" PROCESSORS 2)
# The library links MPI whether or not it is initialised, so these two are not for the sanitizer run either.
set_tests_properties(capi.symbols capi.alone PROPERTIES LABELS "capi;mpi")
