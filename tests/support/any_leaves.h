#pragma once
// Hashes of nothing, for tests of trees that need no data.

#include <cstdint>
#include <random>
#include <vector>

#include "merkle/hash.h"

namespace lzy::testing {

inline Hash AnyHash(std::mt19937_64& rng) {
  Hash hash;
  for (auto& byte : hash.bytes) byte = static_cast<std::uint8_t>(rng());
  return hash;
}

inline std::vector<Hash> AnyLeaves(std::mt19937_64& rng, std::uint64_t count) {
  std::vector<Hash> leaves(count);
  for (Hash& leaf : leaves) leaf = AnyHash(rng);
  return leaves;
}

}  // namespace lzy::testing
