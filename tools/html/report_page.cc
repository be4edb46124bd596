#include "html/report_page.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/printable.h"

namespace lzy {
namespace {

// Replaces values that JSON or JavaScript cannot represent exactly.
void MakeExact(Json& value) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 53;
  if (value.is_string()) {
    value = AsUtf8(value.get_ref<const std::string&>());
  } else if (value.is_number_unsigned() && value.get<std::uint64_t>() > kMost) {
    value = std::to_string(value.get<std::uint64_t>());
  } else if (value.is_structured()) {
    for (Json& part : value) MakeExact(part);
  }
}

// In a script element, HTML interprets "</script" and "<!--" even within strings. JSON has these characters only in
// strings, where they can be escaped.
std::string EscapedForHtml(const std::string& json) {
  std::string out;
  out.reserve(json.size() + json.size() / 16);
  for (const char c : json) {
    switch (c) {
      case '<':
        out += "\\u003c";
        break;
      case '>':
        out += "\\u003e";
        break;
      case '&':
        out += "\\u0026";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace

std::string ReportPage(Json document) {
  document["version"] = LZY_VERSION;
  MakeExact(document);
  return kReportPageHead + EscapedForHtml(Dump(document, /*one_line=*/true)) + kReportPageTail;
}

Json AsColumns(const Json& objects) {
  Json out = {{"columns", Json::array()}, {"rows", Json::array()}};
  for (const Json& object : objects) {
    Json row = Json::array();
    for (const auto& [name, value] : object.items()) {
      if (out["rows"].empty()) out["columns"].push_back(name);
      row.push_back(value);
    }
    out["rows"].push_back(std::move(row));
  }
  return out;
}

}  // namespace lzy
