#pragma once
// Blocks whose bytes a capture still has: put together from parts, and kept while they may be written again.
//
// The capture (encode/capture.h) puts here what is no whole block, and whole blocks as long as it does not know the
// geometry of the file, or while programs tend to write them again (headers). Bytes that are still here can be
// overwritten; a share of the parity cannot be taken back.
//
// Invariant: the bytes in `have` of a block are what the file has there, if no other process wrote them.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/interval_set.h"
#include "storage/parallel.h"

namespace lzy {

/// Not thread-safe. All is local. Numbers of blocks are those of the file.
class OpenBlocks {
 public:
  static constexpr std::size_t kMostParts = 16;

  struct Block {
    AlignedBuffer bytes;       ///< block_size bytes
    IntervalSet have{kMostParts};  ///< which were written; a block in more parts is for encode/written_bytes.h
    std::uint64_t turn = 0;    ///< the largest turn of a write to it
    bool queued = false;
    bool carried = false;      ///< nothing was written to it in this epoch
  };
  using Map = std::map<std::uint64_t, Block>;

  explicit OpenBlocks(std::uint64_t block_size) : block_(block_size) {}

  bool Has(std::uint64_t block) const { return blocks_.contains(block); }
  /// Whether all `length` bytes of the block are there, and nothing behind them. `length`: at most block_size.
  bool IsWhole(std::uint64_t block, std::uint64_t length) const;
  const Map& blocks() const { return blocks_; }
  /// The memory that one block takes: the buffer, and an estimate of what comes with it.
  std::uint64_t BytesEach() const;

  /// Says that [at, at + bytes.size()) of the block was written. `bytes` are the program's memory (base/program_memory.h).
  /// `turn`: see Capture::Take. False if the block cannot be followed any more, because it is in too many parts, because the
  /// order of two writes is not known, or because `bytes` cannot be read. Throws std::bad_alloc. In both cases the caller
  /// must erase the block.
  bool Put(std::uint64_t block, std::uint64_t at, ByteSpan bytes, std::uint64_t turn);
  /// Takes a block out. Precondition: Has(block).
  Block Take(std::uint64_t block);
  void Insert(std::uint64_t block, Block with) { blocks_.insert_or_assign(block, std::move(with)); }
  /// Makes zeros of all bytes of a block from `length` on. Precondition: Has(block).
  void Pad(std::uint64_t block, std::uint64_t length);
  /// Drops blocks. Returns how many there were.
  std::uint64_t Erase(Interval blocks) noexcept;
  /// Drops what lies at or behind byte `size` of the file. Returns how many blocks went.
  std::uint64_t Cut(std::uint64_t size);
  /// Begins another epoch: the blocks are in the file as they are here.
  void Carry();
  void Clear() { blocks_.clear(); }
  /// The block that became whole first, of more than `keep`; none if there are no more. Block 0 is never the one: most
  /// file formats have a header there, which is written again at the end.
  std::optional<std::uint64_t> OldestWhole(std::size_t keep);

 private:
  const std::uint64_t block_;
  Map blocks_;
  std::deque<std::uint64_t> whole_;  // in the order in which they became whole; some may be gone since
};

}  // namespace lzy
