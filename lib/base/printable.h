#pragma once
// Text for terminals and shells. File names may contain any byte but '/' and NUL, and some of these bytes control
// terminals. So every printed name, and every command that a message suggests, goes through this module. All functions are
// pure.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>

namespace lzy {

/// `text` with control characters (C0, DEL, and C1 in UTF-8) written as \n, \t, \r or \xNN. Everything else, other
/// UTF-8 included, stays as it is.
std::string Printable(const std::string& text);
/// True if Printable(text) is `text`.
bool IsPrintable(const std::string& text);

/// `text` with bytes that are not UTF-8 written as \xNN, for formats that must be UTF-8. Everything else stays as it is.
std::string AsUtf8(const std::string& text);

/// `text` as one word of a shell command that can be printed and pasted. Quoted only if needed; $'...' (bash, zsh) if there
/// are control characters or bytes that are not UTF-8, because terminals and documents lose these.
std::string ShellQuote(const std::string& text);

/// "a, b, c and 4 more": the first `most` elements of a set, for a message.
template <class Element>
std::string FirstOf(const std::set<Element>& all, std::size_t most) {
  const std::size_t named = std::min(most, all.size());
  const auto end = std::next(all.begin(), static_cast<std::ptrdiff_t>(named));
  const std::string text = fmt::format("{}", fmt::join(all.begin(), end, ", "));
  return named == all.size() ? text : fmt::format("{} and {} more", text, all.size() - named);
}

/// "2024-05-01 12:00:00 UTC". Fractions of a second are cut off.
std::string TimeText(std::int64_t ns_since_epoch);

}  // namespace lzy
