// Layouts of large files, out of reach of a model that deals every unit.
#include "geometry/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "layout_model.h"

namespace lzy::testing {
namespace {

// Sizes out of the model's reach: whole turns put before a small set shift everything by known amounts.
TEST(Layout, LargeSetsAreSmallOnesShiftedByWholeTurns) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; ++i) {
    const auto n = static_cast<std::uint32_t>(2 + random() % 7);
    const auto m = static_cast<std::uint32_t>(random() % std::min(n, 4u));
    const GeometryParameters p = Set(n, m, 512, 512u << random() % 3);
    std::vector<std::uint64_t> small_sizes(n);
    for (std::uint64_t& size : small_sizes) size = RandomSize(random, p.unit, 20);
    const std::uint64_t turn_bytes = (n - m) * p.unit;  // of one device
    const std::uint64_t turns = (std::uint64_t{1} << (33 + i % 26)) / turn_bytes;
    std::vector<std::uint64_t> large_sizes = small_sizes;
    for (std::uint64_t& size : large_sizes) size += turns * turn_bytes;
    SCOPED_TRACE(Describe(p, large_sizes));
    const Layout small = Make(p, small_sizes);
    const Layout large = Make(p, large_sizes);

    ASSERT_EQ(large.unit_rows(0), small.unit_rows(0) + turns * n);
    for (std::uint32_t d = 0; d < n; ++d) {
      ASSERT_EQ(large.data_blocks(d), small.data_blocks(d) + turns * turn_bytes / 512);
      ASSERT_EQ(large.parity_size(d), small.parity_size(d) + turns * m * p.unit);
      ASSERT_EQ(large.parity_blocks(d), small.parity_blocks(d) + turns * m * p.unit / 512);
      for (std::uint64_t t = 0; t < small.unit_rows(0); ++t) {
        const std::uint64_t far = t + turns * n;
        const std::uint32_t slice = large.slices() - 1;
        ASSERT_EQ(large.UnitRowLength(0, far), small.UnitRowLength(0, t));
        ASSERT_EQ(large.IsParity(d, far), small.IsParity(d, t));
        const bool parity = small.IsParity(d, t);
        const BlockPlace near_place = parity ? small.ParityBlock(d, t, slice) : small.DataBlock(d, t, slice);
        const BlockPlace place = parity ? large.ParityBlock(d, far, slice) : large.DataBlock(d, far, slice);
        const std::uint64_t shift = turns * (parity ? m * p.unit : turn_bytes);
        ASSERT_EQ(place.offset, near_place.offset + shift);
        ASSERT_EQ(place.length, near_place.length);
        ASSERT_EQ(place.index, near_place.index + shift / 512);
        const Layout::DeviceRow at = parity ? large.LocateParity(d, place.index) : large.LocateData(d, place.index);
        ASSERT_EQ(at.device, d);
        ASSERT_EQ(at.row, (RowId{0, far, slice}));
      }
    }
  }
}

