#pragma once
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <span>

#include "engine_fixture.h"

namespace lzy::testing {

/// For ThreadCommunicator::Spoil: spoils one of so many sums, of blocks and of check words alike, in one of several ways; at most
/// `limit` of them.
class WrongSums {
 public:
  WrongSums(std::uint64_t seed, std::uint64_t one_in, std::uint64_t limit = UINT64_MAX)
      : rng_(seed), one_in_(one_in), limit_(limit) {}
  void operator()(std::span<std::uint64_t> received) {
    const std::lock_guard lock(mutex_);
    if (received.empty() || faults == limit_ || !OneIn(rng_, one_in_)) return;
    ++faults;
    const std::uint64_t at = Below(rng_, received.size());
    switch (Below(rng_, 4)) {
      case 0:
        received[at] ^= std::uint64_t{1} << Below(rng_, 64);
        break;
      case 1:
        for (std::uint64_t i = at; i < std::min(received.size(), at + 1 + Below(rng_, 200)); ++i) received[i] ^= rng_() | 1;
        break;
      case 2:
        received[0] ^= 1;  // so that zeros are wrong as well
        std::fill(received.begin() + 1, received.end(), 0);
        break;
      default:
        received[at] ^= 0xff;
        std::reverse(received.begin(), received.end());
    }
  }
  std::uint64_t faults = 0;

 private:
  std::mutex mutex_;
  Rng rng_;
  const std::uint64_t one_in_, limit_;
};

}  // namespace lzy::testing
