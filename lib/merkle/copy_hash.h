#pragma once
// Copies that take a checksum along, so that each byte crosses memory once: a piece is hashed while it is in the
// processor's cache because it was just copied, or, with stores that go past the cache, copied while it is there
// because it was just hashed (NewMadeleine, checksums fused with copies). For the places where lzy itself moves bytes:
// packing, stitching, exchange buffers.
//
// What comes out does not depend on CopyMethod, only how fast: tuning/tuning.h measures which is best where.

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "merkle/hash.h"

namespace lzy {

struct CopyMethod {
  /// Bytes copied and hashed at a time; not 0. Inputs no longer than this are copied, then hashed.
  std::uint32_t piece_bytes = 4u << 10;
  /// Stores past the cache: saves reading the destination's lines before they are overwritten, and what is in the
  /// cache. Only good where nobody reads the copy while it could still be there. Plain copies where the processor has
  /// no such stores (other than x86-64).
  bool non_temporal = false;

  friend bool operator==(const CopyMethod&, const CopyMethod&) = default;
};

/// Copies `from` to `to` (as many bytes, not overlapping) and returns HashBytes(tag, index, from). No alignment is
/// needed. Another thread that changes `from` meanwhile makes the hash one of neither old nor new bytes. Thread-safe.
Hash CopyAndHash(HashTag tag, std::uint64_t index, ByteSpan from, std::uint8_t* to, const CopyMethod& method = {});

/// CRC-32C (Castagnoli; ISA-L) as it can be continued and combined: without the complements that its users put around
/// it. Crc32c(Crc32c(s, a), b) is that of a then b; with seed 0 it is linear, Crc32c(0, a XOR b) = Crc32c(0, a) XOR
/// Crc32c(0, b) for equal lengths, so that the CRC of a sum is known from those of its parts; and the CRC-32C of RFC
/// 3720 is ~Crc32c(~0, bytes).
std::uint32_t Crc32c(std::uint32_t seed, ByteSpan bytes);

/// Copies `from` to `to`, as CopyAndHash does, and returns Crc32c(seed, from).
std::uint32_t CopyAndCrc32c(std::uint32_t seed, ByteSpan from, std::uint8_t* to, const CopyMethod& method = {});

}  // namespace lzy
