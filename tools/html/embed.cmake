# cmake -DHTML=DIR -DD3=DIR -DOUT=FILE -P embed.cmake: makes FILE, the C++ source of the report page (report_page.h), of
# page.html with what belongs into it.
function(read_all out)
  set(text "")
  foreach(path IN LISTS ARGN)
    file(READ ${path} one)
    string(APPEND text "${one}")
  endforeach()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

read_all(page ${HTML}/page.html)
read_all(STYLE ${HTML}/page.css)
read_all(SCRIPT ${HTML}/format.js ${HTML}/table.js ${HTML}/timeline.js ${HTML}/map.js ${HTML}/page.js)
read_all(LICENSE ${D3}/LICENSE)
# Each uses those before it.
set(library "")
foreach(module array color format interpolate time time-format scale axis selection)
  list(APPEND library ${D3}/d3-${module}.min.js)
endforeach()
read_all(LIBRARY ${library})
foreach(part STYLE SCRIPT LICENSE LIBRARY)
  if(part STREQUAL LICENSE AND "${LICENSE}" MATCHES "[<&]")
    message(FATAL_ERROR "The license of D3 has characters that HTML does not take as they are")
  elseif("${${part}}" MATCHES "</script|</style|<!--")
    message(FATAL_ERROR "${part} has text that would end it in HTML")
  endif()
  string(REPLACE "@${part}@" "${${part}}" page "${page}")
endforeach()

string(FIND "${page}" "@DATA@" at)
string(SUBSTRING "${page}" 0 ${at} head)
math(EXPR behind "${at} + 6")
string(SUBSTRING "${page}" ${behind} -1 tail)
foreach(part IN ITEMS head tail)
  if("${${part}}" MATCHES "\\)lzy-page\"")
    message(FATAL_ERROR "The page has the delimiter of its own literals")
  endif()
endforeach()
file(WRITE ${OUT} "// Made by tools/html/embed.cmake.
#include \"html/report_page.h\"

namespace lzy {
const char kReportPageHead[] = R\"lzy-page(${head})lzy-page\";
const char kReportPageTail[] = R\"lzy-page(${tail})lzy-page\";
}  // namespace lzy
")
