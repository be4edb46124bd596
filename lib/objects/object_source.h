#pragma once
// The view of a file for parsers.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/bytes.h"
#include "base/interval_set.h"

namespace lzy {

struct ObjectSource {
  std::uint64_t size = 0;
  /// Reads all of the bytes. False if any of them cannot be read.
  std::function<bool(std::uint64_t offset, MutableByteSpan to)> read;
  /// Ranges with wrong bytes. Sorted and disjoint.
  std::vector<Interval> wrong;

  bool IsWrong(std::uint64_t offset, std::uint64_t length) const {
    const auto at = std::ranges::upper_bound(wrong, offset, {}, &Interval::end);
    return at != wrong.end() && length > 0 && at->begin < offset + length;
  }
};

}  // namespace lzy
