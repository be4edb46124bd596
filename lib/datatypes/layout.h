#pragma once
// Where in a file the data of a datatype lie: a compact tree that is built once and then asked for the bytes of any
// part of the data. Numbers only, no MPI.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/interval_set.h"

namespace lzy::datatypes {

struct LayoutNode;

/// Some data in the order in which they are written, and the bytes that they go to, relative to an origin. Copied
/// freely: what is below is shared and never changes. Three forms:
/// - one run: bytes [begin, end), in ascending order (`exact`, no `inner`);
/// - a hull: somewhere in [begin, end), of which no more is known, or wanted (not `exact`, no `inner`);
/// - what `inner` says, moved so that it begins at `begin` (`exact` if there is no hull within).
/// No data at all: size 0, and nothing else is of meaning.
struct Layout {
  std::int64_t begin = 0;  ///< true bounds: of the bytes that are written, whatever the extent of the type
  std::int64_t end = 0;
  std::uint64_t size = 0;  ///< bytes of data
  bool exact = true;
  std::shared_ptr<const LayoutNode> inner;
  bool ordered = true;  ///< of a hull: what it stands for was in order

  static Layout Run(std::int64_t begin, std::uint64_t size);
  static Layout Hull(std::int64_t begin, std::int64_t end, std::uint64_t size) { return {begin, end, size, false, {}, true}; }
  bool IsRun() const { return !inner && exact; }
  bool InOrder() const;
  std::uint64_t runs() const;  ///< how many runs and hulls; the largest number stands for more than that
};

/// Either `child` repeated, or `parts` one after another.
struct LayoutNode {
  struct Part {
    Layout layout;
    std::uint64_t data_before = 0;  ///< in the parts before this one
    std::uint64_t runs_before = 0;
  };

  std::int64_t begin = 0;
  std::uint64_t runs = 0;
  bool in_order = true;  ///< no byte lies before or on one of data that come earlier
  // count > 0: data of `child` at its own place, then at `stride`, 2 * `stride`, ...
  std::uint64_t count = 0;
  std::int64_t stride = 0;
  Layout child;
  // count == 0:
  std::vector<Part> parts;
};

// How layouts are made. All throw std::overflow_error when a byte would lie beyond what an offset can say.

/// The same data `by` bytes further on.
Layout Moved(Layout layout, std::int64_t by);

/// `count` times `layout`, each `stride` bytes after the one before it.
Layout Repeated(std::uint64_t count, std::int64_t stride, const Layout& layout);

/// Layouts one after another, each where it says. At most `limit` (>= 1) are told apart: when there are more,
/// neighbours are joined to hulls, as many in each.
class LayoutList {
 public:
  /// `expected`: how many there will be.
  explicit LayoutList(std::size_t limit, std::size_t expected) : limit_(limit) {
    parts_.reserve(std::min(limit, expected));
  }
  void Add(Layout part);
  Layout Take();

 private:
  void JoinPairs();

  std::size_t limit_;
  std::vector<LayoutNode::Part> parts_;
  std::size_t together_ = 1;  // how many of the parts that were added are one of parts_
  std::size_t in_last_ = 1;   // and in the last of them
};

/// The bytes, from `origin` on, that bytes [first, last) of the data of `count` times `tile`, each `stride` after the
/// one before it, go to: sorted, disjoint, with gaps between them, `limit` (>= 1) at most. Exact when they are no
/// more than `limit` runs in the order of the data; otherwise a superset, found without looking at each run.
/// Preconditions: first < last <= count * tile.size; stride > 0; no byte of the whole is below 0 or beyond 2^63.
std::vector<Interval> BytesOf(const Layout& tile, std::uint64_t count, std::int64_t stride, std::uint64_t origin,
                              std::uint64_t first, std::uint64_t last, std::size_t limit);

}  // namespace lzy::datatypes
