#pragma once
// XXH3-128 by the widest vector instructions that the processor has. Only for sources of lib/merkle.
//
// The plain functions of a distribution's libxxhash use SSE2. The dispatching ones choose AVX2 or AVX-512 at run time.
// They exist only for x86-64. The results are the same.

#include <cassert>
#include <cstdint>

#include "merkle/hash.h"

#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#define XXH_DISPATCH_DISABLE_REPLACE
#include <xxh_x86dispatch.h>
#define LZY_XXH3_128 XXH3_128bits_withSeed_dispatch
#else
#include <xxhash.h>
#define LZY_XXH3_128 XXH3_128bits_withSeed
#endif

namespace lzy {

/// docs/format.md §2. Precondition: index < 2^56.
inline std::uint64_t SeedOf(HashTag tag, std::uint64_t index) {
  assert(index >> 56 == 0);
  return (static_cast<std::uint64_t>(tag) << 56) | index;
}

/// Not XXH128_canonicalFromHash, which stores big-endian with the high half first.
inline Hash StoredForm(const XXH128_hash_t& value) {
  Hash hash;
  StoreLe(hash.bytes.data(), value.low64);
  StoreLe(hash.bytes.data() + 8, value.high64);
  return hash;
}

}  // namespace lzy
