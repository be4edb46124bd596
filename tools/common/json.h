#pragma once
// Reports as JSON: the schema "lzy-report/1" of docs/reference/tools.md "JSON". Fields may be added, but no field is
// ever removed or changed in meaning, because scripts read them. Used by tool.cc and the tools.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "request/report.h"

namespace lzy {

/// Keeps the order in which fields were added, so that documents are easy to read.
using Json = nlohmann::ordered_json;

/// One entry of "datasets".
Json ToJson(const DatasetReport& report);
/// A failure: "code" as a word, "message" for people.
Json ToJson(const Status& status);
/// The text of a document, ended by a newline; indented unless `one_line`. File names need not be UTF-8, but JSON
/// must be: bytes that are not are replaced. Unless `one_line`, a field KEY_hex then has the bytes of the field KEY.
std::string Dump(Json json, bool one_line);

}  // namespace lzy
