# Programs of the libraries that people reach MPI-IO through, run with and without the layer by
# clients_test.py. A library that is not installed, or is built for another MPI than this build, makes its test be
# skipped with the reason. What is known of each goes to build/.../clients/clients.json, which the test reads.
include(CheckSymbolExists)

set(LZY_CLIENT_WHEELS ${CMAKE_SOURCE_DIR}/build/client-wheels CACHE PATH
  "Directory of Python packages that scripts/client-wheels made, for test clients only")
set(LZY_CLIENT_PYTHON /usr/bin/python3 CACHE FILEPATH
  "The Python that python3-mpi4py and python3-h5py-mpi are packaged for")

# The MPI library itself, and the names of those that packaged libraries may have been linked with and that it can stand
# in for. MPI's standard ABI is no such name: nothing in Debian 12 is linked with it.
file(REAL_PATH ${LZY_MPI_LIBRARY} client_mpi_library)
set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_C)
check_symbol_exists(OPEN_MPI mpi.h LZY_CLIENT_MPI_IS_OPENMPI)
unset(CMAKE_REQUIRED_LIBRARIES)
set(client_hdf5 mpich)
if(LZY_CLIENT_MPI_IS_OPENMPI)
  set(client_mpi openmpi)
  set(client_hdf5 openmpi)
  set(client_sonames libmpi.so.40)
elseif(client_mpi_library MATCHES "/libmpi_abi\\.so")
  set(client_mpi mpiabi)
  set(client_sonames libmpi_abi.so.1)
else()
  set(client_mpi mpich)
  set(client_sonames libmpich.so.12 libmpi.so.12)
endif()

# Directories for LD_LIBRARY_PATH: that of the MPI, for it and what it needs itself, and one in which all those names
# are the MPI too.
set(client_abi ${CMAKE_BINARY_DIR}/clients/abi)
get_filename_component(client_mpi_directory ${client_mpi_library} DIRECTORY)
file(MAKE_DIRECTORY ${client_abi})
foreach(soname IN LISTS client_sonames)
  file(CREATE_LINK ${client_mpi_library} ${client_abi}/${soname} SYMBOLIC)
endforeach()

add_custom_target(test_clients)
# Libraries may also need MPI's C++ bindings, which Open MPI 5 has no more; another version's do not do.
if(LZY_CLIENT_MPI_IS_OPENMPI)
  file(GLOB client_cxx RELATIVE ${client_mpi_directory} ${client_mpi_directory}/libmpi_cxx.so.*)
  list(APPEND client_sonames ${client_cxx})
endif()

set(client_entries "")
# lzy_client_entry(NAME REASON): notes that the program NAME can be run, or why (REASON) there is none.
macro(lzy_client_entry name reason)
  list(APPEND client_entries
    "    \"${name}\": {\"program\": \"${CMAKE_BINARY_DIR}/clients/${name}\", \"missing\": \"${reason}\"}")
  if(NOT "${reason}" STREQUAL "")
    message(STATUS "No test client ${name}: ${reason}")
  endif()
endmacro()

# lzy_client_mpi_of(FILE OUT): OUT is empty if the shared library FILE is linked with this build's family of MPI, else
# says what it is linked with.
function(lzy_client_mpi_of file out)
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${file} OUTPUT_VARIABLE headers ERROR_QUIET)
  string(REGEX MATCHALL "NEEDED +libmpi(ch|_cxx)?\\.so\\.[0-9]+" needed "${headers}")
  list(TRANSFORM needed REPLACE "NEEDED +" "")
  set(reason "")
  foreach(library IN LISTS needed)
    if(NOT library IN_LIST client_sonames)
      set(reason "${file} is linked with ${library}, which is not the MPI of this build (${client_mpi})")
    endif()
  endforeach()
  set(${out} "${reason}" PARENT_SCOPE)
endfunction()

# lzy_client_of_library(NAME PACKAGE p HEADER h INCLUDES d... LIBRARIES a b LIBRARY_PATHS d...): builds NAME.c with it.
function(lzy_client_of_library name)
  cmake_parse_arguments(ARG "" "PACKAGE;HEADER" "INCLUDES;LIBRARIES;LIBRARY_PATHS" ${ARGN})
  find_path(${name}_INCLUDE ${ARG_HEADER} HINTS ${ARG_INCLUDES})
  set(found "")
  set(reason "")
  foreach(library IN LISTS ARG_LIBRARIES)
    find_library(${name}_${library} ${library} HINTS ${ARG_LIBRARY_PATHS})
    if(${name}_${library})
      list(APPEND found ${${name}_${library}})
    else()
      set(reason "${ARG_PACKAGE} is not installed")
    endif()
  endforeach()
  if(NOT ${name}_INCLUDE)
    set(reason "${ARG_PACKAGE} is not installed")
  endif()
  foreach(library IN LISTS found)
    if(reason STREQUAL "")
      lzy_client_mpi_of(${library} reason)
    endif()
  endforeach()
  if(reason STREQUAL "")
    add_executable(${name} ${name}.c)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/clients)
    target_include_directories(${name} SYSTEM PRIVATE ${${name}_INCLUDE})
    # Packaged libraries name the MPI they were linked with, which is found at run time (client_abi above).
    target_link_libraries(${name} PRIVATE ${found} MPI::MPI_C lzy_flags -Wl,--allow-shlib-undefined)
    add_dependencies(test_clients ${name})
  endif()
  lzy_client_entry(${name} "${reason}")
  set(client_entries "${client_entries}" PARENT_SCOPE)
