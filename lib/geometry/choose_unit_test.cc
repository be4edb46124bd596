// The stripe unit that fits a size.
#include "geometry/layout.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "layout_model.h"

namespace lzy::testing {
namespace {

TEST(ChooseUnit, ThresholdsOfASharedFile) {
  const auto choose = [](std::uint64_t size) { return ChooseUnit(DatasetKind::kShared, 64 * kKiB, kMiB, 8, size); };
  EXPECT_EQ(choose(0), 64 * kKiB);
  EXPECT_EQ(choose(4 * 8 * 128 * kKiB - 1), 64 * kKiB);
  EXPECT_EQ(choose(4 * 8 * 128 * kKiB), 128 * kKiB);
  EXPECT_EQ(choose(4 * 8 * 512 * kKiB), 512 * kKiB);
  EXPECT_EQ(choose(4 * 8 * kMiB - 1), 512 * kKiB);
  EXPECT_EQ(choose(4 * 8 * kMiB), kMiB);
  EXPECT_EQ(choose(std::uint64_t{1} << 62), kMiB);
}

TEST(ChooseUnit, ThresholdsOfASetDoNotDependOnTheGroup) {
  for (std::uint32_t n : {1u, 8u, 255u}) {
    EXPECT_EQ(ChooseUnit(DatasetKind::kSet, 64 * kKiB, kMiB, n, 512 * kKiB - 1), 64 * kKiB);
    EXPECT_EQ(ChooseUnit(DatasetKind::kSet, 64 * kKiB, kMiB, n, 512 * kKiB), 128 * kKiB);
    EXPECT_EQ(ChooseUnit(DatasetKind::kSet, 64 * kKiB, kMiB, n, 4 * kMiB - 1), 512 * kKiB);
    EXPECT_EQ(ChooseUnit(DatasetKind::kSet, 64 * kKiB, kMiB, n, 4 * kMiB), kMiB);
  }
}

TEST(ChooseUnit, OddStripes) {
  EXPECT_EQ(ChooseUnit(DatasetKind::kSet, 4096, 0, 8, kGiB), 4096u);
  EXPECT_EQ(ChooseUnit(DatasetKind::kSet, 4096, 100, 8, kGiB), 4096u);
  EXPECT_EQ(ChooseUnit(DatasetKind::kSet, 4096, 3 * kMiB, 8, kGiB), 2 * kMiB);
  EXPECT_EQ(ChooseUnit(DatasetKind::kSet, 4096, UINT64_MAX, 8, UINT64_MAX), kMaxUnit);
}

// The definition, tried out over every candidate.
TEST(ChooseUnit, IsTheLargestThatFits) {
  std::mt19937_64 random(9);
  for (int i = 0; i < 20000; ++i) {
    const std::uint32_t block = 512u << random() % 16;
    const std::uint64_t stripe = random() >> random() % 64;
    const auto n = static_cast<std::uint32_t>(1 + random() % 255);
    const std::uint64_t size = (random() >> 2) >> random() % 62;
    const DatasetKind kind = i % 2 ? DatasetKind::kSet : DatasetKind::kShared;
    std::uint64_t largest = block;
    for (std::uint64_t u = block; u <= kMaxUnit; u *= 2) {
      if (u <= stripe && (kind == DatasetKind::kSet ? 4 : 4 * n) * u <= size) largest = u;
    }
    ASSERT_EQ(ChooseUnit(kind, block, stripe, n, size), largest)
        << "block " << block << " stripe " << stripe << " n " << n << " size " << size;
  }
}

}  // namespace
}  // namespace lzy::testing
