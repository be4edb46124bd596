#pragma once
// Capture: keeps hashes and parity sums of the data that one process writes to a file, so that the commit need not read
// these data back (docs/design/commit.md §4, "Capture"). Gropp, Ross and Miller (§5) found that reading back is most of the
// cost of lazy redundancy. FIVER found that data are best hashed while they are in memory.
//
// If this process writes a block whole and once in an epoch, the capture keeps its hash. For each row, it keeps the sum of
// the parity shares of its captured blocks. romio_hooks/transfers passes the writes to it; the commit
// (commit/protect_shared.cc) takes leaves and sums from it. For a member of a set it keeps no sums, as for a shared file
// without parity: each row of a set has one block of each member (commit/protect_set_commit.cc).
//
// The capture promises that the file has the contents of captured blocks. Blocks in doubt are *missed*, and the commit
// reads them: blocks that were written again after their bytes were dropped, incomplete blocks, blocks beyond the memory
// bound, and writes that were not seen. Blocks that other processes wrote, too, are found when the ranks exchange their
// coverage (encode/coverage.h).
//
// States of a block: unwritten; open (its bytes are kept, whole or in parts: encode/open_blocks.h); captured (a bit in its
// page, its share in a sum); missed. A missed block never becomes captured again. Invariant: a captured block has a leaf,
// and the sum of its row has its share once. If a sum has the share of a block that is no longer captured, the sum is
// spoiled, and is not used. Without parity there are no sums, and nothing to spoil.
//
// As long as the file may stay small, its geometry is not certain (docs/design/overview.md §3). Then all blocks stay open
// until the commit knows the geometry, or until the file is so large that its geometry is certain.

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "base/bytes.h"
#include "base/interval_set.h"
#include "encode/open_blocks.h"
#include "encode/written_bytes.h"
#include "erasure/codec.h"
#include "geometry/layout.h"
#include "merkle/leaf_key.h"
#include "storage/arena.h"
#include "storage/parallel.h"

namespace lzy {

/// The parameters of a capture.
struct CaptureSetup {
  /// The geometry that the commit is expected to choose. If it chooses another one, everything is read back.
  GeometryParameters parameters;
  /// If not 0: `parameters` hold for files of at least this many bytes; a smaller file may get others.
  std::uint64_t certain_from = 0;
  std::uint64_t memory = 0;  ///< the most bytes that may be kept
  /// Bytes of `memory` for copies of captured blocks (Held).
  std::uint64_t hold = 0;
  /// A block without a copy is missed, because its hash alone is useless.
  bool only_held = false;
  /// Data that are not captured are kept byte by byte in the memory of `hold`, to be compared with the storage (written()).
  bool compare = false;
  /// True: when a write returns, its bytes are in the file, so later writes come after it. False: this is not certain, so
  /// blocks that are written twice are missed. They are compared nevertheless, because in MPI the later write counts.
  bool in_order = true;
  std::shared_ptr<const LeafKey> key = nullptr;  ///< makes the leaves of a sealed dataset, or null
};

/// One epoch of one file on one process. Nothing is persistent. All functions are local and call no MPI.
class Capture {
 public:
  /// kInvalidArgument for parameters that no layout of a shared file with one group can have.
  static Result<std::unique_ptr<Capture>> Create(CaptureSetup setup);

  // While the file is written. These calls are thread-safe and never fail: blocks that cannot be kept are missed.