endfunction()

lzy_client_of_library(hdf5_client PACKAGE libhdf5-${client_hdf5}-dev HEADER hdf5.h
  INCLUDES /usr/include/hdf5/${client_hdf5} LIBRARIES hdf5_${client_hdf5})
lzy_client_of_library(plain_hdf5_client PACKAGE libhdf5-${client_hdf5}-dev HEADER hdf5.h
  INCLUDES /usr/include/hdf5/${client_hdf5} LIBRARIES hdf5_${client_hdf5})
lzy_client_of_library(netcdf_client PACKAGE libnetcdf-mpi-dev HEADER netcdf_par.h
  INCLUDES /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/netcdf/mpi/include LIBRARIES netcdf_mpi)
lzy_client_of_library(pnetcdf_client PACKAGE libpnetcdf-dev HEADER pnetcdf.h LIBRARIES pnetcdf)
lzy_client_of_library(p4est_client PACKAGE libp4est-dev HEADER p4est.h LIBRARIES p4est sc)

# Fortran has three interfaces to MPI, and the compiler wrapper knows which of them there are. It has the name of the C
# wrapper, but for one part.
get_filename_component(wrapper_directory ${MPI_C_COMPILER} DIRECTORY)
get_filename_component(wrapper_name ${MPI_C_COMPILER} NAME)
set(wrapper_names "")
foreach(name mpifort mpif90)
  string(REGEX REPLACE "^mpig?cc" ${name} name "${wrapper_name}")
  list(APPEND wrapper_names ${name})
endforeach()
find_program(LZY_CLIENT_MPIFORT NAMES ${wrapper_names} HINTS ${wrapper_directory} NO_DEFAULT_PATH)
foreach(interface mpif_h mpi mpi_f08 plain)
  string(TOUPPER USE_${interface} definition)
  set(name ${interface}_fortran)
  set(source plain_fortran_client.F90)
  if(NOT interface STREQUAL "plain")
    set(name fortran_${interface})
    set(source fortran_client.F90)
  endif()
  set(reason "")
  if(NOT LZY_CLIENT_MPIFORT)
    set(reason "there is no Fortran compiler wrapper beside ${MPI_C_COMPILER}")
  else()
    set(directory ${CMAKE_BINARY_DIR}/clients/${name}.build)
    file(MAKE_DIRECTORY ${directory})
    set(compile ${LZY_CLIENT_MPIFORT} -O1 -D${definition} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    if(NOT LZY_CLIENT_${definition}_WORKS)  # tried again until it does: a compiler may have been installed since
      execute_process(COMMAND ${compile} -o ${directory}/try WORKING_DIRECTORY ${directory}
                      RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
      string(REGEX MATCH "[^\n]*(rror|not found)[^\n]*" complaint "${output}")
      string(REGEX REPLACE "[\"\\]" "" complaint "${complaint}")
      if(NOT failed)
        set(LZY_CLIENT_${definition}_WORKS ON CACHE INTERNAL "${LZY_CLIENT_MPIFORT} compiles ${source}")
      endif()
    endif()
    if(LZY_CLIENT_${definition}_WORKS)
      add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/clients/${name}
        COMMAND ${compile} -o ${CMAKE_BINARY_DIR}/clients/${name}
        DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} WORKING_DIRECTORY ${directory})
      add_custom_target(${name}_client ALL DEPENDS ${CMAKE_BINARY_DIR}/clients/${name})
      add_dependencies(test_clients ${name}_client)
    else()
      set(reason "${LZY_CLIENT_MPIFORT} cannot compile it: ${complaint}")
    endif()
  endif()
  lzy_client_entry(${name} "${reason}")
endforeach()

list(JOIN client_entries ",\n" client_entries)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/clients/clients.json @ONLY CONTENT [[{
  "mpi": "@client_mpi@",
  "mpi_library": "@client_mpi_library@",
  "library_path": "@client_mpi_directory@:@client_abi@",
  "python": "@LZY_CLIENT_PYTHON@",
  "wheels": "@LZY_CLIENT_WHEELS@",
  "clients": {
@client_entries@
  }
}
]])

# lzy_client_tests(SCRIPT CLASS...): one test a class; unittest's "skipped" becomes CTest's.
function(lzy_client_tests script)
  foreach(class IN LISTS ARGN)
    add_test(NAME clients.${class}
             COMMAND ${LZY_CLIENT_PYTHON} -B ${script} ${class}
             WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    set_tests_properties(clients.${class} PROPERTIES LABELS mpi TIMEOUT 1200 PROCESSORS 2 SKIP_RETURN_CODE 77
      ENVIRONMENT "${hooks_test_environment}")
  endforeach()
endfunction()

# The first: programs that write a file for each rank, without MPI-IO.
lzy_client_tests(plain_clients_test.py PlainCxx PlainFortran PlainHdf5 PlainPython)
lzy_client_tests(clients_test.py Hdf5 Netcdf Pnetcdf P4est FortranMpifH FortranMpi FortranMpiF08 Mpi4py Mpi4pyPublished H5py Mpi4pyOwnTests
  Mpi4pyPublishedOwnTests)
