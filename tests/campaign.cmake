# Random damage to random datasets, judged by somebody who knows the truth: 10,000 cases in two parts that may run beside each
# other. By hand: campaign FIRST-SEED COUNT.
add_executable(campaign campaign/main.cc campaign/campaign.cc)
set_target_properties(campaign PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_include_directories(campaign PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(campaign PRIVATE lzy_engine lzy_flags)
set(campaign_cases 5000)
if(LZY_SANITIZE)
  set(campaign_cases 500)
endif()
foreach(first 0 5000)
  add_test(NAME campaign.${first} COMMAND campaign ${first} ${campaign_cases})
  set_tests_properties(campaign.${first} PROPERTIES LABELS unit TIMEOUT ${unit_timeout})
endforeach()