  /// Call it after the file got these bytes at [offset, offset + bytes.size()). `bytes` need no alignment, and must not
  /// change during the call. They are in the program's memory, so they are read only by ReadProgramMemory, each once; bytes
  /// that cannot be read are missed. `turn`: the number of the write, larger than that of any write that had ended before
  /// it began; 0 if another write is under way. Bytes of a larger turn replace those of a smaller one. If the order of two
  /// writes to a block is not known, the block is missed.
  void Take(std::uint64_t offset, ByteSpan bytes, std::uint64_t turn = 0) noexcept;
  /// The same, but the bytes are only kept for the comparison: the MPI library may have written others. The blocks are
  /// missed.
  void TakeToCompare(std::uint64_t offset, ByteSpan bytes, std::uint64_t turn = 0) noexcept;
  /// Call it before the file is cut to `size` bytes, or extended to them. Forgets what this process wrote at or behind
  /// `size`; these blocks may be captured again. No write of this process may be under way.
  void Cut(std::uint64_t size) noexcept;
  /// Records that `bytes` were written, or may be written until the commit. Their blocks are missed. `why`: the reason
  /// why these bytes cannot be compared.
  void Miss(Interval bytes, Uncompared why = Uncompared::kUnseen) noexcept;
  /// The same for the whole file. Frees what was kept, except the memory of sums.
  void MissAll() noexcept;
  /// Records that the MPI library may have written, or may write, to wrong places. All blocks are missed. The written bytes
  /// are still kept for the comparison.
  void Distrust() noexcept;

  /// Bytes of memory that it uses, of CaptureSetup::memory.
  std::uint64_t Kept() const {
    const std::lock_guard lock(mutex_);
    return used_ + (setup_.hold - room_to_hold_);
  }
  /// The end of the bytes that this process wrote in this epoch, without bytes that were cut off; 0 if there are none.
  /// kEverythingBehind if bytes behind byte `from` of the file were missed. Call it before Finish.
  std::uint64_t EndOfKnown(std::uint64_t from) const {
    const std::lock_guard lock(mutex_);
    if (from >= end_) return end_;
    const bool missed = written_ ? written_->IsUnknownIn({from, end_}) : missed_.Overlaps(BlocksOf({from, end_}));
    return missed ? kEverythingBehind : end_;
  }

  // At the commit, when writing has ended. Call Finish first. Several threads may make const calls at once, or AddRead, but
  // not both.

