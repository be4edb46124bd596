#pragma once
// Capture: what one process takes out of its write buffers while it writes a shared file, so the commit need not read
// the data back (docs/design.md §4, "Capture"). Gropp, Ross and Miller (§5) found that reading back is most of the
// cost of lazy redundancy. FIVER found that data are best hashed while they are in memory anyway.
//
// Of every block that this process writes whole and once in an epoch, it keeps the hash. Of every row, it keeps the
// sum of its captured blocks' shares of the parity. romio_hooks/transfers feeds it; the commit
// (commit/protect_shared.cc) takes leaves and sums from it.
//
// What is kept is a promise about the contents of the file. So anything doubtful is not kept, but *missed*: blocks
// written twice, in parts that do not meet, beyond the bound on memory, or in a way that was not seen. The commit
// reads them. Blocks that other processes wrote, too, are found when coverage is exchanged (encode/coverage.h).
//
// States of a block: unwritten; in parts (stitches_); captured (a bit in its page, its share in a sum); missed. A
// missed block never becomes captured again. Invariant: a captured block has a leaf, and the sum of its row has its
// share once. A sum that has the share of a block that is no longer captured is spoiled, and is not used.

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "base/bytes.h"
#include "base/interval_set.h"
#include "erasure/codec.h"
#include "geometry/layout.h"
#include "merkle/leaf_key.h"
#include "storage/arena.h"
#include "storage/parallel.h"

namespace lzy {

/// One epoch of one shared file on one process. Nothing of it is persistent. All is local: it makes no MPI calls.
class Capture {
 public:
  /// `parameters`: of the layout that the commit is expected to choose. If it chooses another one, everything is read
  /// back. `memory`: bytes that may be kept in all. `hold` (at most `memory`): bytes of these that are set aside for
  /// copies of captured blocks, for Held(). `key`: makes the leaves of a sealed dataset; null: none. kInvalidArgument
  /// for parameters that no layout of a shared file with one group can have.
  static Result<std::unique_ptr<Capture>> Create(const GeometryParameters& parameters, std::uint64_t memory,
                                                 std::uint64_t hold = 0,
                                                 std::shared_ptr<const LeafKey> key = nullptr);

  // While the file is written. These calls are thread-safe and never fail: what cannot be kept is missed.

  /// Says that the file has these bytes at [offset, offset + bytes.size()) now. `bytes` need no alignment, and must
  /// not change during the call.
  void Take(std::uint64_t offset, ByteSpan bytes) noexcept;
  /// Says that something was written to [begin, end), or may be until the commit. Its blocks are missed.
  void Miss(Interval bytes) noexcept;
  /// The same for the whole file. Frees what was kept, but for the memory of sums.
  void MissAll() noexcept;

  // At the commit, when nothing is written any more. Call Finish first. Several threads may make const calls at once,
  // or AddRead, but not both.

  std::uint64_t block_size() const { return block_; }
  /// Whether blocks and rows are where `layout` has them. Sizes do not matter.
  bool Fits(const Layout& layout) const;
  /// Tells that the file has `size` bytes. Drops what is of no use: blocks behind the end, parts that are no whole
  /// blocks, blocks of spoiled sums. Captures the last block if its parts are exactly what the file has of it. Call it
  /// once.
  void Finish(std::uint64_t size);
  /// Blocks that were captured, as intervals of block numbers; at most `limit` intervals, a subset if there are more.
  std::vector<Interval> Captured(std::size_t limit) const;
  /// Blocks of which this process wrote anything, as intervals of block numbers; a superset if there are more than
  /// `limit`. One interval up to the largest number stands for all.
  std::vector<Interval> Written(std::size_t limit) const;
  /// The leaf of a block. Precondition: the block is captured.
  const Hash& leaf(std::uint64_t block) const;
  /// What was written to the block, if there was room to keep a copy; empty if not. Of the last block of a file, it is
  /// what the file has of it. Precondition: the block is captured. verify-writes compares this with the file, and
  /// writes it again.
  ByteSpan Held(std::uint64_t block) const;
  /// What was written to parts of blocks that were not written whole, if `hold` is not 0. Calls fn(offset in the file,
  /// bytes) in the order of offsets.
  template <class Fn>
  void ForEachPart(const Fn& fn) const {
    for (const auto& [block, parts] : parts_) {
      for (const Interval& part : parts.have.intervals()) {
        fn(block * block_ + part.begin, ByteSpan(parts.bytes.data() + part.begin, part.end - part.begin));
      }
    }
  }
  /// Blocks to which something was written that is not known: neither captured nor in parts. As intervals of block
  /// numbers, a superset if there are more than `limit`, as in Written.
  std::vector<Interval> Unknown(std::size_t limit) const;
  /// Adds a block that nobody captured to the sums of its row. It does not become captured. Precondition: this process
  /// captured another block of the row. `whole`: block_size bytes, with zeros behind the end of the file, aligned to
  /// 32 bytes. Thread-safe.
  void AddRead(std::uint64_t block, const std::uint8_t* whole);
  /// The share of this process's blocks in parity block `q` of a row: block_size bytes, valid until the capture ends.
  /// Null if no block of the row is captured.
  const std::uint8_t* ParityOf(const RowId& row, std::uint32_t q) const;
  /// Bytes of the file in captured blocks, counted by Finish.
  std::uint64_t bytes_captured() const { return bytes_captured_; }

