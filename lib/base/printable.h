#pragma once
// File names may hold any byte but '/' and NUL; terminals obey some of them.

#include <cstdint>
#include <string>

namespace lzy {

/// `text` with control characters (C0, DEL, and C1 as UTF-8 has them) written as \n, \t, \r or \xNN. Everything else,
/// UTF-8 included, stays as it is.
std::string Printable(const std::string& text);
/// True when Printable(text) is `text`.
bool IsPrintable(const std::string& text);

/// `text` as one word of a shell's command line, printable: $'...' where there are control characters.
std::string ShellQuote(const std::string& text);

/// "2024-05-01 12:00:00 UTC"
std::string TimeText(std::int64_t ns_since_epoch);

}  // namespace lzy
