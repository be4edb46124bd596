# Tests of the engine on real files, under MPI, and against the independent reader.
lzy_mpi_test(engine_mpi_test RANKS 1 2 3 4 SOURCES engine_mpi_test.cc LIBS engine_fixture lzy_mpi)

include(reader.cmake)
