# cmake -DSOURCE=DIR -DNAME=lzy-VERSION -DDIRECTORY=DIR -P dist.cmake: makes DIRECTORY/NAME.tar.gz. In a git checkout, of
# the last commit; elsewhere, of all files but build directories.
set(tarball ${DIRECTORY}/${NAME}.tar.gz)
find_program(git git)
if(git AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${git} -C ${SOURCE} status --porcelain --untracked-files=no OUTPUT_VARIABLE changed COMMAND_ERROR_IS_FATAL ANY)
  if(changed)
    message(WARNING "These changes are not committed, so they are not in the tarball:\n${changed}")
  endif()
  execute_process(COMMAND ${git} -C ${SOURCE} -c tar.umask=0022 archive --format=tar.gz --prefix=${NAME}/ -o ${tarball} HEAD COMMAND_ERROR_IS_FATAL ANY)
else()
  set(copy ${DIRECTORY}/dist)
  file(REMOVE_RECURSE ${copy})
  file(COPY ${SOURCE}/ DESTINATION ${copy}/${NAME} PATTERN .git EXCLUDE REGEX "^${SOURCE}/build[^/]*$" EXCLUDE
       PATTERN __pycache__ EXCLUDE)
  execute_process(COMMAND ${CMAKE_COMMAND} -E tar czf ${tarball} ${NAME} WORKING_DIRECTORY ${copy} COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE_RECURSE ${copy})
endif()
message(STATUS "Made ${tarball}")
