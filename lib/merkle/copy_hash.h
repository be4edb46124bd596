#pragma once
// Copies that compute a checksum on the way, so each byte crosses memory once (NewMadeleine fuses checksums with copies
// in the same way). A piece is hashed while it is in the processor's cache because it was just copied. With stores that
// bypass the cache, it is copied while it is in the cache because it was just hashed. encode/capture uses this where it
// keeps copies of what a program writes; rows/xor_checks takes CRCs of blocks.
//
// The results do not depend on CopyMethod, only the speed does. tuning/tuning.h measures which method is best where.

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "merkle/hash.h"

namespace lzy {

struct CopyMethod {
  /// Bytes that are copied and hashed at a time; not 0. Shorter inputs are copied whole, then hashed.
  std::uint32_t piece_bytes = 4u << 10;
  /// Stores that bypass the cache. They save reading the destination's lines before they are overwritten, and they
  /// leave the cache to others. Use them only if nobody reads the copy soon. On processors other than x86-64, plain
  /// copies.
  bool non_temporal = false;

  friend bool operator==(const CopyMethod&, const CopyMethod&) = default;
};

/// Copies `from` to `to`, which has room for as many bytes and does not overlap it. Returns HashBytes(tag, index,
/// from). No alignment is needed. If another thread changes `from` meanwhile, the hash may be that of neither the old
/// nor the new bytes. Thread-safe; cannot fail.
Hash CopyAndHash(HashTag tag, std::uint64_t index, ByteSpan from, std::uint8_t* to, const CopyMethod& method = {});

/// CRC-32C (Castagnoli; ISA-L) without the complements that are usually put around it, so it can be continued and
/// combined:
///  - Crc32c(Crc32c(s, a), b) is that of a, then b.
///  - With seed 0 it is linear: Crc32c(0, a XOR b) = Crc32c(0, a) XOR Crc32c(0, b) for equal lengths. So the CRC of a
///    parity sum is known from those of its parts (XorChecks in rows/).
///  - The CRC-32C of RFC 3720 is ~Crc32c(~0, bytes).
std::uint32_t Crc32c(std::uint32_t seed, ByteSpan bytes);

/// Copies `from` to `to`, as CopyAndHash does, and returns Crc32c(seed, from).
std::uint32_t CopyAndCrc32c(std::uint32_t seed, ByteSpan from, std::uint8_t* to, const CopyMethod& method = {});

}  // namespace lzy
