// Layouts against a model that shares no arithmetic with them (tests/support/layout_model.h).
#include "geometry/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "layout_model.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

std::uint32_t Slice(std::uint64_t length, std::uint32_t slice, std::uint32_t block_size) {
  std::uint32_t left = 0;
  for (std::uint64_t at = std::uint64_t{slice} * block_size; at < length && left < block_size; ++at) ++left;
  return left;
}

struct Extent {
  std::uint64_t begin, end;
  friend bool operator<(const Extent& a, const Extent& b) { return a.begin < b.begin; }
};

void CheckData(const Layout& layout, const Model& model) {
  std::vector<std::vector<Extent>> covered(layout.files());
  for (std::uint32_t g = 0; g < layout.group_count(); ++g) {
    ASSERT_EQ(layout.unit_rows(g), model.rows[g].size());
    for (std::uint64_t t = 0; t < layout.unit_rows(g); ++t) {
      const ModelRow& row = model.rows[g][t];
      ASSERT_EQ(layout.UnitRowLength(g, t), row.length);
      ASSERT_EQ(row.parity.size() + row.data.size() + row.ended.size(), layout.group(g).size());
      for (std::uint32_t d : row.parity) ASSERT_TRUE(layout.IsParity(d, t));
      for (std::uint32_t slice = 0; slice < layout.slices(); ++slice) {
        ASSERT_EQ(layout.RowLength({g, t, slice}), Slice(row.length, slice, layout.block_size()));
        for (std::uint32_t d : row.ended) {
          ASSERT_FALSE(layout.IsParity(d, t));
          ASSERT_EQ(layout.DataBlock(d, t, slice).length, 0u);
        }
        for (const auto& [d, unit] : row.data) {
          SCOPED_TRACE(::testing::Message() << "group " << g << " row " << t << " slice " << slice << " device " << d);
          ASSERT_FALSE(layout.IsParity(d, t));
          const BlockPlace place = layout.DataBlock(d, t, slice);
          ASSERT_EQ(place.length, Slice(unit.length, slice, layout.block_size()));
          ASSERT_EQ(place.offset, unit.offset + std::uint64_t{slice} * layout.block_size());
          ASSERT_EQ(place.index, place.offset / layout.block_size());
          if (place.length == 0) continue;
          covered[layout.file_of(d)].push_back({place.offset, place.offset + place.length});
          const Layout::DeviceRow at = layout.LocateData(layout.file_of(d), place.index);
          ASSERT_EQ(at.device, d);
          ASSERT_EQ(at.row, (RowId{g, t, slice}));
        }
      }
    }
  }
  // Every byte of every file in exactly one block.
  for (std::uint32_t file = 0; file < layout.files(); ++file) {
    ASSERT_EQ(covered[file].size(), layout.data_blocks(file));
    std::sort(covered[file].begin(), covered[file].end());
    std::uint64_t end = 0;
    for (const Extent& extent : covered[file]) {
      ASSERT_EQ(extent.begin, end);
      end = extent.end;
    }
    ASSERT_EQ(end, layout.file_size(file));
  }
}

void CheckParity(const Layout& layout, const Model& model) {
  std::vector<std::vector<Extent>> used(layout.regions());
  std::vector<std::uint64_t> blocks(layout.regions(), 0);
  for (const ModelParityUnit& unit : model.parity) {
    SCOPED_TRACE(::testing::Message() << "parity of row " << unit.row << " on device " << unit.device);
    ASSERT_EQ(layout.region_of(unit.device), unit.region);
    for (std::uint32_t slice = 0; slice < layout.slices(); ++slice) {
      const BlockPlace place = layout.ParityBlock(unit.device, unit.row, slice);
      ASSERT_EQ(place.length, Slice(unit.length, slice, layout.block_size()));
      ASSERT_EQ(place.index, unit.index * layout.slices() + slice);
      ASSERT_EQ(place.offset, unit.index * model.stride + std::uint64_t{slice} * layout.block_size());
      const Layout::DeviceRow at = layout.LocateParity(unit.region, place.index);
      ASSERT_EQ(at.device, unit.device);
      ASSERT_EQ(at.row, (RowId{unit.group, unit.row, slice}));
      if (place.length == 0) continue;
      used[unit.region].push_back({place.offset, place.offset + place.length});
      blocks[unit.region] = std::max(blocks[unit.region], place.index + 1);
    }
  }
  for (std::uint32_t region = 0; region < layout.regions(); ++region) {
    std::sort(used[region].begin(), used[region].end());
    std::uint64_t end = 0;
    for (const Extent& extent : used[region]) {
      ASSERT_GE(extent.begin, end) << "parity blocks overlap";
      end = extent.end;
    }
    ASSERT_EQ(layout.parity_size(region), end) << "region " << region;
    ASSERT_EQ(layout.parity_blocks(region), blocks[region]) << "region " << region;
    // Leaves in holes have an address too, of a row without data or of none at all.
    for (std::uint64_t index = 0; index < blocks[region]; ++index) {
      const Layout::DeviceRow at = layout.LocateParity(region, index);
      ASSERT_LT(at.device, layout.devices());
      ASSERT_TRUE(layout.IsParity(at.device, at.row.unit_row));
      ASSERT_EQ(layout.ParityBlock(at.device, at.row.unit_row, at.row.slice).index, index);
    }
  }
}