TEST(Layout, LargeSharedFilesAreSmallOnesShiftedByWholeTurns) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 300; ++i) {
    const auto n = static_cast<std::uint32_t>(2 + random() % 7);
    const auto m = static_cast<std::uint32_t>(1 + random() % std::min(n - 1, 3u));
    GeometryParameters p = Shared(n, m, 512, 512u << random() % 3, static_cast<ParityPlacement>(1 + i % 4));
    const std::uint64_t small_size = (2 * n + random() % 30) * p.unit + random() % p.unit;
    const std::uint64_t turn_bytes = std::uint64_t{n} * (n - m) * p.unit;
    const std::uint64_t turns = (std::uint64_t{1} << (33 + i % 26)) / turn_bytes;
    const std::uint64_t size = small_size + turns * turn_bytes;
    SCOPED_TRACE(Describe(p, {size}));
    const Model model = BuildModel(p, {small_size});
    const Layout large = Make(p, {size});

    ASSERT_EQ(model.first_row, 0u);
    ASSERT_EQ(large.first_row(), 0u);
    ASSERT_EQ(large.unit_rows(0), model.rows[0].size() + turns * n);
    ASSERT_EQ(large.data_blocks(0), (size + 511) / 512);
    const std::uint64_t shift = turns * m * (p.placement == ParityPlacement::kPerDevice ? 1 : n);
    // A device without parity in the small part still has that of the turns before.
    std::vector<std::uint64_t> ends(large.regions(), large.regions() > 1 ? shift * p.unit : 0);
    for (const ModelParityUnit& unit : model.parity) {
      const BlockPlace place = large.ParityBlock(unit.device, unit.row + turns * n, 0);
      ASSERT_EQ(place.offset, (unit.index + shift) * p.unit);
      ASSERT_EQ(place.length, std::min<std::uint64_t>(unit.length, 512));
      const Layout::DeviceRow at = large.LocateParity(unit.region, place.index);
      ASSERT_EQ(at.device, unit.device);
      ASSERT_EQ(at.row, (RowId{0, unit.row + turns * n, 0}));
      ends[unit.region] = std::max(ends[unit.region], place.offset + unit.length);
      }
    for (std::uint32_t region = 0; region < large.regions(); ++region) {
      ASSERT_EQ(large.parity_size(region), ends[region]);
    }
    for (std::uint64_t t = 0; t < model.rows[0].size(); ++t) {
      for (const auto& [d, unit] : model.rows[0][t].data) {
        const BlockPlace place = large.DataBlock(d, t + turns * n, 0);
        ASSERT_EQ(place.offset, unit.offset + turns * turn_bytes);
        ASSERT_EQ(place.length, std::min<std::uint64_t>(unit.length, 512));
        const Layout::DeviceRow at = large.LocateData(0, place.index);
        ASSERT_EQ(at.device, d);
        ASSERT_EQ(at.row, (RowId{0, t + turns * n, 0}));
      }
    }
  }
}

TEST(Layout, TheLargestSizesDoNotOverflow) {
  const std::uint64_t size = std::uint64_t{1} << 62;
  for (std::uint32_t m : {1u, 2u, 100u}) {
    for (ParityPlacement placement :
         {ParityPlacement::kPooled, ParityPlacement::kPerDevice, ParityPlacement::kStriped, ParityPlacement::kDirectories}) {
      const Layout layout = Make(Shared(255, m, 512, 512, placement), {size});
      EXPECT_EQ(layout.data_blocks(0), size / 512);
      const Layout::DeviceRow last = layout.LocateData(0, size / 512 - 1);
      const BlockPlace place = layout.DataBlock(last.device, last.row.unit_row, 0);
      EXPECT_EQ(place.offset, size - 512);
      EXPECT_EQ(place.length, 512u);
      EXPECT_LE(last.row.unit_row, layout.unit_rows(0) - 1);
      EXPECT_EQ(layout.DataBlock(last.device, last.row.unit_row + 255, 0).length, 0u);  // a turn on: past the end
      for (std::uint32_t region = 0; region < layout.regions(); ++region) {
        const std::uint64_t index = layout.parity_blocks(region) - 1;
        const Layout::DeviceRow at = layout.LocateParity(region, index);
        const BlockPlace parity = layout.ParityBlock(at.device, at.row.unit_row, at.row.slice);
        EXPECT_EQ(parity.index, index);
        EXPECT_EQ(parity.offset + parity.length, layout.parity_size(region));
      }
    }
  }
  const Layout set = Make(Set(4, 2, 512, 1024), {size, size, size, size});
  EXPECT_EQ(set.parity_size(3), size);
}

TEST(Layout, BlocksOfATebibyte) {
  const std::uint64_t size = 1024 * kGiB;
  const Layout layout = Make(Shared(8, 1, 64 * kKiB, 1 * kMiB), {size});
  std::uint64_t last_row = 0;  // of the last unit of each device
  for (std::uint64_t unit = size / kMiB - 8; unit < size / kMiB; ++unit) {
    last_row = std::max(last_row, layout.LocateData(0, unit * layout.slices()).row.unit_row);
  }
  EXPECT_EQ(layout.unit_rows(0), last_row + 1);
  for (std::uint64_t offset : {4 * kGiB - 1, 4 * kGiB, 4 * kGiB + 1, size / 2, size - 1}) {
    const Layout::DeviceRow at = layout.LocateData(0, offset / layout.block_size());
    const BlockPlace place = layout.DataBlock(at.device, at.row.unit_row, at.row.slice);
    EXPECT_EQ(at.device, offset / kMiB % 8);
    EXPECT_LE(place.offset, offset);
    EXPECT_GT(place.offset + place.length, offset);
  }
}

}  // namespace
}  // namespace lzy::testing
