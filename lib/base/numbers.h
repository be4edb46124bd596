#pragma once
// Arithmetic with offsets and sizes: rounding up, and sums that do not wrap around. Parsing of numbers with units.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace lzy {

/// a / b, rounded up. Cannot overflow.
constexpr std::uint64_t CeilDiv(std::uint64_t a, std::uint64_t b) {
  return a / b + (a % b != 0);
}

/// The least multiple of `unit` that is not less than `value`. Precondition: it fits.
constexpr std::uint64_t RoundUp(std::uint64_t value, std::uint64_t unit) {
  return CeilDiv(value, unit) * unit;
}

/// The sum, or the largest number if it does not fit. For sizes from a hostile sidecar: a later bounds check then fails,
/// but would accept a number that wrapped around.
inline std::uint64_t SaturatedSum(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::uint64_t>::max() : sum;
}
inline std::uint64_t SaturatedProduct(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::uint64_t>::max() : product;
}

/// Parses a non-negative decimal number; returns it and the rest of the text. nullopt if there is no number. `form`:
/// whether "1e-15" is one.
inline std::optional<std::pair<double, std::string_view>> NumberAndRest(std::string_view text,
                                                                        std::chars_format form = std::chars_format::general) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, form);
  if (error != std::errc() || !std::isfinite(number) || std::signbit(number)) return std::nullopt;
  return std::pair(number, text.substr(static_cast<std::size_t>(end - text.data())));
}

/// Seconds of a unit of time: s, m, h, d, w, y (365.25 days). nullopt for other text.
inline std::optional<double> SecondsOfUnit(std::string_view unit) {
  constexpr std::pair<std::string_view, double> kUnits[] = {{"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}, {"w", 604800}, {"y", 31557600}};
  const auto* const at = std::ranges::find(kUnits, unit, &std::pair<std::string_view, double>::first);
  return at == std::end(kUnits) ? std::nullopt : std::optional(at->second);
}

}  // namespace lzy
