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
struct DataLayout {
  std::int64_t begin = 0;  ///< bounds of the written bytes, not of the extent of the MPI type
  std::int64_t end = 0;
  std::uint64_t size = 0;  ///< bytes of data
  bool exact = true;
  std::shared_ptr<const LayoutNode> inner;
  bool ordered = true;  ///< of a hull: its data were in ascending order

  static DataLayout Run(std::int64_t begin, std::uint64_t size);
  static DataLayout Hull(std::int64_t begin, std::int64_t end, std::uint64_t size) { return {begin, end, size, false, {}, true}; }
  bool IsRun() const { return !inner && exact; }
  /// Whether each piece of data lies behind the previous one, without overlaps. Then the first and the last piece bound the
  /// others.
  bool InOrder() const;
  /// Number of runs and hulls. The largest value also means "more".
  std::uint64_t runs() const;
};

/// Either `child` repeated, or `elements` one after another. Offsets are relative to the node's own origin. A DataLayout moves
/// it by its own `begin`, so one node serves in several places (a datatype that is used twice).
struct LayoutNode {
  struct Element {
    DataLayout layout;
    // Sums, so that a binary search finds the part with a given byte of data.
    std::uint64_t data_before = 0;  ///< in the parts before this one
    std::uint64_t runs_before = 0;
  };

  std::int64_t begin = 0;
  std::uint64_t runs = 0;
  bool in_order = true;  ///< see DataLayout::InOrder
  // count > 0: data of `child` at its own place, then at `stride`, 2 * `stride`, ...
  std::uint64_t count = 0;
  std::int64_t stride = 0;
  DataLayout child;
  // count == 0:
  std::vector<Element> elements;
};

// Functions that make layouts. All throw std::overflow_error if a byte would lie beyond 2^63, the largest offset.

/// The same data, moved by `by` bytes.
DataLayout Moved(DataLayout layout, std::int64_t by);

/// Repeats `layout` `count` times, each `stride` bytes after the previous one. The stride may be negative or 0. Adjacent
/// runs are merged into one run, and nested repetitions into one repetition, so common types need few nodes.
DataLayout Repeated(std::uint64_t count, std::int64_t stride, const DataLayout& layout);

/// Collects layouts that follow one another, each at its own place. Keeps at most `limit` (>= 1) of them separately. If
/// there are more, joins the same number of neighbours to each hull. So memory is bounded, and precision is lost evenly.
class LayoutList {
 public:
  /// `expected`: the number of parts that will be added.
  explicit LayoutList(std::size_t limit, std::size_t expected) : limit_(limit) {
    elements_.reserve(std::min(limit, expected));
  }
  void Add(DataLayout part);
  DataLayout Take();

 private:
  void JoinPairs();

  std::size_t limit_;
  std::vector<LayoutNode::Element> elements_;
  std::size_t together_ = 1;  // number of added parts in each of elements_; a power of two
  std::size_t in_last_ = 1;   // number of added parts in the last of elements_, which may not be full
};

/// Places of data [first, last) of a tile that is repeated `count` times, each `stride` bytes after the previous one.
/// Places are counted from `origin`. For a file view, the tile is the filetype, and the origin is the displacement. The
/// result is sorted and disjoint, and has at most `limit` (>= 1) intervals. It is exact if the data are at most `limit`
/// runs in ascending order. Otherwise it is a superset, computed without visiting each run. Preconditions: first < last <=
/// count * tile.size; stride > 0; no byte of all tiles is below 0 or beyond 2^63.
std::vector<Interval> BytesOf(const DataLayout& tile, std::uint64_t count, std::int64_t stride, std::uint64_t origin,
                              std::uint64_t first, std::uint64_t last, std::size_t limit);

}  // namespace lzy::datatypes
