#pragma once
// Capture: what one process takes out of its write buffers while it writes a shared file, so that the commit need not
// read the data back (docs/design.md "Capture"; Gropp, Ross, Miller §5 found that reading back is most of the cost of lazy
// redundancy, and FIVER that data are best hashed while they are in memory anyway). Of every block that this process
// writes whole and once in an epoch: the hash. Of every row: the sum of its captured blocks' shares of the parity.
//
// What is kept is a promise about the file's contents, so anything doubtful is not kept: blocks written twice, in parts
// that do not meet, past the bound on memory, or in a way that was not seen are re-read by the commit. Blocks that
// other processes wrote too are found when coverage is exchanged (encode/coverage.h).

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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

class Capture {
 public:
  /// `parameters`: of the layout that the commit is expected to choose; with any other all is re-read. `memory`: bytes
  /// that may be kept. Fails for parameters that no layout can have.
  /// `hold`: of these bytes so many may be copies of captured blocks, for Held(). `key`: that the leaves are to be made with.
  static Result<std::unique_ptr<Capture>> Create(const GeometryParameters& parameters, std::uint64_t memory,
                                                 std::uint64_t hold = 0,
                                                 std::shared_ptr<const LeafKey> key = nullptr);

  // While the file is written. Thread-safe, and never fail: what cannot be kept will be re-read.

  /// The file has these bytes at [offset, offset + bytes.size()) now.
  void Take(std::uint64_t offset, ByteSpan bytes) noexcept;
  /// Something was written, or may be at any time until the commit, to [begin, end).
  void Miss(Interval bytes) noexcept;
  void MissAll() noexcept;

  // At the commit, when nothing is written any more.

  std::uint64_t block_size() const { return block_; }
  /// Whether blocks and rows are where `layout` has them.
  bool Fits(const Layout& layout) const;
  /// The file has `size` bytes: keeps of what was captured only what is of use, and makes the last block whole.
  void Finish(std::uint64_t size);
  /// Blocks that were captured, as intervals of block numbers; at most `limit` intervals, a subset if there are more.
  std::vector<Interval> Captured(std::size_t limit) const;
  /// Blocks of which this process wrote anything, as intervals of block numbers; a superset if there are more than
  /// `limit`. One interval up to the largest number stands for all.
  std::vector<Interval> Written(std::size_t limit) const;
  const Hash& leaf(std::uint64_t block) const;  ///< precondition: captured
  /// What was written to the block, if there was room to keep it: of the last one of a file what the file has of it. Empty if
  /// not. Precondition: captured.
  ByteSpan Held(std::uint64_t block) const;
  /// What was written to parts of blocks that were not written whole, if it was asked for (`hold`): calls fn(offset in the file,
  /// bytes) in their order.
  template <class Fn>
  void ForEachPart(const Fn& fn) const {
    for (const auto& [block, parts] : parts_) {
      for (const Interval& part : parts.have.intervals()) {
        fn(block * block_ + part.begin, ByteSpan(parts.bytes.data() + part.begin, part.end - part.begin));
      }
    }
  }
  /// Blocks to which something was written of which nothing is known, as in Written: neither captured nor parts.
  std::vector<Interval> Unknown(std::size_t limit) const;
  /// Adds a block that nobody captured to the sums of its row, of which this has captured another one. It does not become
  /// captured. `whole`: block_size bytes, zeros behind the end of the file, aligned as AlignedBuffer is. Thread-safe.
  void AddRead(std::uint64_t block, const std::uint8_t* whole);
  /// The share that this process's blocks have in parity block `q` of a row, block_size bytes; null if none of the row
  /// is captured.
  const std::uint8_t* ParityOf(const RowId& row, std::uint32_t q) const;
  std::uint64_t bytes_captured() const { return bytes_captured_; }

 private:
  static constexpr std::uint64_t kPageBlocks = 256;
  struct Page {
    std::array<Hash, kPageBlocks> leaves;
    std::bitset<kPageBlocks> captured;
  };
  // Consecutive slices of one unit row.
  struct Chunk {
    std::uint8_t* parity = nullptr;   // of m times the chunk's slices, of which only those with blocks mean anything
    std::vector<std::uint32_t> blocks;  // by slice: how many are summed up
    std::vector<bool> spoiled;        // by slice: the sum has blocks in it that do not count
  };
  // A block of which some parts were written.
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
  bool IsNew(std::uint64_t block) const;
  bool IsUnwritten(std::uint64_t block) const;
  std::uint64_t StitchBytes() const;
  void MissBlocks(Interval blocks);
  void Forget(Interval blocks);
  bool Reserve(std::uint64_t bytes);
  void Hold(std::uint64_t block, ByteSpan bytes);
  Page* PageFor(std::uint64_t block);
  bool IsCaptured(std::uint64_t block) const;
  Chunk* ChunkFor(const RowId& row);
  const Chunk* FindChunk(const RowId& row) const;
  /// Where the sum for parity block `q` of the row is.
  std::uint8_t* Sum(Chunk& chunk, const RowId& row, std::uint32_t q) const;
  std::uint32_t SliceInChunk(const RowId& row) const { return row.slice % chunk_slices_; }

  const Layout layout_;
  const Plan plan_;
  const std::uint64_t block_;
  const std::uint32_t chunk_slices_;
  const std::uint64_t memory_;
  const bool rows_at_once_;  ///< there is room for the blocks of a row to be copied
  std::mutex mutex_;
  std::uint64_t used_ = 0;
  std::uint64_t bytes_captured_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::map<ChunkKey, Chunk> chunks_;
  Arena sums_;  // of all chunks
  std::map<std::uint64_t, Stitch> stitches_;
  const bool holds_;
  std::uint64_t room_to_hold_;
  const std::shared_ptr<const LeafKey> key_;
  std::map<std::uint64_t, std::vector<std::uint8_t>> held_;  // by block
  std::map<std::uint64_t, Stitch> parts_;                    // by block: when all is written, what is left of stitches_
  IntervalSet missed_{4096};  // block numbers
  AlignedBuffer scratch_;
};

}  // namespace lzy
