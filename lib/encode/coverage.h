#pragma once
// Who captured what: found out at the commit, by all ranks together.

#include <span>
#include <vector>

#include "comm/communicator.h"
#include "encode/capture.h"
#include "rows/rows.h"

namespace lzy {

/// Blocks whose contents one rank captured and no other rank touched. The same on every rank.
struct Coverage {
  struct Piece {
    Interval blocks;
    int rank = 0;
  };
  std::vector<Piece> pieces;  ///< ascending, disjoint
  /// Blocks that are nobody's, since two ranks wrote them, but are in the sums of a rank all the same. Ascending, disjoint.
  std::vector<Interval> disputed;
  bool complete = true;  ///< no rank captured more than these
};
/// Collective; the captures are finished.
Result<Coverage> ShareCoverage(Communicator& comm, const Capture& mine);

/// Walks through a coverage: who captured block `first_block`, or a later one.
class Captors {
 public:
  static constexpr int kNobody = -1;
  Captors(const Coverage& coverage, std::uint64_t first_block);
  /// The rank, or kNobody. To be asked in ascending order.
  int Of(std::uint64_t block);

 private:
  const std::vector<Coverage::Piece>& pieces_;
  std::vector<Coverage::Piece>::const_iterator at_;
};

/// Calls fn(slice, place, rank) for every data block of the rows of `run` that the file has: how far the row is from the
/// first of the run, where the block is, and who captured it, or Captors::kNobody.
template <class Fn>
void ForEachCaptor(const Layout& layout, const RowRun& run, const Coverage& coverage, const Fn& fn) {
  const Rotation rotation = layout.rotation(run.group);
  for (std::uint32_t position = rotation.m; position < rotation.n; ++position) {
    const std::uint32_t device = layout.group(run.group)[rotation.DeviceAt(position, run.unit_row)];
    Captors captors(coverage, layout.DataBlock(device, run.unit_row, run.first_slice).index);
    for (std::uint32_t s = 0; s < run.slices; ++s) {
      const BlockPlace place = layout.DataBlock(device, run.unit_row, run.first_slice + s);
      if (place.length == 0) break;
      fn(s, place, captors.Of(place.index));
    }
  }
}

/// Rows to be encoded, by how they can be had.
struct SortedRows {
  std::vector<RowRun> reread;    ///< all of it is read
  std::vector<RowRun> own;       ///< captured by this rank; other ranks have other rows of their own
  std::vector<RowRun> combined;  ///< captured by several ranks
  /// Blocks of the latter two that nobody captured: this rank is to read them, and to add them to what it captured of
  /// the row. No rank has the same ones.
  std::vector<BlockPlace> gaps;
};
/// Of a shared file's `runs`: `reread` and `combined` are the same on every rank. To combine a row every rank sends as
/// much as its parity is, so with many ranks rows of several are cheaper to read; so are those that need buffers of more
/// than an eighth of `memory`. Rows of which less than half was captured are read as a whole, and so is
/// what would give a rank more to read than its part of all: who captured little of a row should not have to read the rest.
SortedRows SortRows(const Layout& layout, std::span<const RowRun> runs, const Coverage& coverage,
                    const Communicator& comm, std::uint64_t memory);

}  // namespace lzy
