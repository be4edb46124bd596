#pragma once
// Records which rank captured which blocks of a shared file. At the commit, all ranks exchange these records, and sort the
// rows by the way in which their parity can be made (docs/design/commit.md §4, "Capture").
//
// The commit calls ShareCoverage once, then CloseOpen and SortRows. Rows to reread go to EncodePass::Run, gaps to
// EncodePass::ReadInto, the others to EncodeCaptured. verify-writes uses the coverage, too (commit/check_written.cc).
// All ranks have the same Coverage, so they sort rows alike without further messages.

#include <span>
#include <vector>

#include "comm/communicator.h"
#include "encode/capture.h"
#include "rows/rows.h"

namespace lzy {

/// The blocks that one rank captured and no other rank touched. The same on every rank. Intervals are of block
/// numbers.
struct Coverage {
  struct Piece {
    Interval blocks;
    int rank = 0;
  };
  std::vector<Piece> pieces;  ///< ascending, disjoint
  /// Blocks that two ranks wrote, so that nobody owns them, but that are in the sums of a rank. A row with such a block
  /// cannot be completed by reading. Ascending, disjoint.
  std::vector<Interval> disputed;
  /// True if a rank knows parts of a block that nobody captured (ShareParts).
  bool has_parts = false;
  /// False if some rank captured more blocks than it could list. These may be in sums, so no gaps are filled then.
  bool complete = true;
};
/// Exchanges what the ranks captured and wrote. Costs one all-gather of at most some megabytes. Precondition: Finish
/// was called on the captures. Collective; the same Status on all ranks.
Result<Coverage> ShareCoverage(Communicator& comm, const Capture& mine);
/// Collects what ranks still know of the blocks that nobody captured, so that the commit can compare it with what it reads
/// (FileJob::written). Leaves out a part if another rank wrote any byte of it, or may have written one, and a part that the
/// file has not. Ascending, disjoint, each in one block of `layout`; the same on every rank. Blocks that `coverage` gives to a
/// rank are captured, so they have no parts. Call it before CloseOpen. Costs one all-gather. Collective; the same Status on
/// all ranks.
Result<std::vector<WrittenPart>> ShareParts(Communicator& comm, const Layout& layout, const LeafKey* key, const Capture& mine,
                                            const Coverage& coverage);
/// Captures the open blocks of `mine` that `coverage` gives to `rank`, and drops the others. Blocks of rows outside `runs`,
/// the rows to encode, stay open. Local; throws std::bad_alloc.
void CloseOpen(const Layout& layout, std::span<const RowRun> runs, const Coverage& coverage, int rank, Capture& mine);
/// Call it after the rows were encoded: lets `mine` keep the sums of rows with blocks that nobody wrote yet. A program that
/// appends writes these next. Local.
void KeepUnfinished(const Layout& layout, const Coverage& coverage, Capture& mine);

/// The parts of `all` that are not in `taken`. All three lists are ascending and disjoint.
std::vector<Interval> Without(const std::vector<Interval>& all, const std::vector<Interval>& taken);

/// Walks through a coverage in ascending order of blocks. `coverage` must outlive it.
class Captors {
 public:
  static constexpr int kNobody = -1;
  /// `first_block`: the first block that will be asked for, or an earlier one.
  Captors(const Coverage& coverage, std::uint64_t first_block);
  /// The rank that captured the block, or kNobody. Blocks must not descend from call to call.
  int Of(std::uint64_t block);

 private:
  const std::vector<Coverage::Piece>& pieces_;
  std::vector<Coverage::Piece>::const_iterator at_;
};

/// Calls fn(slice, place, rank) for every existing data block in the rows of `run`. `slice` is the number of the row in the
/// run, from 0. `rank` captured the block; Captors::kNobody if no rank did. Goes device by device, so the blocks of each
/// device ascend.
template <class Fn>
void ForEachCaptor(const Layout& layout, const RowRun& run, const Coverage& coverage, const Fn& fn) {
  const Rotation rotation = layout.rotation(run.group);
  for (std::uint32_t position = rotation.m; position < rotation.n; ++position) {
    const std::uint32_t device = layout.DeviceAt(run.group, position, run.unit_row);
    Captors captors(coverage, layout.DataBlock(device, run.unit_row, run.first_slice).index);
    for (std::uint32_t s = 0; s < run.slices; ++s) {
      const BlockPlace place = layout.DataBlock(device, run.unit_row, run.first_slice + s);
      if (place.length == 0) break;
      fn(s, place, captors.Of(place.index));
    }
  }
}

/// Rows to encode, sorted by the way in which their parity can be made. No row is in two lists.
struct SortedRows {
  std::vector<RowRun> reread;    ///< read as a whole; the same on every rank
  std::vector<RowRun> own;       ///< captured by this rank alone; other ranks have other rows
  std::vector<RowRun> combined;  ///< captured by several ranks; the same on every rank
  /// Blocks of own and combined rows that nobody captured, and that this rank must read and add to its sums. Each gap is in
  /// the list of one rank.
  std::vector<BlockPlace> gaps;
};
/// Sorts the `runs` of a shared file. A row is reread if any of these holds:
/// - it has a gap that cannot be filled (Coverage::disputed, complete);
/// - several ranks captured it, and together less than half of it;
/// - several ranks captured it, and there are so many ranks that reading is cheaper. To combine a row, every rank
///   sends as much as the parity of the row;
/// - several ranks captured it, and the buffers to combine it would need more than an eighth of `memory` (bytes);
/// - the rank that fills the gaps would have to read more than its equal part of all blocks.
/// Local; throws std::bad_alloc.
SortedRows SortRows(const Layout& layout, std::span<const RowRun> runs, const Coverage& coverage,
                    const Communicator& comm, std::uint64_t memory);

}  // namespace lzy
