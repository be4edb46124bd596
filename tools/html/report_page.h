#pragma once
// The page of `lzy-status --html`: a single, complete file. The build assembles it (embed.cmake) from page.html, page.css
// and *.js beside this header, and from D3 (third_party/d3). The data are a JSON document in the page.

#include <string>

#include "common/json.h"

namespace lzy {

// The text before and after the data.
extern const char kReportPageHead[];
extern const char kReportPageTail[];

/// The page that shows `document`, whose fields page.js reads. Names may contain any bytes: those that are not UTF-8 are
/// shown as \xNN, and no name can end the script element or become HTML. Numbers above 2^53 become text, because JavaScript
/// would round them.
std::string ReportPage(Json document);

/// A list of objects that all have the same fields, without naming these in each: {"columns": [...], "rows": [[...]]}.
Json AsColumns(const Json& objects);

}  // namespace lzy
