#pragma once
// Arithmetic on offsets that does not wrap around. Used by this room and by romio_hooks/ranges.
//
// The numbers of a datatype are the program's, and extents multiply from level to level. An offset that wrapped around
// would be a wrong place in a file. These functions throw, unlike the rest of lib/, because they stand in the middle of
// expressions. Callers of MapOf and Repeated catch std::overflow_error: the hooks then take the whole file as touched,
// and a validated message is refused.

#include <cstdint>
#include <stdexcept>

namespace lzy::datatypes {

[[noreturn]] inline void ThrowTooFar() {
  throw std::overflow_error("a datatype reaches beyond what an offset can say (2^63 bytes)");
}

/// a + b; throws std::overflow_error if a Number cannot hold it.
template <class Number>
Number CheckedSum(Number a, Number b) {
  Number sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) ThrowTooFar();
  return sum;
}

/// a - b; throws std::overflow_error if a Number cannot hold it.
template <class Number>
Number CheckedDifference(Number a, Number b) {
  Number difference = 0;
  if (__builtin_sub_overflow(a, b, &difference)) ThrowTooFar();
  return difference;
}

/// a * b; throws std::overflow_error if a Number, the type of b, cannot hold it.
template <class Factor, class Number>
Number CheckedProduct(Factor a, Number b) {
  Number product = 0;
  if (__builtin_mul_overflow(a, b, &product)) ThrowTooFar();
  return product;
}

}  // namespace lzy::datatypes
