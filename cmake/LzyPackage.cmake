# Packages: `cpack -G DEB`, `-G RPM` or `-G TGZ` in the build directory, and the source tarball by the target `dist`.
# scripts/package does all of it, and tries the packages.
set(LZY_PACKAGE_CONTACT "lzy maintainers <lzy@example.org>" CACHE STRING "Name and address of whoever makes packages")

set(CPACK_PACKAGE_NAME lzy)
set(CPACK_PACKAGE_CONTACT ${LZY_PACKAGE_CONTACT})
set(CPACK_PACKAGE_VENDOR "the lzy authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "lazy redundancy and verification for MPI-IO")
set(CPACK_PACKAGE_DESCRIPTION
"lzy protects files that parallel programs write through MPI-IO, directly or
through HDF5, NetCDF-4, PnetCDF or h5py. When a program syncs or closes a file,
lzy computes parity and hashes of the file. With them, it finds lost files and
corrupted blocks, and rebuilds them. Programs stay unchanged.
.
This package has the tools, the layer that is preloaded into MPI programs, and
the C interface.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
# One package with everything. Parts for further MPIs come from their build directories.
set(CPACK_DEB_COMPONENT_INSTALL OFF)
set(LZY_PACKAGE_OTHER_BUILDS "" CACHE STRING "Build directories whose layers for other MPIs go into the packages, too")
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};lzy;ALL;/")
foreach(directory IN LISTS LZY_PACKAGE_OTHER_BUILDS)
  list(APPEND CPACK_INSTALL_CMAKE_PROJECTS "${directory};lzy;mpi;/")
endforeach()
# What Debian wants in other places or forms than `cmake --install` makes it.
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/contrib/packaging/prepare.cmake)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# The libraries, as dpkg-shlibdeps finds them. The MPI of the tools is among them.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Not by CPack, which takes the layers for public libraries, and knows no /usr/lib/ARCHITECTURE.
file(WRITE ${CMAKE_BINARY_DIR}/install/shlibs "liblzy ${PROJECT_VERSION_MAJOR} lzy (>= ${PROJECT_VERSION})\n")
file(WRITE ${CMAKE_BINARY_DIR}/install/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/install/shlibs ${CMAKE_BINARY_DIR}/install/triggers)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "mpich, libmpich-dev, openssh-client")

set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE "BSD-3-Clause AND ISC")  # ISC: D3, in lzy-status
set(CPACK_RPM_PACKAGE_GROUP Applications/Engineering)
# Directories that other packages own.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION
  /usr/share/bash-completion /usr/share/bash-completion/completions /usr/share/zsh /usr/share/zsh/site-functions
  /usr/share/fish /usr/share/fish/vendor_completions.d /usr/share/modulefiles /usr/share/man /usr/share/man/man1
  /usr/share/man/man5 /usr/share/man/man7 /usr/${CMAKE_INSTALL_LIBDIR}/cmake /usr/${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(NOT CPACK_GENERATOR)
  set(CPACK_GENERATOR TGZ)
endif()
include(CPack)

add_custom_target(dist
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DNAME=lzy-${PROJECT_VERSION} -DDIRECTORY=${CMAKE_BINARY_DIR}
    -P ${PROJECT_SOURCE_DIR}/cmake/dist.cmake VERBATIM)
