// Compares the map of damage with the geometry: its cells have exactly the blocks of the damage.
#include "engine/block_map.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "damage_model.h"
#include "engine/engine.h"
#include "engine_fixture.h"
#include "parts_fixture.h"
#include "random_damage.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

/// A block: file, offset, length.
using Places = std::set<std::tuple<std::string, std::uint64_t, std::uint64_t>>;

const Ensemble* EnsembleOf(const DatasetView& view, std::uint32_t number, std::uint32_t& g) {
  for (const Ensemble& ensemble : view.ensembles) {
    if (number < ensemble.layout->group_count()) return g = number, &ensemble;
    number -= ensemble.layout->group_count();
  }
  return nullptr;
}

/// The blocks of one damage by the map and the geometry.
Places Mapped(const DatasetView& view, const BlockMap& map, std::size_t index) {
  Places out;
  for (const BlockMap::Cells& cells : map.cells) {
    if (cells.damage != index) continue;
    std::uint32_t g = 0;
    const Ensemble* ensemble = EnsembleOf(view, map.groups.at(cells.group).number, g);
    if (ensemble == nullptr) ADD_FAILURE() << "no group " << map.groups[cells.group].number;
    if (ensemble == nullptr) return out;
    const Layout& layout = *ensemble->layout;
    EXPECT_EQ(map.groups[cells.group].rows, layout.unit_rows(g) * layout.slices());
    EXPECT_LT(cells.last, map.groups[cells.group].rows);
    const std::uint32_t device = layout.group(g).at(cells.position);
    for (std::uint64_t row = cells.first; row <= cells.last; ++row) {
      const std::uint64_t unit_row = row / layout.slices();
      if (layout.IsParity(device, unit_row) != cells.of_parity) continue;
      const FileView& file = ensemble->files[layout.HolderOf(cells.of_parity, device)];
      const BlockPlace block = layout.Block(cells.of_parity, device, unit_row, static_cast<std::uint32_t>(row % layout.slices()));
      if (block.length == 0) continue;
      const PlaceInFile at = cells.of_parity ? ParityPlace(file, layout.unit(), block.offset) : PlaceInFile{file.path, block.offset};
      out.emplace(at.path, at.offset, block.length);
    }
  }
  return out;
}

/// All blocks of the dataset that overlap `damage`. In a shared file, a report names the device of each range.
Places Touched(const DatasetView& view, const Damage& damage, bool any_device) {
  Places out;
  const bool of_parity = damage.part == DamagePart::kParity;
  for (const Ensemble& ensemble : view.ensembles) {
    const Layout& layout = *ensemble.layout;
    for (std::uint32_t device = 0; device < layout.devices(); ++device) {
      const FileView& file = ensemble.files[layout.HolderOf(of_parity, device)];
      const std::uint32_t named = view.ref.kind == DatasetKind::kSet ? ensemble.files[device].rank : device;
      if (damage.part == DamagePart::kMetadata || (!any_device && named != damage.device)) continue;
      for (std::uint64_t row = 0; row < layout.unit_rows(layout.group_of(device)); ++row) {
        if (layout.IsParity(device, row) != of_parity) continue;
        for (std::uint32_t slice = 0; slice < layout.slices(); ++slice) {
          const BlockPlace block = layout.Block(of_parity, device, row, slice);
          const PlaceInFile at = of_parity ? ParityPlace(file, layout.unit(), block.offset) : PlaceInFile{file.path, block.offset};
          const bool hit = block.length > 0 && at.path == damage.path && at.offset < damage.offset + damage.length && damage.offset < at.offset + block.length;
          if (hit) out.emplace(at.path, at.offset, block.length);
        }
      }
    }
  }
  return out;
}

void ExpectSame(const DatasetView& view, const BlockMap& map, const std::vector<Damage>& damage, bool any_device = false) {
  for (std::size_t i = 0; i < damage.size(); ++i) {
    SCOPED_TRACE(fmt::format("{} {} device {} offset {} length {}", damage[i].path, Name(damage[i].part), damage[i].device, damage[i].offset, damage[i].length));
    const Places touched = Touched(view, damage[i], any_device);
    EXPECT_EQ(Mapped(view, map, i), touched);
    EXPECT_EQ(std::ranges::count(map.elsewhere, i) != 0, touched.empty());
  }
}

class Maps : public ::testing::TestWithParam<int> {};

// Random datasets with random damage, as a verification reports it.
TEST_P(Maps, HaveTheBlocksOfTheDamage) {
  Rng rng(SeedOf(static_cast<std::uint64_t>(GetParam()) * 104729 + 3));
  std::size_t mapped = 0;
  for (std::uint64_t round = 0; round < RoundsOf(kSanitized ? 8 : 40); ++round) {
    Scratch scratch;
    const Sample sample = MakeSample(rng, scratch.path(), {.blocks = 60, .bytes = 256u << 10, .members = 6, .kind = GetParam()});
    SCOPED_TRACE(sample.Describe());
    const auto comm = SelfCommunicator();
    const Context context{PosixFileSystem(), *comm, sample.options};
    ASSERT_OK(Protect(context, RefOf(*comm, sample.path, Resolve::kProtectable), {}).status);
    DamageModel model(scratch.path(), sample);
    RandomDamage damage(rng, model);
    damage.Apply(1 + static_cast<int>(Below(rng, 10)));
    SCOPED_TRACE(damage.log());
    const DatasetRef ref = RefOf(*comm, sample.path);
    const DatasetReport report = Verify(context, ref, {});
    auto view = OpenDataset(context, ref, {});
    if (!report.status.ok() || !view.ok() || !view->committed) continue;
    const auto map = MapBlocks(context, ref, report.damage);
    ASSERT_OK(map.status());
    EXPECT_EQ(map->uuid, report.uuid);
    EXPECT_EQ(map->unit, report.unit);
    // Transient damage concerns the file, not a device.
    std::vector<Damage> lasting = report.damage;
    if (std::ranges::any_of(lasting, &Damage::transient)) continue;
    ExpectSame(*view, *map, lasting);
    mapped += map->cells.size();
  }
  EXPECT_GT(mapped, 0u);
}
INSTANTIATE_TEST_SUITE_P(Kinds, Maps, ::testing::Values(static_cast<int>(DatasetKind::kShared), static_cast<int>(DatasetKind::kSet)));

