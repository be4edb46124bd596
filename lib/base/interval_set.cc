#include "base/interval_set.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace lzy {

namespace {

/// Adds an interval at the end. Precondition: it begins no earlier than the last one.
void Append(std::vector<Interval>& intervals, const Interval& next) {
  if (intervals.empty() || next.begin > intervals.back().end) {
    intervals.push_back(next);
  } else {
    intervals.back().end = std::max(intervals.back().end, next.end);
  }
}

bool BeginsBefore(const Interval& a, const Interval& b) {
  return a.begin < b.begin;
}

}  // namespace

void SortAndJoin(std::vector<Interval>& intervals) {
  std::sort(intervals.begin(), intervals.end(), BeginsBefore);
  std::vector<Interval> joined;
  joined.reserve(intervals.size());
  for (const Interval& interval : intervals) Append(joined, interval);
  intervals = std::move(joined);
}

void IntervalSet::Add(Interval interval) noexcept {
  if (whole_ || interval.begin >= interval.end) return;
  try {
    Insert(interval);
    KeepToLimit();
  } catch (...) {
    AddWhole();
  }
}

void IntervalSet::Add(const std::vector<Interval>& intervals) noexcept {
  if (whole_ || intervals.empty()) return;
  if (intervals.size() == 1) return Add(intervals.front());
  try {
    Merge(intervals);
    KeepToLimit();
  } catch (...) {
    AddWhole();
  }
}

bool IntervalSet::Overlaps(Interval interval) const {
  if (whole_) return true;
  // The first interval that ends behind the beginning: all intervals before it lie before `interval`, all after it begin
  // later.
  const auto after = std::upper_bound(intervals_.begin(), intervals_.end(), interval.begin,
                                      [](std::uint64_t at, const Interval& one) { return at < one.end; });
  return after != intervals_.end() && after->begin < interval.end;
}

// Removes a quarter of the intervals at a time. Joining looks at all of them, so a program that writes tiny scattered
// pieces would otherwise pay for it at every write.
void IntervalSet::KeepToLimit() {
  if (intervals_.size() > limit_) Coarsen(std::max<std::size_t>(1, limit_ - limit_ / 4));
}

std::vector<Interval>::iterator IntervalSet::FirstReaching(std::uint64_t begin) {
  return std::lower_bound(intervals_.begin(), intervals_.end(), begin,
                          [](const Interval& old, std::uint64_t at) { return old.end < at; });
}

void IntervalSet::Insert(Interval interval) {
  // [first, last) are the intervals that overlap or touch the new one. They become one with it.
  const auto first = FirstReaching(interval.begin);
  auto last = first;
  while (last != intervals_.end() && last->begin <= interval.end) ++last;
  if (first == last) {
    intervals_.insert(first, interval);
    return;
  }
  first->begin = std::min(first->begin, interval.begin);
  first->end = std::max((last - 1)->end, interval.end);
  intervals_.erase(first + 1, last);
}

// Merges two sorted lists. Intervals that end before the first new interval stay in place. Memory is reserved before the
// merge. The set is already incomplete then, but if the reservation throws, the caller makes the set whole.
void IntervalSet::Merge(const std::vector<Interval>& intervals) {
  const auto first = FirstReaching(intervals.front().begin);
  const std::vector<Interval> behind(first, intervals_.end());
  intervals_.erase(first, intervals_.end());
  intervals_.reserve(intervals_.size() + behind.size() + intervals.size());
  auto old = behind.begin();
  for (const Interval& interval : intervals) {
    for (; old != behind.end() && BeginsBefore(*old, interval); ++old) Append(intervals_, *old);
    Append(intervals_, interval);
  }
  for (; old != behind.end(); ++old) Append(intervals_, *old);
}

void IntervalSet::AddWhole() noexcept {
  whole_ = true;
  intervals_.clear();
}

void IntervalSet::Clear() noexcept {
  whole_ = false;
  intervals_.clear();
}

// Finds in linear time which gaps to close; closing the narrowest ones adds the fewest untouched bytes.
void IntervalSet::Coarsen(std::size_t limit) {
  if (whole_ || intervals_.size() <= limit) return;
  std::vector<std::uint64_t> gaps;
  gaps.reserve(intervals_.size() - 1);
  for (std::size_t i = 1; i < intervals_.size(); ++i) gaps.push_back(intervals_[i].begin - intervals_[i - 1].end);
  // The widest limit-1 gaps stay; of equally wide ones, the first. nth_element finds in linear time the widest gap that
  // is joined; gaps of that very width are kept only as long as there is room (equal_kept).
  const std::size_t kept = limit - 1;
  std::vector<std::uint64_t> sorted = gaps;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(kept), sorted.end(), std::greater<>());
  const std::uint64_t widest_joined = sorted[kept];
  const auto wider = static_cast<std::size_t>(
      std::count_if(gaps.begin(), gaps.end(), [&](std::uint64_t gap) { return gap > widest_joined; }));
  std::size_t equal_kept = kept - wider;
  // Compact in place: `at` is the last interval of the result so far.
  std::size_t at = 0;
  for (std::size_t i = 1; i < intervals_.size(); ++i) {
    bool keep = gaps[i - 1] > widest_joined;
    if (!keep && gaps[i - 1] == widest_joined && equal_kept > 0) {
      keep = true;
      --equal_kept;
    }
    if (keep) {
      intervals_[++at] = intervals_[i];
    } else {
      intervals_[at].end = intervals_[i].end;
    }
  }
  intervals_.resize(at + 1);
}

void IntervalSet::Clip(std::uint64_t end) {
  while (!intervals_.empty() && intervals_.back().begin >= end) intervals_.pop_back();
  if (!intervals_.empty()) intervals_.back().end = std::min(intervals_.back().end, end);
}

}  // namespace lzy