  std::uint64_t block_size() const { return block_; }
  /// True if a copy is kept of every captured block (CaptureSetup::only_held).
  bool only_held() const { return setup_.only_held; }
  const GeometryParameters& parameters() const { return layout_->parameters(); }
  /// Gives the layout of the file to the capture. If no sum was made so far, the capture takes its geometry. Drops useless
  /// parts: blocks behind the end, incomplete blocks, blocks of spoiled sums. The last block is whole if it has exactly the
  /// bytes of the file. False if blocks and rows are not where `layout` has them: then the sums are useless, but the leaves
  /// are right. Call it once in an epoch.
  bool Finish(const Layout& layout);
  /// Blocks whose shares are in sums, as intervals of block numbers; at most `limit` intervals, a subset if there are
  /// more.
  std::vector<Interval> Captured(std::size_t limit) const;
  /// Blocks that are still open, and whole, as for Captured. CloseOpen captures those that belong to this process.
  std::vector<Interval> Open(std::size_t limit) const;
  /// The bytes of block 0, if it is open, whole, and was written in this epoch; else empty. Precondition: Finish was
  /// called.
  ByteSpan FirstBlock() const;
  /// True if the file is so small that it may get another geometry than a larger one. Precondition: Finish was called.
  bool IsSmall() const { return size_ < setup_.certain_from; }
  /// New state of an open block.
  enum class Fate { kCaptured, kOpen, kDropped };
  /// Calls fate(block) for all open blocks, in ascending order, and changes their state accordingly.
  template <class Fn>
  void CloseOpen(const Fn& fate) {
    const std::lock_guard lock(mutex_);
    for (auto at = open_.blocks().begin(); at != open_.blocks().end();) {
      const std::uint64_t block = at++->first;
      const Fate what = fate(block);
      if (what == Fate::kCaptured) Close(block);
      if (what == Fate::kDropped) SetAside(block);
    }
  }
  /// Blocks of which this process wrote anything, as intervals of block numbers; a superset if there are more than `limit`.
  /// One interval up to the largest number means all blocks.
  std::vector<Interval> Written(std::size_t limit) const;
  /// Calls fn(block, bytes, copy) for the known parts of blocks that are not captured (yet): incomplete blocks, blocks that
  /// CloseOpen dropped, and open blocks. `bytes`: a range of the file, all of it written in this epoch. `copy`: its bytes.
  /// Nothing with `compare`: then written() has them.
  template <class Fn>
  void ForEachKept(const Fn& fn) const {
    if (written_) return;
    for (const OpenBlocks* blocks : {&aside_, &open_}) {
      for (const auto& [number, block] : blocks->blocks()) {
        if (!IsKept(number, block)) continue;
        for (const Interval& part : block.have.intervals()) {
          const std::uint64_t first = number * block_;
          fn(number, Interval{first + part.begin, first + part.end}, ByteSpan(block.bytes.data() + part.begin, part.end - part.begin));
        }
      }
    }
  }
  /// True if ForEachKept would call fn for a block that is not whole.
  bool HasParts() const { return !aside_.blocks().empty(); }
  /// Byte ranges of blocks that this process wrote and of which ForEachKept does not know all parts; a superset if there are
  /// more than `limit`. May have captured blocks.
  std::vector<Interval> NotKept(std::size_t limit) const;
  /// Blocks that this process wrote before MPI_File_set_size cut them, or may have written. Data of other processes in such
  /// a block may be older.
  const IntervalSet& cut() const { return cut_; }
  /// The leaf of a block. Precondition: the block is captured.
  const Hash& leaf(std::uint64_t block) const { return PageOf(block).leaves[block % kPageBlocks]; }
  /// A copy of the bytes written to the block, if there was room for it; empty if not, or if the block is not captured. For
  /// the last block of a file, only the bytes that the file has. verify-writes writes them again. Parity of a set may be
  /// made from them (only_held).
  ByteSpan Held(std::uint64_t block) const;
  /// The bytes written in this epoch that are not captured. Null without `compare`.
  const WrittenBytes* written() const { return written_ ? &*written_ : nullptr; }
  /// The bytes that this process wrote to part of a block, if a copy was kept; else empty.
  ByteSpan CopyOf(Interval bytes) const;
  /// Adds the bytes of `bytes` that this process wrote in this epoch, or may have written, to `found`. Precondition:
  /// `compare`.
  void AddWritten(Interval bytes, IntervalSet& found) const;
  /// Adds a block that nobody captured to the sums of its row. It does not become captured. Precondition: this process
  /// captured another block of the row. `whole`: block_size bytes, with zeros behind the end of the file, aligned to
  /// 32 bytes. Thread-safe.
  void AddRead(std::uint64_t block, const std::uint8_t* whole);
  /// The share of this process's blocks in parity block `q` of a row: block_size bytes, valid until the capture ends.
  /// Null if no block of the row is captured.
  const std::uint8_t* ParityOf(const RowId& row, std::uint32_t q) const;
  /// Whether the block was captured in an epoch before this one. Precondition: the block is captured.
  bool IsCarried(std::uint64_t block) const { return PageOf(block).carried.test(block % kPageBlocks); }
  /// Marks this capture as used by the commit. Carry keeps the sums of rows for which unfinished(row) is true.
  template <class Fn>
  void KeepSums(const Fn& unfinished) {
    const std::lock_guard lock(mutex_);
    for (auto& [key, chunk] : chunks_) {
      for (std::uint32_t i = 0; i < chunk_slices_; ++i) {
        chunk.slices[i].kept = chunk.slices[i].blocks > 0 && !chunk.slices[i].spoiled && !chunk.slices[i].mixed &&
                               unfinished(RowOf(key, i));
      }
    }
    carries_ = true;
  }
  /// Prepares for the next epoch. Precondition: the commit that used this capture counts, so the file has the captured
  /// contents. Keeps the bytes of a small file's blocks, and the sums of a large file's rows that KeepSums marked. Blocks
  /// in these stay captured. False if the capture is of no further use.
  bool Carry() noexcept;

