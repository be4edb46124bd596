# Where files are installed, and what other projects find lzy by: lzyConfig.cmake and lzy.pc. What is installed can be moved
# as a whole, so everything finds the rest from where it is itself, and no path of the prefix is written anywhere.
#
# Components: runtime (tools, liblzy.so.N, liblzy_mpiio.so), mpi (the half of the layer that is built for one MPI), devel
# (headers, CMake, pkg-config), doc. A second MPI adds its layer to a prefix with `cmake --install BUILD --component mpi`.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Distributions may give absolute directories. Everything below needs them relative to the prefix.
foreach(directory BINDIR LIBDIR INCLUDEDIR DATAROOTDIR DATADIR MANDIR DOCDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${directory}}")
    file(RELATIVE_PATH CMAKE_INSTALL_${directory} ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_${directory}})
    if(CMAKE_INSTALL_${directory} MATCHES "^\\.\\.")
      message(FATAL_ERROR "CMAKE_INSTALL_${directory} must be below CMAKE_INSTALL_PREFIX, ${CMAKE_INSTALL_PREFIX}")
    endif()
  endif()
endforeach()

# Not in the linker's own path: the layer is preloaded by its whole name, and loads its other half from its own directory.
set(LZY_INSTALL_LAYERDIR ${CMAKE_INSTALL_LIBDIR}/lzy)
set(LZY_INSTALL_CMAKEDIR ${CMAKE_INSTALL_LIBDIR}/cmake/lzy)
file(RELATIVE_PATH LZY_BIN_TO_LAYER /${CMAKE_INSTALL_BINDIR} /${LZY_INSTALL_LAYERDIR})
file(RELATIVE_PATH LZY_LIB_TO_LAYER /${CMAKE_INSTALL_LIBDIR} /${LZY_INSTALL_LAYERDIR})

# MPI and other libraries outside the system's directories are found where they were found for the build.
if(NOT DEFINED CMAKE_INSTALL_RPATH_USE_LINK_PATH)
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
endif()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/lzyConfig.cmake.in ${CMAKE_BINARY_DIR}/install/lzyConfig.cmake
  INSTALL_DESTINATION ${LZY_INSTALL_CMAKEDIR} NO_SET_AND_CHECK_MACRO)
# A minor version keeps the C interface (docs/reference/compatibility.md).
write_basic_package_version_file(${CMAKE_BINARY_DIR}/install/lzyConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/install/lzyConfig.cmake ${CMAKE_BINARY_DIR}/install/lzyConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/LzyFindSharedMpi.cmake DESTINATION ${LZY_INSTALL_CMAKEDIR} COMPONENT devel)
install(EXPORT lzyTargets NAMESPACE lzy:: DESTINATION ${LZY_INSTALL_CMAKEDIR} COMPONENT devel)

set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH LZY_PC_TO_PREFIX /${pkgconfig_dir} /)
string(REGEX REPLACE "/$" "" LZY_PC_TO_PREFIX ${LZY_PC_TO_PREFIX})
foreach(package lzy lzy-mpiio)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${package}.pc.in ${CMAKE_BINARY_DIR}/install/${package}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/install/${package}.pc DESTINATION ${pkgconfig_dir} COMPONENT devel)
endforeach()

# The documents, and the files that they link to, keep their places relative to each other, so that all links hold
# (the test install.Installed compares). Examples for people to copy: none is executable where it lies. D3 is in lzy-status, for its HTML pages.
install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png" PATTERN example.c PATTERN man EXCLUDE)
install(DIRECTORY contrib DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc
  PATTERN example EXCLUDE PATTERN modulefiles EXCLUDE PATTERN prepare.cmake EXCLUDE PATTERN try-package EXCLUDE)
foreach(file examples/heat3d/main.c lib/include/lzy/exchange.h lib/include/lzy/lzy.h python/README.md tests/support/mpi_known.py
    third_party/d3/LICENSE third_party/d3/README.md)
  get_filename_component(directory ${file} DIRECTORY)
  install(FILES ${file} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${directory} COMPONENT doc)
endforeach()
install(FILES contrib/example/CMakeLists.txt docs/example.c DESTINATION ${CMAKE_INSTALL_DOCDIR}/example COMPONENT doc)

# `module use PREFIX/share/modulefiles`, then `module load lzy`. Lmod takes the file in Lua, Environment Modules the other.
foreach(suffix "" .lua)
  configure_file(contrib/modulefiles/lzy${suffix}.in ${CMAKE_BINARY_DIR}/install/module/${PROJECT_VERSION}${suffix} @ONLY)
endforeach()
install(DIRECTORY ${CMAKE_BINARY_DIR}/install/module/ DESTINATION ${CMAKE_INSTALL_DATADIR}/modulefiles/lzy COMPONENT runtime)
