#pragma once
// Reports as JSON: the schema "lzy-report/1" of docs/reference/tools.md "JSON". Fields may be added, but no field is
// ever removed or changed in meaning, because scripts read them. Used by tool.cc and the tools.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "request/report.h"

namespace lzy {

/// A JSON value that keeps the order in which fields were added, so that documents are easy to read.
using Json = nlohmann::ordered_json;

/// One entry of "datasets".
Json ToJson(const DatasetReport& report);
/// A failure: "code" as a word, "message" for people.
Json ToJson(const Status& status);
/// The text of a document, with a newline at the end; indented unless `one_line`. JSON must be UTF-8, but file names need
/// not be: other bytes are replaced. Unless `one_line`, the bytes of such a field KEY are in the field KEY_hex.
std::string Dump(Json json, bool one_line);

}  // namespace lzy
