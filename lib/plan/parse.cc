#include "plan/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/numbers.h"
#include "plan/system.h"

namespace lzy {
namespace {

std::optional<double> UnitHours(std::string_view unit) {
  const auto seconds = SecondsOfUnit(unit);
  return seconds ? std::optional(*seconds / 3600) : std::nullopt;
}

std::optional<double> UnitBytes(std::string_view unit) {
  constexpr std::string_view kLetters = "KMGT";
  if (unit.empty()) return 1;
  const auto at = kLetters.find(unit);
  if (unit.size() != 1 || at == std::string_view::npos) return std::nullopt;
  return std::ldexp(1.0, 10 * (static_cast<int>(at) + 1));
}

}  // namespace

std::optional<double> ParseHours(const std::string& text, bool zero) {
  const auto number = NumberAndRest(text);
  if (!number || (number->first == 0 && !zero)) return std::nullopt;
  std::string_view unit = number->second;
  double factor = 1;
  // Vendors write "1.2Mh".
  if (unit.size() == 2 && unit[0] == 'M' && unit[1] == 'h') factor = 1e6, unit.remove_prefix(1);
  const auto hours = UnitHours(unit);
  if (!hours) return std::nullopt;
  return number->first * factor * *hours;
}

std::optional<double> ParseFailureRate(const std::string& text) {
  if (text == "never") return 0;
  const auto number = NumberAndRest(text);
  if (number && number->second == "%/y") {
    // A share of the devices in use; each failed one is replaced.
    return number->first > 1000 ? std::nullopt : std::optional(number->first / 100 / kHoursAYear);
  }
  const auto mean = ParseHours(text);
  if (!mean || *mean < 1.0 / 60 || *mean > 1e12) return std::nullopt;
  return 1 / *mean;
}

std::optional<double> ParseBitErrors(const std::string& text) {
  if (text == "0") return 0;
  const auto number = NumberAndRest(text);
  if (!number) return std::nullopt;
  const double bit = number->second == "/bit" ? number->first : number->first / 8;
  if ((number->second != "/bit" && number->second != "/byte") || bit > 1e-6) return std::nullopt;
  return bit;
}

std::optional<double> ParseRot(const std::string& text) {
  if (text == "0") return 0;
  const auto number = NumberAndRest(text);
  if (!number) return std::nullopt;
  const std::string_view rest = number->second;
  if (rest.size() != 4 || rest[0] != '/' || rest[2] != '/') return std::nullopt;
  const auto bytes = UnitBytes(rest.substr(1, 1));
  const auto hours = UnitHours(rest.substr(3));
  if (!bytes || !hours) return std::nullopt;
  return number->first / *bytes / *hours;
}

std::optional<double> ParseBytes(const std::string& text) {
  const auto number = NumberAndRest(text);
  if (!number || number->first <= 0) return std::nullopt;
  const auto unit = UnitBytes(number->second);
  if (!unit || number->first * *unit > 0x1p62) return std::nullopt;
  return number->first * *unit;
}

std::optional<double> ParseSpeed(const std::string& text) {
  if (!text.ends_with("/s")) return std::nullopt;
  const auto bytes = ParseBytes(text.substr(0, text.size() - 2));
  if (!bytes) return std::nullopt;
  return *bytes * 3600;
}

std::optional<double> ParseProbability(const std::string& text) {
  const auto number = NumberAndRest(text);
  if (!number || (!number->second.empty() && number->second != "%")) return std::nullopt;
  const double p = number->second.empty() ? number->first : number->first / 100;
  if (p <= 0 || p >= 1) return std::nullopt;
  return p;
}

std::optional<std::vector<std::uint32_t>> ParseNumbers(const std::string& text, std::uint32_t least, std::uint32_t most) {
  std::vector<std::uint32_t> out;
  std::string_view rest = text;
  while (true) {
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc() || number < least || number > most) return std::nullopt;
    out.push_back(number);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (rest.empty()) break;
    if (rest[0] != ',') return std::nullopt;
    rest.remove_prefix(1);
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::string HoursText(double hours) {
  if (!std::isfinite(hours)) return "never";
  if (hours < 2 / 60.0) return fmt::format("{:.2g} s", hours * 3600);
  if (hours < 2) return fmt::format("{:.1f} min", hours * 60);
  if (hours < 48) return fmt::format("{:.1f} h", hours);
  if (hours < 2 * kHoursAYear) return fmt::format("{:.1f} d", hours / 24);
  return hours < 1e4 * kHoursAYear ? fmt::format("{:.1f} y", hours / kHoursAYear) : fmt::format("{:.1e} y", hours / kHoursAYear);
}

}  // namespace lzy
