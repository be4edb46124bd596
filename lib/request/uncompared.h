#pragma once
// Bytes that a program wrote and option verify-writes could not compare with the storage, by reason.

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/record.h"

namespace lzy {

/// Why. Not persistent.
enum class Uncompared : std::uint8_t {
  kUnseen,   ///< the written bytes are not known: shared file pointers, views and buffers that lzy cannot follow
  kMemory,   ///< no room in option memory
  kOverlap,  ///< written by several ranks, or by writes that were under way together: MPI does not define the bytes
  kCut,      ///< the file ended before them
  kOthers,   ///< another program, or calls other than MPI's, may have written the file, or a write failed
};
inline constexpr std::size_t kUncomparedReasons = 5;

struct UncomparedBytes {
  std::array<std::uint64_t, kUncomparedReasons> by_reason{};
  std::uint64_t& operator[](Uncompared why) { return by_reason[static_cast<std::size_t>(why)]; }
  std::uint64_t operator[](Uncompared why) const { return by_reason[static_cast<std::size_t>(why)]; }
  void Add(const UncomparedBytes& other) {
    for (std::size_t i = 0; i < kUncomparedReasons; ++i) by_reason[i] += other.by_reason[i];
  }
  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t one : by_reason) sum += one;
    return sum;
  }
  friend bool operator==(const UncomparedBytes&, const UncomparedBytes&) = default;
  LZY_FIELDS(by_reason)
};

}  // namespace lzy
