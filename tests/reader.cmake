# The independent reader (format_reader.py, from docs/format.md alone) against itself and against the engine.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

add_executable(reader_agreement reader_agreement.cc)
set_target_properties(reader_agreement PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_include_directories(reader_agreement PRIVATE ${CMAKE_CURRENT_LIST_DIR})
target_link_libraries(reader_agreement PRIVATE engine_fixture lzy_flags)

# numpy and xxhash belong to the system's Python; without them these tests cannot run at all.
find_program(LZY_SYSTEM_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(NOT LZY_SYSTEM_PYTHON)
  set(LZY_SYSTEM_PYTHON ${Python3_EXECUTABLE})
endif()
add_test(NAME reader.format_reader COMMAND ${LZY_SYSTEM_PYTHON} -B ${CMAKE_CURRENT_LIST_DIR}/test_format_reader.py)
add_test(NAME reader.agreement
         COMMAND ${LZY_SYSTEM_PYTHON} -B ${CMAKE_CURRENT_LIST_DIR}/reader_agreement.py $<TARGET_FILE:reader_agreement>)
set_tests_properties(reader.format_reader reader.agreement PROPERTIES LABELS reader TIMEOUT 300)
