#pragma once
// The places of the data of a datatype, in a file or in memory: a compact tree that is built once and then gives the bytes
// of any part of the data. Numbers only, no MPI.
//
// type_map.h makes layouts from MPI datatypes. The hooks (romio_hooks/ranges) call BytesOf for the bytes of a file or of a
// buffer that a call touches. Payload (transport/packed_type) walks through a layout to copy its runs.
//
// A program may describe millions of pieces by a few numbers. So the tree has the form of the datatype: it stores a
// repetition as a count and a stride, and never lists the repeated pieces. The time of a query is proportional to the depth
// of the tree and to the number of intervals in the result, not to the number of pieces.
//
// Invariants:
//
// - Every byte of the data lies in [begin, end). A layout may include too much (a hull), but never too little: the hooks
// encode the rows of all included bytes.
//
// - Data are numbered from 0 in the order in which they are written, across holes and levels.
//
// - Layouts are immutable once they are shared, so threads may use them together.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/interval_set.h"

namespace lzy::datatypes {

struct LayoutNode;

/// Some data in the order in which they are written, and their bytes relative to an origin. Cheap to copy: child nodes are
/// shared and never change. Three forms:
///  - one run: bytes [begin, end), in ascending order (`exact`, no `inner`);
///  - a hull: somewhere in [begin, end); the exact places are not known, or would take too much memory (not `exact`, no `inner`);
///  - the data of `inner`, moved so that they begin at `begin` (`exact` if `inner` has no hull).
/// If `size` is 0, there are no data, and the other fields have no meaning.
struct Layout {
  std::int64_t begin = 0;  ///< true bounds of the written bytes, whatever the extent of the type
  std::int64_t end = 0;
  std::uint64_t size = 0;  ///< bytes of data
  bool exact = true;
  std::shared_ptr<const LayoutNode> inner;
  bool ordered = true;  ///< of a hull: the data that it stands for were in ascending order

  static Layout Run(std::int64_t begin, std::uint64_t size);
  static Layout Hull(std::int64_t begin, std::int64_t end, std::uint64_t size) { return {begin, end, size, false, {}, true}; }
  bool IsRun() const { return !inner && exact; }
  /// Whether later data lie behind earlier data, without overlaps. Then the first and the last piece bound the others.
  bool InOrder() const;
  /// How many runs and hulls it has. The largest number also stands for more than that.
  std::uint64_t runs() const;
};

/// Either `child` repeated, or `parts` one after another. Offsets are relative to the node's own origin. A Layout moves
/// it by its own `begin`, so one node serves in several places (a datatype that is used twice).
struct LayoutNode {
  struct Part {
    Layout layout;
    // Sums, so that the part with any piece of data is found by a binary search.
    std::uint64_t data_before = 0;  ///< in the parts before this one
    std::uint64_t runs_before = 0;
  };

  std::int64_t begin = 0;
  std::uint64_t runs = 0;
  bool in_order = true;  ///< see Layout::InOrder
  // count > 0: data of `child` at its own place, then at `stride`, 2 * `stride`, ...
  std::uint64_t count = 0;
  std::int64_t stride = 0;
  Layout child;
  // count == 0:
  std::vector<Part> parts;
};

// How layouts are made. All throw std::overflow_error if a byte would lie beyond what an offset can say (2^63).

/// The same data `by` bytes further on.
Layout Moved(Layout layout, std::int64_t by);

/// `count` times `layout`, each `stride` bytes after the one before it. The stride may be negative or 0. Neighbours
/// that touch become one run, and repetitions of repetitions one, so common types stay small.
Layout Repeated(std::uint64_t count, std::int64_t stride, const Layout& layout);

/// Layouts one after another, each at its own place. At most `limit` (>= 1) are kept separately. If there are more,
/// neighbours are joined to hulls, the same number in each, so memory is bounded and all of the data lose the same
/// precision.
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
  std::size_t together_ = 1;  // how many added parts each of parts_ stands for; a power of two
  std::size_t in_last_ = 1;   // the same for the last one, which may not be full
};

/// The bytes, counted from `origin`, of data [first, last) of `count` times `tile`, each `stride` after the previous one.
/// For a view: the tile is the filetype, the origin its displacement. The result is sorted, disjoint, with gaps, and has at
/// most `limit` (>= 1) intervals. It is exact if the data are at most `limit` runs in ascending order. Otherwise it is a
/// superset, computed without visiting each run. Preconditions: first < last <= count * tile.size; stride > 0; no byte of
/// the whole is below 0 or beyond 2^63.
std::vector<Interval> BytesOf(const Layout& tile, std::uint64_t count, std::int64_t stride, std::uint64_t origin,
                              std::uint64_t first, std::uint64_t last, std::size_t limit);

}  // namespace lzy::datatypes
