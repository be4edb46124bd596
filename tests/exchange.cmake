# Validated messages (docs/exchange.md): the protocol, faults in its way, and the public functions.
lzy_mpi_test(exchange_mpi_test RANKS 1 2 3 4 LIBS lzy_validated lzy_capi_exchange
  SOURCES exchange_mpi_test.cc exchange_faults_mpi_test.cc exchange_types_mpi_test.cc exchange_capi_mpi_test.cc)
lzy_mpi_test(exchange_threads_mpi_test RANKS 1 2 3 LIBS lzy_validated lzy_capi_exchange SOURCES exchange_threads_mpi_test.cc)
target_compile_definitions(exchange_threads_mpi_test PRIVATE LZY_TEST_THREADS=MPI_THREAD_MULTIPLE)
target_link_libraries(exchange_threads_mpi_test PRIVATE Threads::Threads)

add_test(NAME slow.exchange_huge CONFIGURATIONS Slow
  COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2 $<TARGET_FILE:exchange_mpi_test> --gtest_filter=ExchangeSlow.*)
set_tests_properties(slow.exchange_huge PROPERTIES LABELS slow TIMEOUT 1800 PROCESSORS 2 ENVIRONMENT "${mpi_environment};LZY_TEST_HUGE=1")
