// Small layouts, looked at one by one, and what a burst of damage costs.
#include "geometry/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "layout_model.h"

namespace lzy::testing {
namespace {

TEST(Layout, EmptyFiles) {
  const Layout shared = Make(Shared(4, 2, 512, 1024), {0});
  EXPECT_EQ(shared.unit_rows(0), 0u);
  EXPECT_EQ(shared.data_blocks(0), 0u);
  EXPECT_EQ(shared.parity_size(0), 0u);
  EXPECT_EQ(shared.parity_blocks(0), 0u);
  EXPECT_EQ(shared.first_row(), 0u);
  EXPECT_EQ(shared.DataBlock(3, 0, 0).length, 0u);
  EXPECT_EQ(shared.RowLength({0, 0, 0}), 0u);
  const Layout set = Make(Set(3, 1, 512, 512), {0, 0, 0});
  EXPECT_EQ(set.unit_rows(0), 0u);
  for (std::uint32_t d = 0; d < 3; ++d) EXPECT_EQ(set.parity_size(d), 0u);
}

TEST(Layout, HashesOnly) {
  const Layout layout = Make(Set(3, 0, 512, 1024), {5000, 0, 1});
  EXPECT_EQ(layout.unit_rows(0), 5u);
  EXPECT_EQ(layout.data_blocks(0), 10u);
  for (std::uint32_t d = 0; d < 3; ++d) EXPECT_EQ(layout.parity_size(d), 0u);
  EXPECT_EQ(layout.LocateData(0, 9).row, (RowId{0, 4, 1}));
}

TEST(Layout, ASmallFileDoesNotGetALargeSidecar) {
  for (std::uint32_t m : {1u, 2u, 3u}) {
    const Layout layout = Make(Shared(8, m, 64 * kKiB, 64 * kKiB), {10 * kKiB});
    EXPECT_EQ(layout.parity_size(0), m * 10 * kKiB);
    EXPECT_EQ(layout.parity_blocks(0), m);
  }
}

TEST(Layout, ParityIsSpreadEvenly) {
  for (std::uint32_t m = 0; m <= 4; ++m) {
    // Three whole turns: k units a device and turn.
    const std::uint32_t n = 6;
    const Layout layout = Make(Shared(n, m, 512, 1024, ParityPlacement::kPerDevice), {3 * n * (n - m) * 1024});
    EXPECT_EQ(layout.unit_rows(0), 3 * n);
    for (std::uint32_t d = 0; d < n; ++d) EXPECT_EQ(layout.parity_size(d), 3 * m * 1024) << "m " << m;
  }
}

// Gropp, Ross, Miller, "Providing Efficient I/O Redundancy in MPI Environments", §3, on real bytes: parity j, on device
// j, is the XOR over k < j of A(j-1, k) and over k > j of A(j, k), where A(i, k) is block i of device k.
TEST(Layout, OneParityAndUnitOfABlockIsThePublishedLayout) {
  constexpr std::uint32_t kBlock = 512;
  std::mt19937_64 random(5);
  for (std::uint32_t n = 2; n <= 7; ++n) {
    SCOPED_TRACE(::testing::Message() << "n " << n);
    std::vector<std::uint8_t> file(kBlock * n * (n - 1));
    for (std::uint8_t& byte : file) byte = static_cast<std::uint8_t>(random());
    const Layout layout = Make(Shared(n, 1, kBlock, kBlock, ParityPlacement::kPerDevice), {file.size()});
    ASSERT_EQ(layout.unit_rows(0), n);
    const auto add = [&](std::vector<std::uint8_t>& sum, std::uint64_t offset) {
      for (std::uint32_t i = 0; i < kBlock; ++i) sum[i] ^= file[offset + i];
    };
    for (std::uint32_t j = 0; j < n; ++j) {
      std::vector<std::uint8_t> published(kBlock, 0);
      std::vector<std::uint8_t> ours(kBlock, 0);
      for (std::uint32_t k = 0; k < n; ++k) {
        if (k == j) {
          EXPECT_TRUE(layout.IsParity(k, j));
          EXPECT_EQ(layout.ParityBlock(k, j, 0).offset, 0u);  // each device holds one parity block a turn
          continue;
        }
        const std::uint64_t i = k < j ? j - 1 : j;
        add(published, (i * n + k) * kBlock);
        add(ours, layout.DataBlock(k, j, 0).offset);
      }
      EXPECT_EQ(ours, published) << "parity " << j;
    }
  }
}

// Most blocks that any row loses when bytes [begin, begin + length) of the file are lost.
std::size_t WorstRow(const Layout& layout, std::uint64_t begin, std::uint64_t length) {
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>, std::size_t> lost;
  std::size_t worst = 0;
  for (std::uint64_t block = begin / layout.block_size(); block <= (begin + length - 1) / layout.block_size();
       ++block) {
    const RowId row = layout.LocateData(0, block).row;
    worst = std::max(worst, ++lost[{row.group, row.unit_row, row.slice}]);
  }
  return worst;
}

TEST(Layout, ABurstCostsNoRowMoreThanMBlocks) {
  std::mt19937_64 random(6);
  for (int i = 0; i < 60; ++i) {
    GeometryParameters p = RandomParameters(random, DatasetKind::kShared);
    p.parity = 1 + i % 2;
    p.unit = 512u << random() % 4;
    p.groups = RandomGroups(random, p.parity);
    const std::uint64_t size = 40 * p.unit + random() % p.unit;
    SCOPED_TRACE(Describe(p, {size}));
    const Layout layout = Make(p, {size});
    const std::uint64_t burst = p.parity * p.unit - p.block_size + 1;
    for (std::uint64_t block = 0; block * 512 + burst + 511 <= size; ++block) {
      for (std::uint64_t shift : {0u, 1u, 255u, 511u}) {
        ASSERT_LE(WorstRow(layout, block * 512 + shift, burst), p.parity) << "from " << block * 512 + shift;
      }
    }
  }
}

// One byte more, from the last byte of a block, and it can: the bound is the exact one, and the test above can fail.
TEST(Layout, ALongerBurstCanCostMore) {
  for (std::uint32_t m = 1; m <= 2; ++m) {
    const Layout layout = Make(Shared(6, m, 512, 2048), {60 * 2048});
    std::size_t worst = 0;
    for (std::uint64_t block = 0; block < 200; ++block) {
      worst = std::max(worst, WorstRow(layout, block * 512 + 511, m * 2048 - 512 + 2));
    }
    EXPECT_EQ(worst, m + 1);
  }
}

}  // namespace
}  // namespace lzy::testing
