# Random damage to random datasets, judged by somebody who knows the truth: 10,000 cases by the engine on files in memory, 200 by
# the built programs on real files, in parts that may run beside each other. By hand: campaign [--tools [--ranks P]]
# FIRST-SEED COUNT.
add_executable(campaign campaign/main.cc campaign/campaign.cc campaign/damage.cc campaign/truth.cc campaign/engine_driver.cc
  campaign/tools_driver.cc)
set_target_properties(campaign PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_include_directories(campaign PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(campaign PRIVATE lzy_engine lzy_flags nlohmann_json::nlohmann_json)
set(campaign_cases 5000)
if(LZY_SANITIZE)
  set(campaign_cases 500)
endif()
foreach(first 0 5000)
  add_test(NAME campaign.${first} COMMAND campaign ${first} ${campaign_cases})
  set_tests_properties(campaign.${first} PROPERTIES LABELS unit TIMEOUT ${unit_timeout})
endforeach()

# Sectors that cannot be read are a preloaded library's: hence the label.
add_dependencies(campaign bad_sectors lzy-protect lzy-verify lzy-restore lzy-info)
target_compile_definitions(campaign PRIVATE CAMPAIGN_BIN="${CMAKE_BINARY_DIR}/bin" CAMPAIGN_MPIEXEC="${MPIEXEC_EXECUTABLE}"
  CAMPAIGN_BAD_SECTORS="$<TARGET_FILE:bad_sectors>")
foreach(first 0 92)
  add_test(NAME campaign.tools.${first} COMMAND campaign --tools ${first} 92)
  set_tests_properties(campaign.tools.${first} PROPERTIES LABELS "cli;preload" TIMEOUT 300)
endforeach()
add_test(NAME campaign.tools.np2 COMMAND campaign --tools --ranks 2 184 16)
set_tests_properties(campaign.tools.np2 PROPERTIES LABELS "cli;mpi" TIMEOUT 300 PROCESSORS 2 ENVIRONMENT "${mpi_environment}")
