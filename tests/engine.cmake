# Tests of the engine on real files and under MPI. engine_fixture: scratch directories, random datasets.
if(TARGET engine_test)
  target_sources(engine_test PRIVATE ${CMAKE_CURRENT_LIST_DIR}/engine_fixture.cc)
endif()
