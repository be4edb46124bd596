#pragma once
// The page of `lzy-status --html`: one file that needs nothing else. Its parts are page.html, page.css and *.js beside this
// header, and D3 (third_party/d3); the build puts them together (embed.cmake). The data are a JSON document in the page.

#include <string>

#include "common/json.h"

namespace lzy {

// What stands before and behind the data.
extern const char kReportPageHead[];
extern const char kReportPageTail[];

/// The page that shows `document`, whose fields page.js reads. Names may hold any bytes: what is no UTF-8 is shown as
/// \xNN, and nothing in them ends the script element or becomes HTML. Numbers above 2^53 become text, since JavaScript
/// would round them.
std::string ReportPage(Json document);

/// A list of objects that all have the same fields, without naming these in each: {"columns": [...], "rows": [[...]]}.
Json AsColumns(const Json& objects);

}  // namespace lzy
