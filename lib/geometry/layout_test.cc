#include "geometry/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "status_matchers.h"

namespace lzy {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::uint64_t kGiB = 1024 * kMiB;

std::vector<std::vector<std::uint32_t>> OneGroup(std::uint32_t n) {
  std::vector<std::uint32_t> group(n);
  std::iota(group.begin(), group.end(), 0u);
  return {group};
}

GeometryParameters Shared(std::uint32_t n, std::uint32_t m, std::uint32_t block_size, std::uint64_t unit,
                          ParityPlacement placement = ParityPlacement::kPooled) {
  return {DatasetKind::kShared, placement, block_size, unit, m, OneGroup(n)};
}

GeometryParameters Set(std::uint32_t n, std::uint32_t m, std::uint32_t block_size, std::uint64_t unit) {
  return {DatasetKind::kSet, ParityPlacement::kPerDevice, block_size, unit, m, OneGroup(n)};
}

Layout Make(const GeometryParameters& parameters, const std::vector<std::uint64_t>& sizes) {
  Result<Layout> layout = Layout::Create(parameters, sizes);
  EXPECT_OK(layout);
  return std::move(layout).value();
}

std::string Describe(const GeometryParameters& p, const std::vector<std::uint64_t>& sizes) {
  return ::testing::PrintToString(
             std::make_tuple(static_cast<int>(p.kind), static_cast<int>(p.placement), p.block_size, p.unit, p.parity)) +
         " (kind, placement, block, unit, parity) groups " + ::testing::PrintToString(p.groups) + " sizes " +
         ::testing::PrintToString(sizes);
}

// The geometry again, in the plainest way: units are cut from the files and dealt to devices one after the other, rows
// are filled one after the other until nothing is left. Shares no arithmetic with the implementation.
struct ModelUnit {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};
struct ModelRow {
  std::vector<std::uint32_t> parity;        // devices, in order of position
  std::map<std::uint32_t, ModelUnit> data;  // by device; devices whose data have ended are missing
  std::vector<std::uint32_t> ended;         // those
  std::uint64_t length = 0;
};
struct ModelParityUnit {
  std::uint32_t device = 0;
  std::uint32_t group = 0;
  std::uint64_t row = 0;
  std::uint32_t region = 0;
  std::uint64_t index = 0;  // x
  std::uint64_t length = 0;
};
struct Model {
  std::vector<std::vector<ModelRow>> rows;  // by group
  std::vector<ModelParityUnit> parity;
  std::vector<std::uint64_t> device_sizes;
  std::uint64_t first_row = 0;
  std::uint64_t stride = 0;
};

std::vector<std::vector<ModelUnit>> CutIntoUnits(const GeometryParameters& p, const std::vector<std::uint64_t>& sizes,
                                                 std::size_t devices) {
  std::vector<std::vector<ModelUnit>> units(devices);
  for (std::size_t file = 0; file < sizes.size(); ++file) {
    std::size_t device = file;
    for (std::uint64_t offset = 0; offset < sizes[file]; offset += p.unit) {
      units[device].push_back({offset, std::min(p.unit, sizes[file] - offset)});
      if (p.kind == DatasetKind::kShared) device = (device + 1) % devices;
    }
  }
  return units;
}

std::vector<ModelRow> DealRows(const GeometryParameters& p, const std::vector<std::uint32_t>& group,
                               const std::vector<std::vector<ModelUnit>>& units) {
  std::vector<ModelRow> rows;
  std::map<std::uint32_t, std::size_t> used;
  const auto all_used = [&] {
    return std::all_of(group.begin(), group.end(), [&](std::uint32_t d) { return used[d] >= units[d].size(); });
  };
  for (std::size_t t = 0; !all_used(); ++t) {
    ModelRow row;
    for (std::uint32_t q = 0; q < p.parity; ++q) row.parity.push_back(group[(t + q) % group.size()]);
    for (std::uint32_t d : group) {
      if (std::find(row.parity.begin(), row.parity.end(), d) != row.parity.end()) continue;
      if (used[d] >= units[d].size()) {
        row.ended.push_back(d);
        continue;
      }
      row.data[d] = units[d][used[d]++];
      row.length = std::max(row.length, row.data[d].length);
    }
    rows.push_back(row);
  }
  return rows;
}

Model BuildModel(const GeometryParameters& p, const std::vector<std::uint64_t>& sizes) {
  Model model;
  std::size_t devices = 0;
  for (const auto& group : p.groups) devices += group.size();
  const auto units = CutIntoUnits(p, sizes, devices);
  for (const auto& of_device : units) {
    model.device_sizes.push_back(0);
    for (const ModelUnit& unit : of_device) model.device_sizes.back() += unit.length;
  }
  for (const auto& group : p.groups) model.rows.push_back(DealRows(p, group, units));

  const bool pooled = p.placement == ParityPlacement::kPooled;
  model.stride = pooled ? std::min(p.unit, sizes[0]) : p.unit;
  std::vector<std::uint64_t> held(devices, 0);
  bool any = false;
  std::size_t most_rows = 0;
  for (const auto& rows : model.rows) most_rows = std::max(most_rows, rows.size());
  for (std::size_t t = 0; t < most_rows; ++t) {
    for (std::uint32_t g = 0; g < p.groups.size(); ++g) {
      if (t >= model.rows[g].size()) continue;
      const ModelRow& row = model.rows[g][t];
      if (pooled && !any && row.length > 0) model.first_row = t;
      any = any || row.length > 0;
      for (std::uint32_t q = 0; q < p.parity; ++q) {
        ModelParityUnit unit{row.parity[q], g, t, 0, held[row.parity[q]]++, row.length};
        if (p.placement == ParityPlacement::kPerDevice) unit.region = unit.device;
        const bool dealt = p.placement == ParityPlacement::kStriped || p.placement == ParityPlacement::kDirectories;
        if (dealt) unit.index = unit.index * devices + unit.device;
        if (pooled) unit.index = ((t - model.first_row) * p.groups.size() + g) * p.parity + q;
        if (row.length > 0) model.parity.push_back(unit);
      }
    }
  }
  return model;
}

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

// Devices dealt to groups at random, every group larger than m.
std::vector<std::vector<std::uint32_t>> RandomGroups(std::mt19937_64& random, std::uint32_t m) {
  std::vector<std::vector<std::uint32_t>> groups(1 + random() % 3);
  std::uint32_t devices = 0;
  for (auto& group : groups) {
    group.resize(m + 1 + random() % 5);
    devices += static_cast<std::uint32_t>(group.size());
  }
  std::vector<std::uint32_t> order(devices);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), random);
  auto next = order.begin();
  for (auto& group : groups) {
    for (std::uint32_t& device : group) device = *next++;
  }
  return groups;
}

