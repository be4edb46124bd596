// BytesOf of data_layout.h: the bytes for a part of a layout's data.
//
// The result may have far fewer intervals than the data have runs. So a budget of intervals is divided on the way down:
// each child gets a share in proportion to its runs, and a child with a budget of 1 gives its hull.

#include <algorithm>
#include <utility>

#include "base/numbers.h"
#include "datatypes/data_layout.h"

namespace lzy::datatypes {
namespace {

std::uint64_t Distance(std::int64_t from, std::int64_t to) {
  return static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from);
}

// All bytes in question lie between 0 and 2^63. Intermediate sums may leave that range (a child may begin before its
// origin), so they are unsigned: they wrap around, and come back.

/// Data [first, last) of `layout`, whose origin is at byte `origin`.
struct Slice {
  const DataLayout* layout;
  std::uint64_t origin;
  std::uint64_t first;
  std::uint64_t last;

  bool IsAll() const { return first == 0 && last == layout->size; }
};

/// The children of a node in which a slice has data, first to last, relative to the node's own origin. Children are the
/// repetitions or the parts; the rest of this file treats both alike. Making it costs O(log parts).
class Children {
 public:
  explicit Children(const Slice& slice)
      : node_(*slice.layout->inner),
        slice_(slice),
        origin_(slice.origin + Distance(node_.begin, slice.layout->begin)),
        first_(ChildWith(slice.first)),
        last_(ChildWith(slice.last - 1)) {}

  std::uint64_t count() const { return last_ - first_ + 1; }

  /// The part of the slice in child i of 0 ... count() - 1.
  Slice operator[](std::uint64_t i) const {
    const std::uint64_t child = first_ + i;
    const std::uint64_t before = DataBefore(child);
    const DataLayout& layout = node_.count > 0 ? node_.child : node_.elements[child].layout;
    const std::uint64_t move = node_.count > 0 ? child * static_cast<std::uint64_t>(node_.stride) : 0;
    return {&layout, origin_ + move, std::max(slice_.first, before) - before,
            std::min(slice_.last - before, layout.size)};
  }

  /// The part of the slice in children i ... i + n - 1.
  Slice Group(std::uint64_t i, std::uint64_t n) const {
    Slice group = slice_;
    if (i > 0) group.first = DataBefore(first_ + i);
    if (i + n < count()) group.last = DataBefore(first_ + i + n);
    return group;
  }

  /// Runs of the children between the first and the last. The slice has all of their data, so no descent is needed.
  /// Precondition: count() > 2.
  std::uint64_t RunsBetween() const {
    if (node_.count > 0) return SaturatedProduct(count() - 2, node_.child.runs());
    return node_.elements[last_].runs_before - node_.elements[first_ + 1].runs_before;
  }
  Interval HullBetween() const {
    if (node_.count > 0) {
      // With a negative stride, the last one lies lowest.
      const Interval a = Bounds((*this)[1]);
      const Interval b = Bounds((*this)[count() - 2]);
      return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
    }
    if (!node_.in_order) return Bounds(slice_);
    return {Bounds((*this)[1]).begin, Bounds((*this)[count() - 2]).end};
  }

  /// Bounds of the slice's whole layout.
  static Interval Bounds(const Slice& slice) {
    return {slice.origin + static_cast<std::uint64_t>(slice.layout->begin),
            slice.origin + static_cast<std::uint64_t>(slice.layout->end)};
  }

 private:
  std::uint64_t ChildWith(std::uint64_t data) const {
    if (node_.count > 0) return data / node_.child.size;
    const auto after = std::upper_bound(node_.elements.begin(), node_.elements.end(), data,
                                        [](std::uint64_t at, const LayoutNode::Element& p) { return at < p.data_before; });
    return static_cast<std::uint64_t>(after - node_.elements.begin()) - 1;
  }
  std::uint64_t DataBefore(std::uint64_t child) const {
    return node_.count > 0 ? child * node_.child.size : node_.elements[child].data_before;
  }

