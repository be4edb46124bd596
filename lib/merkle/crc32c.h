#pragma once
// The checksum that proves sums between ranks (rows/xor_checks), which a hash cannot do because it is not linear.

#include <cstdint>

#include "base/bytes.h"

namespace lzy {

/// CRC-32C (Castagnoli; ISA-L) without the complements that are usually put around it, so it can be continued and
/// combined:
///  - Crc32c(Crc32c(s, a), b) is the CRC of a followed by b.
///  - With seed 0 it is linear: Crc32c(0, a XOR b) = Crc32c(0, a) XOR Crc32c(0, b) for equal lengths. So the CRC of a
///    parity sum is known from those of its parts (XorChecks in rows/).
///  - The CRC-32C of RFC 3720 is ~Crc32c(~0, bytes).
std::uint32_t Crc32c(std::uint32_t seed, ByteSpan bytes);

}  // namespace lzy