 private:
  // Leaves are kept in pages of consecutive blocks, so the map has few entries and sparse writes cost little.
  static constexpr std::uint64_t kPageBlocks = 256;
  struct Page {
    std::array<Hash, kPageBlocks> leaves;
    std::bitset<kPageBlocks> captured;
    std::bitset<kPageBlocks> carried;  // captured before this epoch
  };
  // Parity sums for consecutive slices of one unit row: m areas, one for each parity block of the row, each slice by slice.
  struct Slice {
    std::uint32_t blocks = 0;  // number of blocks in the sum
    bool spoiled = false;      // the sum has a block that is no longer captured
    bool mixed = false;        // the sum has a block that was read
    bool kept = false;         // marked by KeepSums
  };
  struct Chunk {
    std::uint8_t* parity = nullptr;  // in sums_; a slice without blocks is undefined
    std::vector<Slice> slices;
  };
  using ChunkKey = std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>;  // group, unit row, number in it

  explicit Capture(CaptureSetup setup);
  /// Sets the places of blocks and rows. Precondition: there are no sums.
  Status SetGeometry(const GeometryParameters& parameters);
  /// True if blocks and rows are where `layout` has them. Sizes do not matter.
  bool Fits(const Layout& layout) const;
  Interval BlocksOf(Interval bytes) const;
  void TakeAll(std::uint64_t offset, ByteSpan bytes, std::uint64_t turn);
  /// Makes the geometry certain from now on.
  void Decide();
  void TakeWhole(Interval blocks, const std::uint8_t* bytes, std::uint64_t turn);
  void TakeBlocks(Interval blocks, const std::uint8_t* bytes);
  void TakeRow(const RowId& row, Interval blocks, const std::uint8_t* bytes);
  bool TakeWholeRow(const RowId& row, std::span<const std::uint64_t> index, std::uint64_t first, const std::uint8_t* bytes);
  void CopyAndTake(std::uint64_t block, const std::uint8_t* from);
  void TakeBlock(std::uint64_t block, ByteSpan bytes);
  void AddToSums(const Layout::DeviceRow& at, Chunk& chunk, const std::uint8_t* whole);
  void TakeOpen(std::uint64_t block, std::uint64_t at, ByteSpan bytes, std::uint64_t turn);
  /// Makes room for one more open block; false if there is none.
  bool ReserveOpen();
  /// Captures a whole open block.
  void Close(std::uint64_t block);
  /// Captures whole open blocks until at most `keep` of them are left.
  void CloseOldest(std::size_t keep);
  /// Number of bytes that the file has of the block. Before Finish, the file counts as infinitely long.
  std::uint64_t LengthOf(std::uint64_t block) const;
  /// True if the block is neither captured nor missed; it may be open.
  bool IsNew(std::uint64_t block) const;
  /// True if copies of this many bytes are needed, and there is no room for them.
  bool IsTooMuch(std::uint64_t bytes) const;
  /// True if the block is neither captured nor missed, and not open.
  bool IsUnwritten(std::uint64_t block) const;
  /// Marks blocks as missed, and forgets what was kept of them. With `compare`, moves that to written_.
  void MissBlocks(Interval blocks);
  /// After a write was taken: puts its missed parts into written_.
  void PutMissed(std::uint64_t offset, ByteSpan bytes, std::uint64_t turn);
  /// Copies the known bytes of blocks to written_.
  void PutKnown(Interval blocks) noexcept;
  void PutCaptured(std::uint64_t block);
  void PutOpen(std::uint64_t block, const OpenBlocks::Block& open);
  /// Records that these bytes cannot be compared.
  void Lose(Interval bytes, Uncompared why) noexcept;
  /// Removes the copy of a block, and frees its room.
  std::vector<std::uint8_t> TakeHeld(std::uint64_t block);
  /// Marks an open block as missed, and keeps its bytes for ForEachKept. The memory is that of the open block.
  void SetAside(std::uint64_t block);
  bool IsKept(std::uint64_t number, const OpenBlocks::Block& block) const {
    return !block.carried && !block.have.whole() && !cut_.Overlaps({number, number + 1});
  }
  void Forget(Interval blocks);
  void ForgetCaptured(Interval blocks);
  void EraseOpen(Interval blocks);
  /// Marks sums without captured blocks as new.
  void RenewSums();
  void FinishOpen();
  void DropSpoiled();
  void CarryBytes();
  void CarrySums();
  /// Calls fn(block) for all captured blocks, in ascending order.
  template <class Fn>
  void ForEachCaptured(const Fn& fn) const {
    for (const auto& [number, page] : pages_) {
      for (std::uint64_t i = 0; i < kPageBlocks; ++i) {
        if (page->captured.test(i)) fn(number * kPageBlocks + i);
      }
    }
  }
  /// Counts `bytes` against memory_; false if there is no room for them.
  bool Reserve(std::uint64_t bytes);
  void Hold(std::uint64_t block, ByteSpan bytes);
  /// The page of a block, created if needed; null if there is no room for it.
  Page* PageFor(std::uint64_t block);
  const Page& PageOf(std::uint64_t block) const { return *pages_.at(block / kPageBlocks); }
  bool IsCaptured(std::uint64_t block) const;
  /// The chunk of a row, created if needed; null if there is no room for it.
  Chunk* ChunkFor(const RowId& row);
  const Chunk* FindChunk(const RowId& row) const;
  ChunkKey KeyOf(const RowId& row) const { return {row.group, row.unit_row, row.slice / chunk_slices_}; }
  Slice& SliceOf(Chunk& chunk, const RowId& row) const { return chunk.slices[SliceInChunk(row)]; }
  RowId RowOf(const ChunkKey& key, std::uint32_t slice) const {
    return {std::get<0>(key), std::get<1>(key), std::get<2>(key) * chunk_slices_ + slice};
  }
  /// The place of the sum for parity block `q` of the row.
  std::uint8_t* Sum(const Chunk& chunk, const RowId& row, std::uint32_t q) const;
  std::uint32_t SliceInChunk(const RowId& row) const { return row.slice % chunk_slices_; }