// Parity in files of its own, in device directories.
class MapsOfParts : public PartsTest {};

TEST_F(MapsOfParts, HaveTheBlocksOfTheDamage) {
  UseDirectories(5, 2);
  MakeFile(200'000);
  ASSERT_OK(ProtectIt().status);
  const auto comm = SelfCommunicator();
  const Context context{PosixFileSystem(), *comm, options_};
  auto view = OpenDataset(context, Ref(), {});
  ASSERT_OK(view.status());
  const FileView& file = *view->files().begin();
  ASSERT_EQ(file.part_paths.size(), 5u);
  std::vector<Damage> damage;
  for (std::uint32_t device = 0; device < 5; ++device) {
    const std::uint64_t size = ReadFile(file.part_paths[device]).size();
    for (const auto& [offset, length] : {std::pair(file.part_base, std::uint64_t{1}), {file.part_base + 2000, std::uint64_t{3000}},
                                         {file.part_base, size - file.part_base}}) {
      damage.push_back({.path = file.part_paths[device], .device = device, .part = DamagePart::kParity, .offset = offset, .length = length});
    }
  }
  const auto map = MapBlocks(context, Ref(), damage);
  ASSERT_OK(map.status());
  ExpectSame(*view, *map, damage);
  EXPECT_TRUE(map->elsewhere.empty());
  EXPECT_EQ(map->groups.at(0).map.devices.at(1).path, DirectoryOf(file.part_paths[1]));
}

// Ranges over many units, as in files that are cut or missing.
TEST(Maps, OfLongRanges) {
  Rng rng(SeedOf(11));
  for (std::uint64_t round = 0; round < RoundsOf(kSanitized ? 8 : 40); ++round) {
    Scratch scratch;
    const Sample sample = MakeSample(rng, scratch.path(), {.blocks = 60, .bytes = 256u << 10, .members = 6});
    SCOPED_TRACE(sample.Describe());
    const auto comm = SelfCommunicator();
    const Context context{PosixFileSystem(), *comm, sample.options};
    ASSERT_OK(Protect(context, RefOf(*comm, sample.path, Resolve::kProtectable), {}).status);
    const DatasetRef ref = RefOf(*comm, sample.path);
    auto view = OpenDataset(context, ref, {});
    ASSERT_OK(view.status());
    std::vector<Damage> damage;
    for (const FileView& file : view->files()) {
      const std::uint64_t from = Below(rng, file.stamp.size);
      damage.push_back({.path = file.path, .device = file.rank, .offset = from, .length = 1 + Below(rng, file.stamp.size - from + 4096)});
      damage.push_back({.path = file.path, .device = file.rank, .offset = 0, .length = file.stamp.size});
      damage.push_back({.path = file.path, .device = file.rank, .offset = file.stamp.size + 1, .length = 10});
      if (sample.kind == DatasetKind::kSet && sample.options.parity > 0) {
        damage.push_back({.path = file.sidecar_path, .device = file.rank, .part = DamagePart::kParity, .offset = file.parity_base, .length = 1});
      }
    }
    const auto map = MapBlocks(context, ref, damage);
    ASSERT_OK(map.status());
    ExpectSame(*view, *map, damage, sample.kind == DatasetKind::kShared);
  }
}

// Ranges that a forged or outdated catalogue may contain.
TEST(Maps, OfNonsense) {
  Rng rng(SeedOf(12));
  Scratch scratch;
  const Sample sample = MakeSample(rng, scratch.path(), {.blocks = 60, .bytes = 256u << 10, .members = 6});
  const auto comm = SelfCommunicator();
  const Context context{PosixFileSystem(), *comm, sample.options};
  ASSERT_OK(Protect(context, RefOf(*comm, sample.path, Resolve::kProtectable), {}).status);
  const DatasetRef ref = RefOf(*comm, sample.path);
  std::vector<Damage> damage;
  constexpr std::uint64_t kHuge = ~std::uint64_t{0};
  for (const DamagePart part : {DamagePart::kData, DamagePart::kParity, DamagePart::kMetadata}) {
    for (const std::uint32_t device : {0u, 3u, 1000000u, ~0u}) {
      for (const auto& [offset, length] : {std::pair(kHuge, kHuge), {kHuge, std::uint64_t{1}}, {std::uint64_t{0}, kHuge}, {std::uint64_t{1}, kHuge - 1}, {kHuge / 2, kHuge / 2}}) {
        damage.push_back({.path = "x", .device = device, .part = part, .offset = offset, .length = length});
      }
    }
  }
  const auto map = MapBlocks(context, ref, damage);
  ASSERT_OK(map.status());
  for (const BlockMap::Cells& cells : map->cells) EXPECT_LT(cells.last, map->groups.at(cells.group).rows);
}

TEST(Maps, NeedASidecar) {
  Scratch scratch;
  WriteFile(scratch / "f", Bytes(1000));
  const auto comm = SelfCommunicator();
  const Options options;
  const Context context{PosixFileSystem(), *comm, options};
  EXPECT_FALSE(MapBlocks(context, {DatasetKind::kShared, scratch / "f", {}}, {{}}).ok());
}

}  // namespace
}  // namespace lzy::testing
