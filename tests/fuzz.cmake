# Fuzz targets (fuzz/): in every build their corpus and mutations of it; with LZY_FUZZ (clang) libFuzzer's programs, which
# scripts/fuzz builds and runs.
set(fuzz_targets Sidecar Format Names Tuning)
add_library(fuzz_targets STATIC fuzz/sidecar_target.cc fuzz/format_target.cc fuzz/names_target.cc fuzz/tuning_target.cc)
target_include_directories(fuzz_targets PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(fuzz_targets PUBLIC lzy_engine lzy_flags)

if(LZY_FUZZ)
  foreach(target IN LISTS fuzz_targets)
    string(TOLOWER ${target} name)
    add_executable(fuzz_${name} fuzz/libfuzzer_main.cc)
    target_compile_definitions(fuzz_${name} PRIVATE FUZZ_TARGET=k${target})
    set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_link_libraries(fuzz_${name} PRIVATE fuzz_targets lzy_flags -fsanitize=fuzzer)
  endforeach()
  return()
endif()

add_executable(fuzz_target_test fuzz/fuzz_target_test.cc)
set_target_properties(fuzz_target_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_compile_definitions(fuzz_target_test PRIVATE LZY_FUZZ_CORPUS="${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus")
target_link_libraries(fuzz_target_test PRIVATE fuzz_targets engine_fixture lzy_flags GTest::gmock GTest::gtest_main)
gtest_discover_tests(fuzz_target_test TEST_PREFIX fuzz. DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${unit_timeout} LABELS unit)
