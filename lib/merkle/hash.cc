#include "merkle/hash.h"

#include <cassert>
#include <string_view>

// The plain functions of a distribution's libxxhash use SSE2; the dispatching ones choose AVX2 or AVX-512 at run time.
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#define XXH_DISPATCH_DISABLE_REPLACE
#include <xxh_x86dispatch.h>
#define LZY_XXH3_128 XXH3_128bits_withSeed_dispatch
#else
#include <xxhash.h>
#define LZY_XXH3_128 XXH3_128bits_withSeed
#endif

namespace lzy {

std::string Hash::Hex() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Hash HashBytes(HashTag tag, std::uint64_t index, ByteSpan bytes) {
  assert(index >> 56 == 0);
  const std::uint64_t seed = (static_cast<std::uint64_t>(tag) << 56) | index;
  const XXH128_hash_t value = LZY_XXH3_128(bytes.data(), bytes.size(), seed);
  Hash hash;
  StoreLe(hash.bytes.data(), value.low64);
  StoreLe(hash.bytes.data() + 8, value.high64);
  return hash;
}

}  // namespace lzy
