#include "base/printable.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <string_view>

#include "base/file.h"

namespace lzy {

std::string Printable(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte == '\n') {
      out += "\\n";
    } else if (byte == '\t') {
      out += "\\t";
    } else if (byte == '\r') {
      out += "\\r";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      // C1 control characters in UTF-8: terminals obey them, too (0xc2 0x9b is CSI).
      out += fmt::format("\\x{:02x}\\x{:02x}", byte, next);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool IsPrintable(const std::string& text) {
  return Printable(text) == text;
}

std::string ShellQuote(const std::string& text) {
  // Characters that no shell treats specially, in any position. Everything else is quoted.
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("%+,-./:=@_^").find(static_cast<char>(c)) != std::string_view::npos;
  };
  // A dash in front would make it an option of the command.
  if (text.starts_with('-')) return ShellQuote("./" + text);
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  const bool printable = IsPrintable(text);
  std::string out = printable ? "'" : "$'";
  for (const char c : text) {
    if (printable) {
      out += c == '\'' ? "'\\''" : std::string(1, c);
    } else {
      // $'...' reads the escapes that Printable() writes. Only these two characters need a backslash of their own.
      out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    }
  }
  return (printable ? out : Printable(out)) + "'";
}

std::string TimeText(std::int64_t ns_since_epoch) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(ns_since_epoch / kNsPerSecond)));
}

}  // namespace lzy
