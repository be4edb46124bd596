# A row of docs/performance/scale.md, simulated. Skipped where SimGrid is not installed, as in scripts/deps, which has nothing
# that only this needs (SimGrid brings boost along). Builds the target bench_scale.
if(LZY_BUILD_BENCH)
  add_test(NAME bench.scale
           COMMAND Python3::Interpreter -B ${CMAKE_SOURCE_DIR}/bench/scale/run --tiny --build ${CMAKE_BINARY_DIR})
  set_tests_properties(bench.scale PROPERTIES LABELS mpi TIMEOUT 600 SKIP_RETURN_CODE 77 RUN_SERIAL ON)
endif()
