#pragma once
// Arithmetic that offsets and sizes need everywhere: rounding up, and sums that do not wrap around.

#include <cstdint>
#include <limits>

namespace lzy {

/// a / b, rounded up. Cannot overflow.
constexpr std::uint64_t CeilDiv(std::uint64_t a, std::uint64_t b) {
  return a / b + (a % b != 0);
}

/// The least multiple of `unit` that is not less than `value`. Precondition: it fits.
constexpr std::uint64_t RoundUp(std::uint64_t value, std::uint64_t unit) {
  return CeilDiv(value, unit) * unit;
}

/// The sum, or the largest number if it does not fit. For sizes from a hostile sidecar: a bound that is checked
/// afterwards then fails, while a number that wrapped around would pass.
inline std::uint64_t SaturatedSum(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::uint64_t>::max() : sum;
}
inline std::uint64_t SaturatedProduct(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::uint64_t>::max() : product;
}

}  // namespace lzy
