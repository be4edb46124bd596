#pragma once
// XXH3-128 by the widest vector instructions that the processor has. Only for the sources of this layer.
//
// The plain functions of a distribution's libxxhash use SSE2; the dispatching ones choose AVX2 or AVX-512 at run time.

#include <cassert>
#include <cstdint>

#include "merkle/hash.h"

#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#define XXH_DISPATCH_DISABLE_REPLACE
#include <xxh_x86dispatch.h>
#define LZY_XXH3_128 XXH3_128bits_withSeed_dispatch
#define LZY_XXH3_128_UPDATE XXH3_128bits_update_dispatch
#else
#include <xxhash.h>
#define LZY_XXH3_128 XXH3_128bits_withSeed
#define LZY_XXH3_128_UPDATE XXH3_128bits_update
#endif

namespace lzy {

inline std::uint64_t SeedOf(HashTag tag, std::uint64_t index) {
  assert(index >> 56 == 0);
  return (static_cast<std::uint64_t>(tag) << 56) | index;
}

inline Hash StoredForm(const XXH128_hash_t& value) {
  Hash hash;
  StoreLe(hash.bytes.data(), value.low64);
  StoreLe(hash.bytes.data() + 8, value.high64);
  return hash;
}

}  // namespace lzy
