#pragma once
// A set of disjoint intervals: the touched bytes of a file. The number of intervals can be bounded.
//
// The MPI-IO layer records each write in one (files/open_file, epochs), and a commit encodes the rows of these bytes. So
// the set may grow, but must never lose a byte: an untouched row is not encoded again. If there are more intervals than the
// limit, the nearest ones are joined, with the gap between them. If memory runs out, the set becomes the whole file. Not
// thread-safe.

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

/// End of an interval that reaches to the end of any file.
inline constexpr std::uint64_t kEverythingBehind = std::numeric_limits<std::int64_t>::max();

/// Sorts `intervals` and joins those that touch or overlap. Precondition: none is empty.
void SortAndJoin(std::vector<Interval>& intervals);

class IntervalSet {
 public:
  /// Holds at most `limit` intervals; without an argument, any number. Precondition: limit >= 1.
  explicit IntervalSet(std::size_t limit = std::numeric_limits<std::size_t>::max()) : limit_(limit) {}
  static IntervalSet Whole() {
    IntervalSet whole;
    whole.AddWhole();
    return whole;
  }

  /// Adds [begin, end); an empty one adds nothing. Intervals that touch or overlap become one. Never fails: if memory
  /// runs out, the set becomes whole.
  void Add(Interval interval) noexcept;
  /// The same for many at once, at the cost of one pass. Precondition: sorted, disjoint, none empty.
  void Add(const std::vector<Interval>& intervals) noexcept;
  /// Adds the whole file, whatever its size is or will be.
  void AddWhole() noexcept;
  void Clear() noexcept;

  bool whole() const { return whole_; }
  bool empty() const { return !whole_ && intervals_.empty(); }
  /// True if the set has a byte of [begin, end). Precondition: begin < end.
  bool Overlaps(Interval interval) const;
  /// Sorted and disjoint, with gaps between them. Empty and without meaning if whole().
  const std::vector<Interval>& intervals() const { return intervals_; }

  /// Joins nearest neighbours until at most `limit` (>= 1) intervals are left. May throw std::bad_alloc.
  void Coarsen(std::size_t limit);
  /// Drops bytes at or beyond `end`. A whole set stays whole.
  void Clip(std::uint64_t end);
  LZY_FIELDS(whole_, intervals_)

 private:
  void Insert(Interval interval);
  void Merge(const std::vector<Interval>& intervals);
  /// The first interval that ends at `begin` or later, so it may touch one that begins at `begin`.
  std::vector<Interval>::iterator FirstReaching(std::uint64_t begin);
  void KeepToLimit();

  std::size_t limit_;
  bool whole_ = false;
  std::vector<Interval> intervals_;
};

}  // namespace lzy
