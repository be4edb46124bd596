#pragma once
// The page of `lzy-status --html`: a single, complete file. The build assembles it (embed.cmake) from page.html, page.css
// and *.js beside this header, and from D3 (third_party/d3). The data are a JSON document in the page.

#include <string>

#include "common/json.h"

namespace lzy {

// The page before and after the data.
extern const char kReportPageHead[];
extern const char kReportPageTail[];

/// The page that shows `document`, whose fields page.js reads. Names may contain any bytes: those that are not UTF-8 are
/// shown as \xNN, and no name can end the script element or become HTML. Numbers above 2^53 become text, because JavaScript
/// would round them.
std::string ReportPage(Json document);

/// Encodes a list of objects with the same fields, with the names of the fields only once: {"columns": [...], "rows":
/// [[...]]}.
Json AsColumns(const Json& objects);

}  // namespace lzy