  std::optional<Layout> layout_;  // of the largest possible file
  std::optional<Plan> plan_;
  const CaptureSetup setup_;
  const std::uint64_t block_;
  std::uint32_t chunk_slices_ = 1;
  const std::uint64_t memory_;      // without the memory for held_
  bool decided_;                    // the geometry is certain, or treated as certain
  bool rows_at_once_ = false;       // there is room to copy all blocks of a row
  std::uint64_t size_ = kEverythingBehind;  // of the file, as far as it is known
  mutable std::mutex mutex_;        // for all fields below, while the file is written
  std::uint64_t end_ = 0;           // EndOfKnown()
  std::uint64_t used_ = 0;          // of memory_
  bool carries_ = false;            // KeepSums was called
  std::map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::map<ChunkKey, Chunk> chunks_;
  std::unique_ptr<Arena> sums_ = std::make_unique<Arena>();  // of all chunks
  OpenBlocks open_;
  OpenBlocks closed_;         // of a small file: blocks that were open until the commit
  std::uint64_t room_to_hold_;
  std::map<std::uint64_t, std::vector<std::uint8_t>> held_;  // by block
  std::optional<WrittenBytes> written_;
  IntervalSet missed_{4096};  // block numbers
  IntervalSet cut_{4096};     // blocks that were written and then cut off
  AlignedBuffer scratch_;     // copies of the blocks that are being captured
  OpenBlocks aside_;          // after Finish: missed blocks whose bytes are still here
};

}  // namespace lzy
