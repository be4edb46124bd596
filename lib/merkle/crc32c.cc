#include "merkle/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace lzy {

std::uint32_t Crc32c(std::uint32_t seed, ByteSpan bytes) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // ISA-L takes an int
  for (std::size_t at = 0; at < bytes.size(); at += kMost) {
    const ByteSpan part = bytes.subspan(at, std::min(kMost, bytes.size() - at));
    // ISA-L does not change the bytes, but its parameter is not const.
    seed = crc32_iscsi(const_cast<std::uint8_t*>(part.data()), static_cast<int>(part.size()), seed);
  }
  return seed;
}

}  // namespace lzy
