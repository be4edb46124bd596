#pragma once
// What ReduceScatterXor is tried with, and what must come of it.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <span>
#include <vector>

namespace lzy::testing {

using Words = std::vector<std::uint64_t>;
using XorExchange =
    std::function<void(const std::uint64_t* send, std::uint64_t* receive, std::span<const std::uint64_t> counts)>;

/// The word that rank `from` has for position `i` of the whole.
inline std::uint64_t WordOf(int from, std::uint64_t i) {
  return (i + 1) * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(from) * 0xc2b2ae3d27d4eb4fu;
}

/// Rank `rank` takes part in an exchange among counts.size() ranks; its result is compared with a plain sum.
inline void CheckXorExchange(int rank, const Words& counts, const XorExchange& exchange) {
  const auto size = static_cast<int>(counts.size());
  const std::uint64_t total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  const std::uint64_t first = std::accumulate(counts.begin(), counts.begin() + rank, std::uint64_t{0});
  const std::uint64_t mine = counts[static_cast<std::size_t>(rank)];
  Words send(total);
  for (std::uint64_t i = 0; i < total; ++i) send[i] = WordOf(rank, i);
  Words receive(mine + 1, 77);
  exchange(send.data(), mine == 0 ? nullptr : receive.data(), counts);
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < mine; ++i) {
    std::uint64_t expected = 0;
    for (int r = 0; r < size; ++r) expected ^= WordOf(r, first + i);
    wrong += receive[i] != expected;
  }
  EXPECT_EQ(wrong, 0u) << "of " << mine << " words; counts " << ::testing::PrintToString(counts);
  EXPECT_EQ(receive[mine], 77u) << "nothing is written past the end";
  for (std::uint64_t i = 0; i < total; ++i) wrong += send[i] != WordOf(rank, i);
  EXPECT_EQ(wrong, 0u) << "what is sent is left alone";
}

/// Some of everything, the same on all ranks: equal, unequal, none at all, one that is alone; up to about `most` words.
inline std::vector<Words> XorCounts(std::size_t ranks, std::uint64_t most) {
  std::vector<Words> cases = {Words(ranks, most), Words(ranks, 1), Words(ranks, 0)};
  for (const std::size_t only : {std::size_t{0}, ranks - 1}) {
    cases.emplace_back(ranks, 0);
    cases.back()[only] = most + 1;
  }
  std::mt19937_64 random(ranks);
  for (int i = 0; i < 20; ++i) {
    Words& counts = cases.emplace_back(ranks);
    for (std::uint64_t& count : counts) count = random() % 4 == 0 ? 0 : random() % (most + 1);
  }
  return cases;
}

}  // namespace lzy::testing
