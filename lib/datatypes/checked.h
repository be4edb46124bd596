#pragma once
// Arithmetic on offsets that does not wrap around.

#include <cstdint>
#include <stdexcept>

namespace lzy::datatypes {

[[noreturn]] inline void ThrowTooFar() {
  throw std::overflow_error("a datatype reaches beyond what an offset can say (2^63 bytes)");
}

/// a + b; throws std::overflow_error when that is no Number.
template <class Number>
Number CheckedSum(Number a, Number b) {
  Number sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) ThrowTooFar();
  return sum;
}

/// a - b; throws std::overflow_error when that is no Number.
template <class Number>
Number CheckedDifference(Number a, Number b) {
  Number difference = 0;
  if (__builtin_sub_overflow(a, b, &difference)) ThrowTooFar();
  return difference;
}

/// a * b; throws std::overflow_error when that is no Number, the type of b.
template <class Factor, class Number>
Number CheckedProduct(Factor a, Number b) {
  Number product = 0;
  if (__builtin_mul_overflow(a, b, &product)) ThrowTooFar();
  return product;
}

}  // namespace lzy::datatypes
