# CPack runs this on the files of a package before it packs them (cmake/LzyPackage.cmake). Debian wants manual pages and the
# changelog compressed, the license as `copyright`, and completions of zsh in a directory of packages.
file(GLOB roots ${CPACK_TEMPORARY_DIRECTORY}/usr ${CPACK_TEMPORARY_DIRECTORY}/*/usr)
find_program(gzip gzip REQUIRED)
foreach(root IN LISTS roots)
  file(GLOB_RECURSE pages ${root}/share/man/*)
  foreach(page IN LISTS pages)
    if(NOT page MATCHES "\\.gz$")
      execute_process(COMMAND ${gzip} -9nf ${page} COMMAND_ERROR_IS_FATAL ANY)
    endif()
  endforeach()
  if(NOT CPACK_GENERATOR STREQUAL DEB)
    continue()
  endif()
  set(doc ${root}/share/doc/lzy)
  string(TIMESTAMP today "%a, %d %b %Y %H:%M:%S +0000" UTC)
  file(WRITE ${doc}/changelog "lzy (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n  * Version ${CPACK_PACKAGE_VERSION}.\n\n"
       " -- ${CPACK_PACKAGE_CONTACT}  ${today}\n")
  execute_process(COMMAND ${gzip} -9nf ${doc}/changelog COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${doc}/LICENSE license)
  file(READ ${doc}/third_party/d3/LICENSE d3)
  file(WRITE ${doc}/copyright "Upstream-Name: lzy\nLicense: BSD-3-Clause\n\n${license}\n"
       "lzy-status contains modules of D3 (https://d3js.org).\nLicense: ISC\n\n${d3}")
  file(REMOVE ${doc}/LICENSE ${doc}/third_party/d3/LICENSE)
  if(EXISTS ${root}/share/zsh/site-functions)
    file(RENAME ${root}/share/zsh/site-functions ${root}/share/zsh/vendor-completions)
  endif()
  # Not file(INSTALL), which would put DESTDIR in front.
  file(COPY ${CMAKE_CURRENT_LIST_DIR}/lintian-overrides DESTINATION ${root}/share/lintian/overrides
       FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  file(RENAME ${root}/share/lintian/overrides/lintian-overrides ${root}/share/lintian/overrides/lzy)
endforeach()
