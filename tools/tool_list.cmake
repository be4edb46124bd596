# cmake -DDIRECTORY=DIR -DTOOLS=lzy-run,... -P tool_list.cmake: makes DIR/tool_list.h, the list of tools for lzy.cc, of
# DIR/TOOL.txt, which are what the tools print for --describe (common/arguments.h).
string(REPLACE "," ";" TOOLS "${TOOLS}")
set(rows "")
foreach(tool IN LISTS TOOLS)
  file(STRINGS ${DIRECTORY}/${tool}.txt lines REGEX "^summary\t")
  string(REGEX REPLACE "^summary\t" "" summary "${lines}")
  # The first sentence.
  string(REGEX REPLACE "\\. .*" "." summary "${summary}")
  string(REGEX REPLACE "([\\\"])" "\\\\\\1" summary "${summary}")
  string(REGEX REPLACE "^lzy-" "" name ${tool})
  string(APPEND rows "    {\"${name}\", \"${summary}\"},\n")
endforeach()
file(WRITE ${DIRECTORY}/tool_list.h "#pragma once
// Made by tools/tool_list.cmake.
struct ListedTool {
  const char* name;     ///< without \"lzy-\"
  const char* summary;
};
inline constexpr ListedTool kToolList[] = {
${rows}};
")
