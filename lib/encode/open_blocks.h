#pragma once
// The blocks whose bytes a capture still holds: incomplete blocks, and blocks that may be written again.
//
// The capture (encode/capture.h) puts incomplete blocks here. It also puts complete blocks here while the geometry of the
// file is not certain, or if programs tend to write them again (headers). Bytes that are here can be overwritten; a share
// in a parity sum cannot be taken back.
//
// Invariant: the bytes of a block in `have` are those of the file, if no other process wrote them.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/interval_set.h"
#include "storage/parallel.h"

namespace lzy {

/// Not thread-safe, local. Numbers of blocks are those of the file.
class OpenBlocks {
 public:
  static constexpr std::size_t kMostParts = 16;

  struct Block {
    AlignedBuffer bytes;       ///< block_size bytes
    IntervalSet have{kMostParts};  ///< bytes that were written; a block in more parts goes to encode/written_bytes.h
    std::uint64_t turn = 0;    ///< the largest turn of a write to it
    bool queued = false;
    bool carried = false;      ///< nothing was written to it in this epoch
  };
  using Map = std::map<std::uint64_t, Block>;

  explicit OpenBlocks(std::uint64_t block_size) : block_(block_size) {}

  bool Has(std::uint64_t block) const { return blocks_.contains(block); }
  /// True if the first `length` bytes of the block are there, and none behind them. `length`: at most block_size.
  bool IsWhole(std::uint64_t block, std::uint64_t length) const;
  const Map& blocks() const { return blocks_; }
  /// Memory for one block: the buffer, and an estimate of its overhead.
  std::uint64_t BytesEach() const;

  /// Records that [at, at + bytes.size()) of the block was written. `bytes` are in the program's memory
  /// (base/program_memory.h). `turn`: see Capture::Take. False if the block can no longer be followed: it has too many
  /// parts, the order of two writes is not known, or `bytes` cannot be read. Throws std::bad_alloc. If it returns false or
  /// throws, the caller must erase the block.
  bool Put(std::uint64_t block, std::uint64_t at, ByteSpan bytes, std::uint64_t turn);
  /// Removes and returns a block. Precondition: Has(block).
  Block Take(std::uint64_t block);
  void Insert(std::uint64_t block, Block with) { blocks_.insert_or_assign(block, std::move(with)); }
  /// Sets all bytes of a block from `length` on to zero. Precondition: Has(block).
  void Pad(std::uint64_t block, std::uint64_t length);
  /// Drops blocks. Returns how many there were.
  std::uint64_t Erase(Interval blocks) noexcept;
  /// Drops everything at or behind byte `size` of the file. Returns how many blocks were dropped.
  std::uint64_t Cut(std::uint64_t size);
  /// Begins another epoch: the file has the bytes of all blocks.
  void Carry();
  void Clear() { blocks_.clear(); }
  /// If more than `keep` blocks are whole: the one that became whole first. nullopt otherwise. Never block 0: most file
  /// formats have a header there, which is written again at the end.
  std::optional<std::uint64_t> OldestWhole(std::size_t keep);

 private:
  const std::uint64_t block_;
  Map blocks_;
  std::deque<std::uint64_t> whole_;  // in the order in which they became whole; may contain erased blocks
};

}  // namespace lzy
