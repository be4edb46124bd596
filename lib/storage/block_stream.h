#pragma once
// A file or parity region as a sequence of hashed blocks: reading, checking, re-reading past the page cache, mending.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/file.h"
#include "geometry/layout.h"
#include "merkle/leaf_key.h"
#include "merkle/tree.h"

namespace lzy {

/// What is wrong with a block.
enum class BlockFault : std::uint8_t {
  kHash = 1,        ///< readable, but not what was committed
  kUnreadable = 2,  ///< EIO: an erasure
  kMissing = 3,     ///< the file is not there or ends before the block does
  kForsaken = 4,    ///< parity of a row that has none (docs/format.md §3); CheckBlocks calls it kHash
};

/// Consecutive blocks with the same fault.
struct BadBlocks {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  BlockFault fault = BlockFault::kHash;
  bool transient = false;  ///< the first reading was wrong, one from the device right: nothing to mend
  bool unproven = false;   ///< no copy of the sidecar has their hashes: with kHash, they may be right (CheckBlocks never says so)
  LZY_FIELDS(first, count, fault, transient, unproven)
};

/// One stream of blocks: a data file, or the parity region of a sidecar. Not the owner of anything.
struct BlockStream {
  File* file = nullptr;    ///< null: missing
  std::uint64_t base = 0;  ///< offset of the stream's first byte in the file
  HashTag tag = HashTag::kDataLeaf;
  const LeafKey* key = nullptr;    ///< that leaves are made with; null: none
  const Tree* expected = nullptr;  ///< committed leaves; null when unknown
  /// Place of block i within the stream; length 0 for holes.
  std::function<BlockPlace(std::uint64_t)> place;
};

struct CheckSettings {
  bool from_device = false;
  unsigned threads = 1;
  std::uint64_t buffer_bytes = 4u << 20;  ///< per thread
  std::function<void(std::uint64_t bytes)> progress;
  std::function<bool()> stop;
};

struct CheckResult {
  std::vector<BadBlocks> bad;  ///< ascending, merged; includes transient ones
  std::vector<Hash> leaves;    ///< computed hashes of blocks [first, first + count); zero where not readable
  std::uint64_t bytes_read = 0;
};

/// Reads blocks [first, first + count) of `stream` and compares them with their leaves (when `expected` is null, they are only
/// hashed). A block that does not match is read again from the device
/// before it is called bad. Fails only for errors that are not the blocks' (kIo other than EIO, stop).
Result<CheckResult> CheckBlocks(const BlockStream& stream, std::uint64_t first, std::uint64_t count,
                                const CheckSettings& options);

/// The hash of a block as it must be stored for leaf `index`.
inline Hash LeafOf(const BlockStream& stream, std::uint64_t index, ByteSpan bytes) {
  return LeafHash(stream.key, stream.tag, index, bytes);
}

/// Whether block `index` has these bytes as far as its leaf tells; no where it is not known.
inline bool IsAsCommitted(const BlockStream& stream, std::uint64_t index, ByteSpan bytes) {
  return stream.expected != nullptr && LeafOf(stream, index, bytes) == stream.expected->leaf(index);
}

}  // namespace lzy
