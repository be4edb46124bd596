#include "base/printable.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <string_view>

#include "base/file.h"

namespace lzy {
namespace {

/// Length of the UTF-8 character at `at`; 0 if there is none.
std::size_t CharacterAt(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(at);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xC2 && first < 0xE0 ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  }
  // Reject overlong forms, surrogates, and code points above U+10FFFF.
  const unsigned second = byte(at + 1);
  const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) || (first == 0xF0 && second < 0x90) ||
                     (first == 0xF4 && second >= 0x90);
  return wrong ? 0 : length;
}

}  // namespace

std::string AsUtf8(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = CharacterAt(text, at);
    if (length == 0) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    out.append(text, at, length);
    at += std::max<std::size_t>(1, length);
  }
  return out;
}

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
      // C1 control characters in UTF-8: terminals execute them, too (0xc2 0x9b is CSI).
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
  // A leading dash would make it an option of the command.
  if (text.starts_with('-')) return ShellQuote("./" + text);
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  const bool printable = IsPrintable(text) && AsUtf8(text) == text;
  std::string out = printable ? "'" : "$'";
  for (const char c : text) {
    if (printable) {
      out += c == '\'' ? "'\\''" : std::string(1, c);
    } else {
      // $'...' reads the escapes that Printable() and AsUtf8() write. Only these two characters need a backslash of their own.
      out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    }
  }
  return (printable ? out : AsUtf8(Printable(out))) + "'";
}

std::string TimeText(std::int64_t ns_since_epoch) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(ns_since_epoch / kNsPerSecond)));
}

}  // namespace lzy