  const LayoutNode& node_;
  Slice slice_;
  std::uint64_t origin_;
  std::uint64_t first_, last_;
};

/// How many runs and hulls the slice has. Descends on its two edges only.
std::uint64_t RunsOf(const Slice& slice) {
  if (!slice.layout->inner || slice.IsAll()) return slice.layout->runs();
  const Children children(slice);
  const std::uint64_t n = children.count();
  if (n == 1) return RunsOf(children[0]);
  const std::uint64_t ends = SaturatedSum(RunsOf(children[0]), RunsOf(children[n - 1]));
  return n == 2 ? ends : SaturatedSum(ends, children.RunsBetween());
}

/// The narrowest interval around the slice's bytes; a wider one if parts are in no order. Also descends only along the
/// edges.
Interval HullOf(const Slice& slice) {
  if (slice.layout->IsRun()) {
    const std::uint64_t begin = slice.origin + static_cast<std::uint64_t>(slice.layout->begin);
    return {begin + slice.first, begin + slice.last};
  }
  if (!slice.layout->inner || slice.IsAll()) return Children::Bounds(slice);
  const Children children(slice);
  const std::uint64_t n = children.count();
  Interval hull = HullOf(children[0]);
  const auto widen = [&](const Interval& by) {
    hull.begin = std::min(hull.begin, by.begin);
    hull.end = std::max(hull.end, by.end);
  };
  if (n > 1) widen(HullOf(children[n - 1]));
  if (n > 2) widen(children.HullBetween());
  return hull;
}

/// Divides a budget of intervals among `parts` that need `total`. If that is enough, each gets its need. Otherwise each
/// gets one, and a share of the rest in proportion to its needs. Precondition: budget >= parts.
class Shares {
 public:
  Shares(std::size_t budget, std::uint64_t parts, std::uint64_t total)
      : left_(budget), parts_left_(parts), total_(total), extra_(budget - parts), enough_(total <= budget) {}

  std::size_t Take(std::uint64_t need) {
    --parts_left_;
    if (enough_) return static_cast<std::size_t>(need);
    const double share = static_cast<double>(extra_) * (static_cast<double>(need) / static_cast<double>(total_));
    const std::uint64_t taken = std::min(1 + static_cast<std::uint64_t>(share), left_ - parts_left_);
    left_ -= taken;
    return static_cast<std::size_t>(taken);
  }

 private:
  std::uint64_t left_, parts_left_, total_, extra_;
  bool enough_;
};

/// Collects the result. Usually intervals come in ascending order; otherwise they are sorted at the end.
class Cover {
 public:
  /// Adds at most `budget` (>= 1) intervals.
  void Add(const Slice& slice, std::size_t budget) {
    if (!slice.layout->inner || budget == 1) return Emit(HullOf(slice));
    const Children children(slice);
    const std::uint64_t n = children.count();
    if (n > budget) {
      // Not even one for each child: hulls of as many neighbours each.
      const std::uint64_t each = n / budget;
      const std::uint64_t one_more = n % budget;
      for (std::uint64_t i = 0, g = 0; g < budget; ++g) {
        const std::uint64_t size = each + (g < one_more ? 1 : 0);
        Emit(HullOf(children.Group(i, size)));
        i += size;
      }
      return;
    }
    Shares shares(budget, n, RunsOf(slice));
    for (std::uint64_t i = 0; i < n; ++i) {
      const Slice child = children[i];
      Add(child, shares.Take(RunsOf(child)));
    }
  }

  std::vector<Interval> Take() {
    if (!sorted_) SortAndJoin(intervals_);
    return std::move(intervals_);
  }

 private:
  void Emit(const Interval& interval) {
    if (intervals_.empty() || interval.begin > intervals_.back().end) {
      intervals_.push_back(interval);
    } else if (interval.begin >= intervals_.back().begin) {
      intervals_.back().end = std::max(intervals_.back().end, interval.end);
    } else {
      sorted_ = false;
      intervals_.push_back(interval);
    }
  }

  std::vector<Interval> intervals_;
  bool sorted_ = true;
};

}  // namespace

std::vector<Interval> BytesOf(const DataLayout& tile, std::uint64_t count, std::int64_t stride, std::uint64_t origin,
                              std::uint64_t first, std::uint64_t last, std::size_t limit) {
  const DataLayout whole = Repeated(count, stride, tile);
  Cover cover;
  cover.Add({&whole, origin, first, last}, limit);
  return cover.Take();
}

}  // namespace lzy::datatypes
