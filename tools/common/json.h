#pragma once
// Reports as JSON: the schema "lzy-report/1" of docs/reference/tools.md "JSON".

#include <nlohmann/json.hpp>
#include <string>

#include "request/report.h"

namespace lzy {

using Json = nlohmann::ordered_json;

Json ToJson(const DatasetReport& report);
Json ToJson(const Status& status);
Json ToJson(const Phases& phases);
/// Text of a document. File names need not be UTF-8, JSON must be: other bytes are replaced.
std::string Dump(const Json& json, bool one_line);

}  // namespace lzy
