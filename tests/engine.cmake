# Tests of the engine on real files, under MPI, and against the independent reader. engine_fixture: scratch directories,
# random datasets, images of directories.
if(TARGET engine_test)
  target_sources(engine_test PRIVATE ${CMAKE_CURRENT_LIST_DIR}/engine_fixture.cc)
endif()

lzy_mpi_test(engine_mpi_test RANKS 1 2 3 4 SOURCES engine_mpi_test.cc engine_fixture.cc LIBS lzy_engine)

include(reader.cmake)
