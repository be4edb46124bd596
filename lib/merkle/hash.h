#pragma once
// Hashes of blocks and of tree nodes (docs/format.md §2): XXH3-128, seeded by purpose and place.
//
// So equal blocks in different places hash differently, and swapped blocks are found (Kratochvil, Merkle-tree
// validation of MPI transfers, seeds XXH3 with the node index in the same way). XXH3 mixes in the length of its input,
// so a hash also binds how many bytes it covers: a short last block and the same block padded with zeros differ. It
// finds accidents, not forgers; merkle/leaf_key.h is for these.

#include <array>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/record.h"

namespace lzy {

/// 16 bytes in stored form: the low 64 bits little-endian, then the high 64 bits little-endian. All zero (Hash{}) is the
/// leaf of a block without bytes.
struct Hash {
  std::array<std::uint8_t, 16> bytes{};
  friend bool operator==(const Hash&, const Hash&) = default;
  LZY_FIELDS(bytes)
  bool IsZero() const { return *this == Hash{}; }
  std::string Hex() const;  ///< the stored bytes in order, 32 lower-case digits
};

static_assert(sizeof(Hash) == 16, "hashes are hashed, stored and read where they lie");

/// The purpose of a hash. It is a part of the seed: seed = (tag << 56) | index, with index < 2^56. The numbers are
/// persisted; never reuse one.
enum class HashTag : std::uint8_t {
  kDataLeaf = 0x01,
  kParityLeaf = 0x02,
  kDataRoot = 0x05,
  kParityRoot = 0x06,
  kDatasetTreeRoot = 0x07,
  kDatasetRoot = 0x08,
  kSuperblock = 0x10,
  kInfo = 0x11,
  kIntent = 0x12,
  kScratchPage = 0x13,  ///< only in files without a name (encode/leaves)
  kObjectIndex = 0x14,  ///< only in an index of objects
  kNodes = 0x15,
  kTransferLeaf = 0x20,  ///< this tag and the next two are for messages (docs/exchange.md), and never on disk
  kTransferMessage = 0x21,
  kTransferNode = 0x28,  ///< + level (1..7)
  kDataNode = 0x40,     ///< + level (1..15)
  kParityNode = 0x50,   ///< + level
  kDatasetNode = 0x60,  ///< + level; no tag lies above, so that a deep binary tree may use more than 15 levels
};

/// The hash of `bytes`. It is the same on every machine, and uses the widest vector instructions that the processor
/// has. `index`: see docs/format.md §2. Precondition: index < 2^56. Thread-safe.
Hash HashBytes(HashTag tag, std::uint64_t index, ByteSpan bytes);

}  // namespace lzy