 private:
  // Leaves are kept for stretches of blocks, so the map has few entries and sparse writes cost little.
  static constexpr std::uint64_t kPageBlocks = 256;
  struct Page {
    std::array<Hash, kPageBlocks> leaves;
    std::bitset<kPageBlocks> captured;
  };
  // Parity sums for consecutive slices of one unit row: m stretches, one for each parity block of the row, each slice
  // by slice.
  struct Chunk {
    std::uint8_t* parity = nullptr;     // in sums_; a slice without blocks is undefined
    std::vector<std::uint32_t> blocks;  // by slice: how many are summed up
    std::vector<bool> spoiled;          // by slice: the sum has blocks in it that are not captured
  };
  // A block of which some parts were written. More than 16 parts are not followed.
  struct Stitch {
    AlignedBuffer bytes;
    IntervalSet have{16};
  };
  using ChunkKey = std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>;  // group, unit row, number in it

  Capture(Layout layout, Codec codec, std::uint64_t memory, std::uint64_t hold, std::shared_ptr<const LeafKey> key);
  Interval BlocksOf(Interval bytes) const;
  void TakeAll(std::uint64_t offset, ByteSpan bytes);
  void TakeBlocks(Interval blocks, const std::uint8_t* bytes);
  void TakeRow(const RowId& row, Interval blocks, const std::uint8_t* bytes);
  void TakeBlock(std::uint64_t block, ByteSpan bytes);
  Hash CopyAligned(std::uint64_t block, const std::uint8_t* from, std::uint8_t* copy, const std::uint8_t*& use) const;
  void AddToSums(const Layout::DeviceRow& at, Chunk& chunk, const std::uint8_t* whole);
  void TakePart(std::uint64_t block, std::uint32_t at, ByteSpan bytes);
  /// Neither captured nor missed; parts of it may be there.
  bool IsNew(std::uint64_t block) const;
  /// The same, and no parts either.
  bool IsUnwritten(std::uint64_t block) const;
  /// What a stitch counts against memory_.
  std::uint64_t StitchBytes() const;
  /// Marks blocks as missed, and forgets what was kept of them.
  void MissBlocks(Interval blocks);
  void Forget(Interval blocks);
  /// Counts `bytes` against memory_; false if there is no room for them.
  bool Reserve(std::uint64_t bytes);
  void Hold(std::uint64_t block, ByteSpan bytes);
  /// The page of a block, made if it is not there; null if there is no room for it.
  Page* PageFor(std::uint64_t block);
  bool IsCaptured(std::uint64_t block) const;
  /// The same for the chunk of a row.
  Chunk* ChunkFor(const RowId& row);
  const Chunk* FindChunk(const RowId& row) const;
  /// Where the sum for parity block `q` of the row is.
  std::uint8_t* Sum(Chunk& chunk, const RowId& row, std::uint32_t q) const;
  std::uint32_t SliceInChunk(const RowId& row) const { return row.slice % chunk_slices_; }

  const Layout layout_;  // of the largest possible file
  const Plan plan_;
  const std::uint64_t block_;
  const std::uint32_t chunk_slices_;
  const std::uint64_t memory_;  // without what is for held_
  const bool rows_at_once_;     // there is room to copy all blocks of a row
  std::mutex mutex_;            // for all that follows, while the file is written
  std::uint64_t used_ = 0;      // of memory_
  std::uint64_t bytes_captured_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::map<ChunkKey, Chunk> chunks_;
  Arena sums_;  // of all chunks
  std::map<std::uint64_t, Stitch> stitches_;
  const bool holds_;  // `hold` was not 0
  std::uint64_t room_to_hold_;
  const std::shared_ptr<const LeafKey> key_;
  std::map<std::uint64_t, std::vector<std::uint8_t>> held_;  // by block
  std::map<std::uint64_t, Stitch> parts_;                    // by block: what Finish leaves of stitches_, if holds_
  IntervalSet missed_{4096};  // block numbers
  AlignedBuffer scratch_;     // aligned copies of the blocks that are being taken
};

}  // namespace lzy
