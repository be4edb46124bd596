#pragma once
// Reads a data file or a parity region as a sequence of blocks with hashes, and checks it against its leaves.
//
// judge/examine calls CheckBlocks for all of a dataset; repair/, encode/ and commit/ check single blocks with the functions
// at the end. Everything is local to one rank. Nothing here writes.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/file.h"
#include "base/interval_set.h"
#include "geometry/layout.h"
#include "merkle/leaf_key.h"
#include "merkle/tree.h"

namespace lzy {

/// The fault of a block. judge/ decides whether it is damage, an edit, or at risk.
enum class BlockFault : std::uint8_t {
  kHash = 1,        ///< readable, but not what was committed
  kUnreadable = 2,  ///< EIO: an erasure
  kMissing = 3,     ///< the file does not exist, or ends before the block does
  kForsaken = 4,    ///< parity block of a row that has no parity (docs/format.md §3); CheckBlocks reports it as kHash
  kEncoding = 5,    ///< parity that does not match the data of its row (encode/check_parity.h), whether its hash is right or not
};

/// Consecutive blocks with the same fault.
struct BadBlocks {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  BlockFault fault = BlockFault::kHash;
  /// The first read was wrong, but a second read past the page cache was right. No repair is needed.
  bool transient = false;
  /// No copy of the sidecar has the hashes of these blocks. If `fault` is kHash, they may be right. CheckBlocks never sets
  /// it.
  bool unproven = false;
  LZY_FIELDS(first, count, fault, transient, unproven)
};

/// One stream of blocks: a data file, or the parity region of a sidecar. Owns nothing: the objects behind the pointers must
/// outlive it. Made by DataStream and ParityStream (dataset/view).
struct BlockStream {
  /// Null: the file is missing.
  File* file = nullptr;
  /// Offset of the first byte of the stream in the file.
  std::uint64_t base = 0;
  HashTag tag = HashTag::kDataLeaf;
  /// The key that makes the leaves (docs/format.md §12), or null.
  const LeafKey* key = nullptr;
  /// The committed leaves; null if they are unknown.
  const Tree* expected = nullptr;
  /// Place of block i within the stream; length 0 for holes. Called by several threads.
  std::function<BlockPlace(std::uint64_t)> place;
  /// The file was synced, so File::NextData is right about its holes, and they need not be read.
  bool synced = false;
};

/// Options and callbacks of CheckBlocks.
struct CheckSettings {
  /// Read past the page cache from the start. If false, only blocks that differ are read again past the cache.
  bool uncached = false;
  unsigned threads = 1;
  /// Bytes read at a time, for each thread.
  std::uint64_t buffer_bytes = 4u << 20;
  /// Called after each piece with the number of bytes read, by one thread at a time. May be empty.
  std::function<void(std::uint64_t bytes)> progress;
  /// Called before each piece, by several threads. If it returns true, the check ends with kInterrupted. May be empty.
  std::function<bool()> stop;
};

struct CheckResult {
  /// Ascending; neighbours with the same fault are merged. Includes transient ones.
  std::vector<BadBlocks> bad;
  /// Hashes of blocks [first, first + count) as they were read. Zero for blocks that could not be read, and for holes.
  std::vector<Hash> leaves;
  std::uint64_t bytes_read = 0;
};

/// Reads blocks [first, first + count) of `stream` and compares them with their leaves. If `expected` is null, only hashes
/// them. If a block differs, reads it again past the page cache before reporting it, so a bad page in memory does not count as
/// damage of the file. Fails only for errors that do not concern single blocks: kIo except bad media, kInterrupted,
/// kNoMemory.
Result<CheckResult> CheckBlocks(const BlockStream& stream, std::uint64_t first, std::uint64_t count,
                                const CheckSettings& options);

/// Receives the findings for the blocks from `first` on.
using CheckedPiece = std::function<void(std::uint64_t first, const CheckResult& found)>;
/// Calls CheckBlocks for pieces of `blocks`, in ascending order. A piece has whole pages of leaves, so only few of these
/// are in memory at a time. Calls fn with the result of each piece.
Status CheckInPieces(const BlockStream& stream, const Interval& blocks, const CheckSettings& options,
                     const CheckedPiece& fn);

/// Adds findings that follow those of `list`. Neighbours with the same fault become one entry.
void AppendBad(std::vector<BadBlocks>& list, const std::vector<BadBlocks>& more);

/// The leaf for these bytes, as block `index` of the stream.
inline Hash LeafOf(const BlockStream& stream, std::uint64_t index, ByteSpan bytes) {
  return LeafHash(stream.key, stream.tag, index, bytes);
}

/// True if these bytes match the committed leaf of block `index`. False if the leaf is not known.
inline bool IsAsCommitted(const BlockStream& stream, std::uint64_t index, ByteSpan bytes) {
  return stream.expected != nullptr && LeafOf(stream, index, bytes) == stream.expected->leaf(index);
}

}  // namespace lzy
