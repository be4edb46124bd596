#include "storage/arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <random>
#include <utility>
#include <vector>

namespace lzy {
namespace {

TEST(Arena, PiecesAreAlignedZeroedAndApart) {
  std::mt19937 random(7);
  Arena arena;
  std::vector<std::pair<std::uint8_t*, std::size_t>> pieces;
  for (int i = 0; i < 300; ++i) {
    const std::size_t size = random() % (i % 50 == 0 ? 20u << 20 : 300000u) + 1;
    std::uint8_t* piece = arena.Take(size);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(piece) % 4096, 0u);
    for (std::size_t at = 0; at < size; at += 4096) ASSERT_EQ(piece[at], 0);
    ASSERT_EQ(piece[size - 1], 0);
    std::memset(piece, i % 255 + 1, size);
    pieces.emplace_back(piece, size);
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto [piece, size] = pieces[i];
    EXPECT_EQ(piece[0], i % 255 + 1);
    EXPECT_EQ(piece[size - 1], i % 255 + 1);
    EXPECT_EQ(std::memcmp(piece, piece + 1, size - 1), 0);
  }
}

TEST(Arena, WhatIsTooMuchIsAnError) {
  Arena arena;
  EXPECT_THROW(arena.Take(std::size_t{1} << 60), std::bad_alloc);
  EXPECT_NE(arena.Take(10), nullptr);
}

}  // namespace
}  // namespace lzy
