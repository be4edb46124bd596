#pragma once
// Which bytes of a file were touched: disjoint intervals, if need be bounded in number. Never forgets a byte:
// when there are more intervals than the bound, the nearest are joined, gap included.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/record.h"

namespace lzy {

/// Bytes [begin, end).
struct Interval {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
  LZY_FIELDS(begin, end)
};

/// The end of an interval that reaches as far as any file can.
inline constexpr std::uint64_t kEverythingBehind = std::numeric_limits<std::int64_t>::max();

/// Sorts, and makes one of those that touch or overlap. None of them may be empty.
void SortAndJoin(std::vector<Interval>& intervals);

class IntervalSet {
 public:
  /// Precondition: limit >= 1. Without one, as many as it takes.
  explicit IntervalSet(std::size_t limit = std::numeric_limits<std::size_t>::max()) : limit_(limit) {}
  static IntervalSet Whole() {
    IntervalSet whole;
    whole.AddWhole();
    return whole;
  }

  /// Adds [begin, end); nothing when empty. Touching and overlapping intervals become one. Should memory run out, the
  /// set becomes whole.
  void Add(Interval interval) noexcept;
  /// The same for many, which are sorted and disjoint and none of them empty, at the cost of one.
  void Add(const std::vector<Interval>& intervals) noexcept;
  /// The whole file, whatever its size.
  void AddWhole() noexcept;
  void Clear() noexcept;

  bool whole() const { return whole_; }
  bool empty() const { return !whole_ && intervals_.empty(); }
  /// Whether any of [begin, end) is in it. Precondition: begin < end.
  bool Overlaps(Interval interval) const;
  /// Sorted and disjoint, with gaps between them; of no meaning when whole().
  const std::vector<Interval>& intervals() const { return intervals_; }

  /// Joins nearest neighbours until at most `limit` (>= 1) intervals are left.
  void Coarsen(std::size_t limit);
  /// Drops what lies at or beyond `end`.
  void Clip(std::uint64_t end);
  LZY_FIELDS(whole_, intervals_)

 private:
  void Insert(Interval interval);
  void Merge(const std::vector<Interval>& intervals);
  std::vector<Interval>::iterator FirstReaching(std::uint64_t begin);
  void KeepToLimit();

  std::size_t limit_;
  bool whole_ = false;
  std::vector<Interval> intervals_;
};

}  // namespace lzy
