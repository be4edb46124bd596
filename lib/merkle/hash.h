#pragma once
// Block and node hashes: XXH3-128 seeded by what is hashed and where it stands, so that equal blocks in different
// places hash differently and swapped blocks are caught (Kratochvil, Merkle-tree validation of MPI transfers, seeds
// XXH3 with the node index in the same way). XXH3 mixes the length of its input in, so a hash also binds how many bytes
// it covers: a short last block and the same block padded with zeros differ. Not cryptographic: finds accidents, not
// forgers.
//
// docs/format.md "Hashes". Stored form: low 64 bits little-endian, then high 64 bits little-endian.

#include <array>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/record.h"

namespace lzy {

struct Hash {
  std::array<std::uint8_t, 16> bytes{};
  friend bool operator==(const Hash&, const Hash&) = default;
  LZY_FIELDS(bytes)
  bool IsZero() const { return *this == Hash{}; }
  std::string Hex() const;  ///< the stored bytes in order, 32 lower-case digits
};

static_assert(sizeof(Hash) == 16, "hashes are hashed, stored and read where they lie");

/// What a hash is for; part of its seed: seed = (tag << 56) | index, index < 2^56.
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
  kTransferLeaf = 0x20,  ///< this and the next two never on disk: of messages (docs/exchange.md)
  kTransferMessage = 0x21,
  kTransferNode = 0x28,  ///< + level (1..7)
  kDataNode = 0x40,     ///< + level (1..15)
  kParityNode = 0x50,   ///< + level
  kDatasetNode = 0x60,  ///< + level; no tag lies above, so that a deep binary tree may use more than 15 levels
};

/// The same on every machine; uses the widest vector instructions the processor has. Precondition: index < 2^56.
Hash HashBytes(HashTag tag, std::uint64_t index, ByteSpan bytes);

}  // namespace lzy