GeometryParameters RandomParameters(std::mt19937_64& random, DatasetKind kind) {
  GeometryParameters p;
  p.kind = kind;
  p.placement =
      kind == DatasetKind::kSet ? ParityPlacement::kPerDevice : static_cast<ParityPlacement>(1 + random() % 4);
  p.block_size = 512;
  p.unit = 512u << random() % 3;
  p.parity = static_cast<std::uint32_t>(random() % 4);
  p.groups = RandomGroups(random, p.parity);
  return p;
}

// Sizes that meet the edges: empty, shorter than a block, exact multiples, one byte off them.
std::uint64_t RandomSize(std::mt19937_64& random, std::uint64_t unit, std::uint64_t most_units) {
  switch (random() % 6) {
    case 0:
      return 0;
    case 1:
      return random() % 600;
    case 2:
      return random() % most_units * unit;
    case 3:
      return random() % most_units * unit + 1;
    case 4:
      return (1 + random() % most_units) * unit - 1;
    default:
      return random() % (most_units * unit);
  }
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

struct BadValue {
  const char* name;
  std::function<void(GeometryParameters&, std::vector<std::uint64_t>&)> spoil;
  std::vector<std::string> message;  // what it must name: the thing with the value, and what is accepted
};

void PrintTo(const BadValue& bad, std::ostream* out) {
  *out << bad.name;
}

class LayoutRefuses : public ::testing::TestWithParam<BadValue> {};

TEST_P(LayoutRefuses, WithAMessageThatNamesIt) {
  GeometryParameters parameters = Set(4, 1, 65536, 1 << 20);
  std::vector<std::uint64_t> sizes(4, 1000);
  ASSERT_OK(Layout::Create(parameters, sizes));
  GetParam().spoil(parameters, sizes);
  const Result<Layout> layout = Layout::Create(parameters, sizes);
  EXPECT_CODE(layout, Code::kInvalidArgument);
  for (const std::string& part : GetParam().message) EXPECT_THAT(layout.status().message(), HasSubstr(part));
}

using P = GeometryParameters;
using Sizes = std::vector<std::uint64_t>;

const std::vector<BadValue>& BadValues() {
  static const std::vector<BadValue> values = {
        BadValue{"BlockZero", [](P& p, Sizes&) { p.block_size = 0; }, {"block size 0:", "512", "16777216"}},
        BadValue{"BlockOdd", [](P& p, Sizes&) { p.block_size = 65535; }, {"block size 65535:", "power of two"}},
        BadValue{"BlockSmall", [](P& p, Sizes&) { p.block_size = 256; }, {"block size 256:", "512"}},
        BadValue{"BlockLarge", [](P& p, Sizes&) { p.block_size = 32u << 20; }, {"block size 33554432:", "16777216"}},
        BadValue{"UnitZero", [](P& p, Sizes&) { p.unit = 0; }, {"stripe unit 0:", "65536"}},
        BadValue{"UnitSmall", [](P& p, Sizes&) { p.unit = 32768; }, {"stripe unit 32768:", "65536"}},
        BadValue{"UnitOdd", [](P& p, Sizes&) { p.unit = 3 * 65536; }, {"stripe unit 196608:", "power of two"}},
        BadValue{"UnitLarge", [](P& p, Sizes&) { p.unit = 2ull << 30; }, {"stripe unit 2147483648:", "1073741824"}},
        BadValue{"Kind", [](P& p, Sizes&) { p.kind = static_cast<DatasetKind>(3); }, {"dataset kind 3:", "1", "2"}},
        BadValue{"Placement",
                 [](P& p, Sizes&) { p.placement = static_cast<ParityPlacement>(0); },
                 {"parity placement 0:", "1 (pooled)", "3 (striped)"}},
        BadValue{"PooledSet",
                 [](P& p, Sizes&) { p.placement = ParityPlacement::kPooled; },
                 {"parity placement 1:", "file set", "2 (per device)"}},
        BadValue{"StripedSet",
                 [](P& p, Sizes&) { p.placement = ParityPlacement::kStriped; },
                 {"parity placement 3:", "file set", "2 (per device)"}},
        BadValue{"NoGroups", [](P& p, Sizes&) { p.groups.clear(); }, {"groups 0:", "at least 1"}},
        BadValue{"EmptyGroup", [](P& p, Sizes&) { p.groups.push_back({}); }, {"group 1 has 0 devices:", "1 to 255"}},
        BadValue{
            "LargeGroup", [](P& p, Sizes&) { p.groups = OneGroup(256); }, {"group 0 has 256 devices:", "1 to 255"}},
        BadValue{"ParityAll", [](P& p, Sizes&) { p.parity = 4; }, {"parity 4:", "4 devices of group 0", "0 to 3"}},
        BadValue{"ParityOfSmallestGroup",
                 [](P& p, Sizes&) {
                   p.parity = 2;
                   p.groups = {{0, 1, 2}, {3, 4}};
                 },
                 {"parity 2:", "2 devices of group 1", "0 to 1"}},
        BadValue{"DeviceTwice",
                 [](P& p, Sizes&) {
                   p.groups = {{0, 1}, {2, 1}};
                 },
                 {"device 1 in group 1:", "once"}},
        BadValue{"DeviceUnknown",
                 [](P& p, Sizes&) {
                   p.groups = {{0, 1}, {2, 4}};
                 },
                 {"device 4 in group 1:", "0 to 3"}},
        BadValue{"SizesFew", [](P&, Sizes& sizes) { sizes.pop_back(); }, {"3 file sizes:", "4, one for each"}},
        BadValue{"SizesMany", [](P&, Sizes& sizes) { sizes.push_back(0); }, {"5 file sizes:", "4, one for each"}},
        BadValue{
            "SizesOfShared", [](P& p, Sizes&) { p.kind = DatasetKind::kShared; }, {"4 file sizes:", "1 for a shared"}},
        BadValue{"SizeLarge",
                 [](P&, Sizes& sizes) { sizes[2] = (1ull << 62) + 1; },
                 {"size 4611686018427387905 of file 2:", "4611686018427387904"}},
        BadValue{"RegionLarge",
                 [](P& p, Sizes& sizes) {
                   p.parity = 3;  // three times the data
                   sizes.assign(4, 1ull << 62);
                 },
                 {"file size 4611686018427387904", "parity 3", "4 devices", "9223372036854775807"}}};
  return values;
}

std::string NameOf(const ::testing::TestParamInfo<BadValue>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Values, LayoutRefuses, ::testing::ValuesIn(BadValues()), NameOf);

TEST(Layout, AcceptsTheLimits) {
  EXPECT_OK(Layout::Create(Shared(255, 254, kMinBlockSize, kMinBlockSize), {1}));
  EXPECT_OK(Layout::Create(Shared(1, 0, kMaxBlockSize, kMaxUnit), {1ull << 62}));
  EXPECT_OK(Layout::Create(Set(2, 1, kMaxBlockSize, kMaxBlockSize), {1ull << 62, 0}));
}

}  // namespace
}  // namespace lzy