void CheckAgainstModel(const GeometryParameters& parameters, const std::vector<std::uint64_t>& sizes) {
  SCOPED_TRACE(Describe(parameters, sizes));
  Result<Layout> created = Layout::Create(parameters, sizes);
  ASSERT_OK(created);
  const Layout& layout = created.value();
  const Model model = BuildModel(parameters, sizes);
  ASSERT_EQ(layout.devices(), model.device_sizes.size());
  for (std::uint32_t d = 0; d < layout.devices(); ++d) {
    ASSERT_EQ(layout.device_size(d), model.device_sizes[d]);
    ASSERT_EQ(layout.group(layout.group_of(d))[layout.index_in_group(d)], d);
  }
  ASSERT_EQ(layout.first_row(), model.first_row);
  ASSERT_EQ(layout.parity_stride(), model.stride);
  ASSERT_NO_FATAL_FAILURE(CheckData(layout, model));
  ASSERT_NO_FATAL_FAILURE(CheckParity(layout, model));
}

TEST(Layout, RandomSharedFilesMatchTheModel) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 1500; ++i) {
    const GeometryParameters p = RandomParameters(random, DatasetKind::kShared);
    ASSERT_NO_FATAL_FAILURE(CheckAgainstModel(p, {RandomSize(random, p.unit, 90)})) << "layout " << i;
  }
}

TEST(Layout, RandomSetsMatchTheModel) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 1500; ++i) {
    const GeometryParameters p = RandomParameters(random, DatasetKind::kSet);
    std::size_t devices = 0;
    for (const auto& group : p.groups) devices += group.size();
    std::vector<std::uint64_t> sizes(devices);
    // Some sets have members of like sizes, some few long and many short ones.
    const bool skewed = random() % 2 == 0;
    for (std::uint64_t& size : sizes) {
      size = RandomSize(random, p.unit, skewed && random() % 4 != 0 ? 2 : 30);
    }
    ASSERT_NO_FATAL_FAILURE(CheckAgainstModel(p, sizes)) << "layout " << i;
  }
}

TEST(Layout, EverySizeOfASmallSharedFile) {
  for (std::uint32_t m = 1; m <= 2; ++m) {
    for (ParityPlacement placement :
         {ParityPlacement::kPooled, ParityPlacement::kPerDevice, ParityPlacement::kStriped, ParityPlacement::kDirectories}) {
      for (std::uint64_t size = 0; size <= 8 * 1024; size += 128) {
        ASSERT_NO_FATAL_FAILURE(CheckAgainstModel(Shared(4, m, 512, 1024, placement), {size}));
      }
    }
  }
}

// The longest member holds parity itself in rows that nothing else reaches: those rows are empty, and its own parity
// ends with the second longest member.
TEST(Layout, OneLongMember) {
  const std::uint64_t u = 1024;
  for (std::uint32_t m = 1; m <= 3; ++m) {
    for (std::uint32_t longest = 0; longest < 5; ++longest) {
      for (std::uint64_t rest : {std::uint64_t{0}, std::uint64_t{1}, 2 * u, 7 * u + 100}) {
        std::vector<std::uint64_t> sizes(5, rest);
        sizes[longest] = 40 * u + 300;
        ASSERT_NO_FATAL_FAILURE(CheckAgainstModel(Set(5, m, 512, u), sizes));
        sizes[(longest + 2) % 5] = 23 * u;
        ASSERT_NO_FATAL_FAILURE(CheckAgainstModel(Set(5, m, 512, u), sizes));
      }
    }
  }
  const Layout layout = Make(Set(4, 1, 512, 512), {512 * 100, 0, 0, 0});
  EXPECT_EQ(layout.parity_size(0), 0u);
  EXPECT_GT(layout.parity_size(1), 0u);
}

}  // namespace
}  // namespace lzy::testing
