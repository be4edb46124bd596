// Tests the crash protocol with a model of power loss (tests/support/power_loss.h). Records what a run writes. Then examines
// every prefix of it, with any part of the unsynced writes, as an operator would after the crash. The letters are those of
// the invariants in docs/design/overview.md §11.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <tuple>

#include "both_forms.h"
#include "dataset/view.h"
#include "engine/engine.h"
#include "power_loss_fixture.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

class PowerLossStates;

class PowerLossTest : public PowerLossFixture {
 public:
  static std::set<std::uint64_t> BlocksOf(const ByteRange& range) {
    std::set<std::uint64_t> blocks;
    if (range.length == 0) return blocks;
    for (std::uint64_t b = range.offset / kBlock; b <= (range.offset + range.length - 1) / kBlock; ++b)
      blocks.insert(b);
    return blocks;
  }
  static std::set<std::uint64_t> BlocksThatDiffer(const Bytes& a, const Bytes& b) {
    std::set<std::uint64_t> blocks;
    for (std::uint64_t at = 0; at < std::max(a.size(), b.size()); at += kBlock) {
      const auto part = [at](const Bytes& bytes) {
        const std::size_t begin = std::min<std::size_t>(at, bytes.size());
        return ByteSpan(bytes).subspan(begin, std::min<std::size_t>(kBlock, bytes.size() - begin));
      };
      if (!std::ranges::equal(part(a), part(b))) blocks.insert(at / kBlock);
    }
    return blocks;
  }

  /// (a), (b): exactly the blocks that differ from the generation that counts are named.
  void ExpectTruth(const DatasetReport& found) {
    const auto version = versions_.find(found.root.bytes);
    ASSERT_TRUE(version != versions_.end()) << "a root that no data ever had: " << Text(found);
    for (const std::string& path : paths_) {
      std::set<std::uint64_t> named;
      for (const Damage& d : found.damage) {
        if (d.part == DamagePart::kData && d.path == path) named.merge(BlocksOf({d.offset, d.length}));
      }
      const Contents now = Present();
      const Bytes gone;
      const auto differing = BlocksThatDiffer(now.contains(path) ? now.at(path) : gone, version->second.at(path));
      EXPECT_EQ(named, differing) << path << ": " << Text(found);
    }
  }

  /// Expects an intact dataset, from which any m lost devices can be rebuilt.
  void ExpectIntact() {
    const DatasetReport found = Check();
    ASSERT_OK(found.status);
    EXPECT_EQ(std::string(Name(found.state)), "intact") << Text(found);
    EXPECT_TRUE(found.damage.empty()) << Text(found);
    unit_ = found.unit;
    if (!HasFailure()) ExpectParityIsRight();
  }
  void ExpectParityIsRight() {
    const Contents truth = Present();
    std::vector<std::uint32_t> devices(ref_.kind == DatasetKind::kSet ? paths_.size() : options_.group);
    for (std::uint32_t d = 0; d < devices.size(); ++d) devices[d] = d;
    std::shuffle(devices.begin(), devices.end(), rng_);
    devices.resize(std::min<std::size_t>(devices.size() - 1, options_.parity));
    if (ref_.kind == DatasetKind::kSet) {
      for (const std::uint32_t d : devices) {
        ASSERT_OK(fs_.Remove(paths_[d]));
        ASSERT_OK(fs_.Remove(*SidecarPath(paths_[d])));
      }
    }
    RestoreRequest request;
    if (ref_.kind == DatasetKind::kShared) {
      for (std::uint64_t at = 0; at < truth.at(paths_[0]).size(); ++at) {
        const std::uint64_t device = at / unit_ % options_.group;
        if (std::count(devices.begin(), devices.end(), device) > 0) fs_.At(paths_[0]).bytes[at] ^= 0x21;
      }
      request.devices = devices;
      for (const std::uint32_t d : devices) {
        if (!options_.device_dirs.empty()) LosePart(d);
      }
    }
    const DatasetReport restored = Restore(Here(), Ref(), request);
    ASSERT_OK(restored.status);
    EXPECT_EQ(ExitCodeOf(restored), 0) << Text(restored);
    EXPECT_EQ(Present(), truth) << Text(restored);
  }

  /// (c): parity still repairs the rows that the epoch did not touch, without force.
  void ExpectUntouchedIsRepaired(const DatasetReport& found) {
    const auto sidecar = Sidecar::Load(fs_, *SidecarPath(paths_[0]), OpenMode::kRead);
    if (whole_ || !sidecar.ok() || !(*sidecar)->committed()) return;
    const auto layout = LayoutOf((*sidecar)->contents());
    ASSERT_OK(layout);
    using Row = std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>;
    std::set<Row> touched_rows;
    const auto row_of = [&](std::uint32_t file, std::uint64_t block) {
      const RowId row = layout->LocateData(file, block).row;
      return Row(row.group, row.unit_row, row.slice);
    };
    for (std::uint32_t f = 0; f < paths_.size(); ++f) {
      for (const Interval& range : touched_[f].intervals()) {
        for (const std::uint64_t block : BlocksOf({range.begin, range.end - range.begin})) touched_rows.insert(row_of(f, block));
      }
    }
    std::map<std::string, std::vector<ByteRange>> lost;
    std::map<Row, std::uint32_t> in_row;
    const Contents truth = Present();
    for (std::uint32_t f = 0; f < paths_.size(); ++f) {
      for (std::uint64_t b = 0; b * kBlock < truth.at(paths_[f]).size(); ++b) {
        const auto row = row_of(f, b);
        if (touched_rows.contains(row) || in_row[row] == options_.parity || OneIn(rng_, 2)) continue;
        ++in_row[row];
        lost[paths_[f]].push_back(
            {b * kBlock, std::min<std::uint64_t>(kBlock, truth.at(paths_[f]).size() - b * kBlock)});
      }
    }
    if (lost.empty()) return;
    for (const auto& [path, ranges] : lost) {
      for (const ByteRange& r : ranges) {
        fs_.At(path).unreadable.emplace_back(r.offset, r.length);
        std::fill_n(fs_.At(path).bytes.begin() + static_cast<std::ptrdiff_t>(r.offset), r.length, std::uint8_t{0xee});
      }
    }
    const DatasetReport repaired = Repair();
    ASSERT_OK(repaired.status);
    EXPECT_EQ(Present(), truth) << "found " << Text(found) << "\nrepaired " << Text(repaired);
  }

  /// A program opens its files for writing and does not write.
  void ExpectOpeningChangesNothing(const DatasetReport& found, bool never) {
    const std::string pattern = ref_.kind == DatasetKind::kSet ? ref_.path : "";
    for (const std::string& path : paths_) {
      const auto start = BeginEpoch(fs_, options_, path, pattern);
      ASSERT_OK(start);
      ASSERT_OK(AbandonEpoch(fs_, options_, path, *start));
    }
    const DatasetReport after = Check();
    if (never) return;
    ASSERT_TRUE(after.status.ok()) << Text(after);
    EXPECT_EQ(after.root, found.root) << Text(found) << "\nafter " << Text(after);
    ExpectTruth(after);
  }

  /// Checks after an interrupted commit.
  void AfterCommit(bool returned) {
    const PowerLoss::Files left = fs_.Copy();
    const Contents data = Present();
    const DatasetReport found = Check();
    // Before the first commit, nothing is promised.
    const bool never = versions_.size() == 1 && !returned && found.generation == 0;
    if (never) {
      EXPECT_TRUE(found.state == DatasetState::kAtRisk || found.state == DatasetState::kUnprotected) << Text(found);
    } else {
      ASSERT_TRUE(found.status.ok()) << Text(found);
      ExpectTruth(found);
      EXPECT_NE(found.state, DatasetState::kUnrepairable) << Text(found);
      for (const Damage& d : found.damage) {
        if (d.part == DamagePart::kMetadata) continue;
        EXPECT_TRUE(d.cause == DamageCause::kAtRisk || d.cause == DamageCause::kStale) << Text(found);
      }
    }
    // (d): after a commit has returned, its data are durable.
    if (returned) {
      EXPECT_EQ(std::string(Name(found.state)), "intact") << Text(found);
      EXPECT_EQ(found.root.bytes, last_root_);
    }
    if (HasFailure()) return;
    ExpectUntouchedIsRepaired(found);
    fs_.Restore(left);
    ExpectOpeningChangesNothing(found, never);
    fs_.Restore(left);
    // (e): no edit is set back without force.
    (void)Repair();
    EXPECT_EQ(Present(), data) << Text(found);
    // (f): a commit makes the dataset intact, with its present data.
    const DatasetReport again = Protect(Here(), Ref(), {});
    ASSERT_TRUE(again.status.ok()) << Text(again);
    EXPECT_EQ(ExitCodeOf(again), 0) << Text(again);
    EXPECT_EQ(Present(), data) << Text(again);
    ExpectIntact();
  }

  /// Checks after an interrupted repair or restore. The only committed version must come back.
  void AfterRepair(bool returned) {
    const Contents& truth = versions_.begin()->second;
    for (const std::string& path : paths_) {
      const bool made_again = fs_.Has(path) && lost_.contains(path);
      if (made_again) {
        EXPECT_EQ(fs_.At(path).bytes, truth.at(path)) << path << " is there, and not whole";
      }
    }
    const DatasetReport found = Check();
    ASSERT_TRUE(found.status.ok()) << Text(found);
    ExpectTruth(found);
    for (const Damage& d : found.damage) {
      EXPECT_TRUE(d.cause == DamageCause::kHash || d.cause == DamageCause::kMissing) << Text(found);
    }
    if (returned) {
      EXPECT_EQ(Present(), truth);
      EXPECT_EQ(std::string(Name(found.state)), "intact") << Text(found);
    }
    if (HasFailure()) return;
    const DatasetReport again = lost_.empty() ? Repair() : Restore(Here(), Ref(), {});
    ASSERT_TRUE(again.status.ok()) << Text(again);
    EXPECT_EQ(ExitCodeOf(again), 0) << Text(again);
    EXPECT_EQ(Present(), truth);
    for (const std::string& path : paths_) EXPECT_EQ(fs_.At(path).stat.mtime_ns, mtimes_.at(path)) << path;
    ExpectIntact();
  }

  // -------------------------------------------------------------------------------------------------------- scenarios

  void RecordFirstEpoch(std::uint32_t members) {
    MakeFiles(members, 14);
    const auto writes = RandomWrites(false);
    Record([&] { Epoch(writes); });
    last_root_ = versions_.begin()->first;
  }
  void RecordEpoch(std::uint32_t members, bool growing, int epochs = 1, std::uint64_t blocks = 14) {
    MakeProtected(members, blocks);
    std::vector<std::vector<Write>> all;
    Record([&] {
      for (int e = 0; e < epochs; ++e) {
        const auto before = versions_;
        Epoch(RandomWrites(growing));
        for (const auto& [root, contents] : versions_) {
          if (!before.contains(root)) last_root_ = root;
        }
      }
    });
  }
  void RecordProtect(std::uint32_t members) {
    MakeProtected(members, 14);
    for (const Write& write : RandomWrites(false)) {
      if (write.truncate) continue;
      auto file = fs_.Open(paths_[write.file], OpenMode::kReadWrite);
      ASSERT_OK((*file)->WriteAt(write.offset, write.bytes));
    }
    Record([&] {
      const DatasetReport made = Protect(Here(), ref_, {});
      ASSERT_OK(made.status);
      NoteVersion(made);
      last_root_ = made.root.bytes;
    });
    whole_ = true;
  }
  void NoteMtimes() {
    mtimes_.clear();
    lost_.clear();
    for (const std::string& path : paths_) mtimes_[path] = fs_.At(path).stat.mtime_ns;
  }
  void RecordRepair(std::uint32_t members) {
    MakeProtected(members, 14);
    NoteMtimes();
    for (std::uint64_t block : {2u, 3u, 11u}) fs_.At(paths_[0]).bytes[block * kBlock] ^= 1;
    if (members > 0) fs_.At(paths_[1]).bytes.push_back(9);
    if (members == 0) fs_.At(*SidecarPath(paths_[0])).bytes[5] ^= 1;
    Record([&] {
      const DatasetReport repaired = Repair();
      ASSERT_OK(repaired.status);
      EXPECT_EQ(ExitCodeOf(repaired), 0) << Text(repaired);
    });
  }
  void RecordRestore(std::uint32_t members) {
    MakeProtected(members, 14);
    NoteMtimes();
    ASSERT_OK(fs_.Remove(paths_[1]));
    ASSERT_OK(fs_.Remove(*SidecarPath(paths_[1])));
    ASSERT_OK(fs_.Remove(*SidecarPath(paths_[2])));
    fs_.At(paths_[3]).bytes[5 * kBlock] ^= 1;
    lost_.insert(paths_[1]);
    Record([&] {
      const DatasetReport restored = Restore(Here(), Ref(), {});
      ASSERT_OK(restored.status);
      EXPECT_EQ(ExitCodeOf(restored), 0) << Text(restored);
    });
  }

  std::array<std::uint8_t, 16> last_root_{};
  std::map<std::string, std::int64_t> mtimes_;
  std::set<std::string> lost_;
  std::uint64_t unit_ = 0;
};

/// A run, and the checks after a loss of power.
struct Scenario {
  const char* name;
  void (*record)(PowerLossStates&);
  void (PowerLossTest::*check)(bool returned);
  bool in_directories = false;
  bool compact = false;  ///< small files have sidecars of the compact form
  bool with_snapshot = false;  ///< the sidecars have second names (hard links)
};

void PrintTo(const Scenario& scenario, std::ostream* out) {
  *out << scenario.name;
}

class PowerLossStates : public PowerLossTest, public ::testing::WithParamInterface<Scenario> {
 public:
  static const Scenario all[];
  /// All scenarios, in both forms of sidecars.
  static std::vector<Scenario> InBothForms();

 protected:
  CheckFn CheckOfScenario() {
    return [this](bool returned) {
      ExpectSnapshotIsAsItWas();
      (this->*GetParam().check)(returned);
      ExpectSnapshotIsAsItWas();
    };
  }
  void Run(std::uint64_t runs, const std::function<void()>& look) {
    const std::uint64_t seed = SeedOf(42);
    if (GetParam().in_directories) UseDirectories();
    options_.compact = GetParam().compact;
    with_snapshot_ = GetParam().with_snapshot;
    for (std::uint64_t i = 0; i < runs; ++i) {
      SCOPED_TRACE(fmt::format("LZY_TEST_SEED={}", seed + i));
      rng_.seed(seed + i);
      GetParam().record(*this);
      ASSERT_FALSE(HasFailure());
      look();
      if (HasFailure()) return;
    }
    std::printf("%zu states\n", seen_.size());
    RecordProperty("states", std::to_string(seen_.size()));
  }
};

const Scenario PowerLossStates::all[] = {
    {"FirstEpoch", [](PowerLossStates& t) { t.RecordFirstEpoch(0); }, &PowerLossTest::AfterCommit},
    {"FirstEpochOfASet", [](PowerLossStates& t) { t.RecordFirstEpoch(3); }, &PowerLossTest::AfterCommit},
    {"Epoch", [](PowerLossStates& t) { t.RecordEpoch(0, false); }, &PowerLossTest::AfterCommit},
    {"EpochOfASet", [](PowerLossStates& t) { t.RecordEpoch(4, false); }, &PowerLossTest::AfterCommit},
    {"Epochs", [](PowerLossStates& t) { t.RecordEpoch(0, false, 3); }, &PowerLossTest::AfterCommit},
    {"EpochsOfASet", [](PowerLossStates& t) { t.RecordEpoch(3, false, 2); }, &PowerLossTest::AfterCommit},
    {"AnotherGeometry", [](PowerLossStates& t) { t.RecordEpoch(0, true); }, &PowerLossTest::AfterCommit},
    {"AnotherGeometryOfASet", [](PowerLossStates& t) { t.RecordEpoch(3, true); }, &PowerLossTest::AfterCommit},
    // From a size that the compact form allows to one that it does not.
    {"AnotherForm", [](PowerLossStates& t) { t.RecordEpoch(0, true, 1, 20); }, &PowerLossTest::AfterCommit},
    {"FirstEpochInDirectories", [](PowerLossStates& t) { t.RecordFirstEpoch(0); }, &PowerLossTest::AfterCommit, true},
    {"EpochsInDirectories", [](PowerLossStates& t) { t.RecordEpoch(0, false, 2); }, &PowerLossTest::AfterCommit, true},
    {"AnotherGeometryInDirectories", [](PowerLossStates& t) { t.RecordEpoch(0, true); }, &PowerLossTest::AfterCommit, true},
    {"RepairInDirectories", [](PowerLossStates& t) { t.RecordRepair(0); }, &PowerLossTest::AfterRepair, true},
    {"Protect", [](PowerLossStates& t) { t.RecordProtect(0); }, &PowerLossTest::AfterCommit},
    {"ProtectOfASet", [](PowerLossStates& t) { t.RecordProtect(3); }, &PowerLossTest::AfterCommit},
    {"Repair", [](PowerLossStates& t) { t.RecordRepair(0); }, &PowerLossTest::AfterRepair},
    {"RepairOfASet", [](PowerLossStates& t) { t.RecordRepair(4); }, &PowerLossTest::AfterRepair},
    {"RestoreOfASet", [](PowerLossStates& t) { t.RecordRestore(4); }, &PowerLossTest::AfterRepair},
    {"EpochsWithASnapshot", [](PowerLossStates& t) { t.RecordEpoch(0, false, 2); }, &PowerLossTest::AfterCommit, false, false, true},
    {"EpochOfASetWithASnapshot", [](PowerLossStates& t) { t.RecordEpoch(3, false); }, &PowerLossTest::AfterCommit, false, false, true},
    {"RepairWithASnapshot", [](PowerLossStates& t) { t.RecordRepair(0); }, &PowerLossTest::AfterRepair, false, false, true},
    {"RepairOfASetWithASnapshot", [](PowerLossStates& t) { t.RecordRepair(4); }, &PowerLossTest::AfterRepair, false, false, true},
};

std::vector<Scenario> PowerLossStates::InBothForms() {
  std::vector<Scenario> both(std::begin(all), std::end(all));
  for (Scenario scenario : all) {
    scenario.compact = true;
    if (!scenario.in_directories) both.push_back(scenario);
  }
  return both;
}

TEST_P(PowerLossStates, HoldTheInvariants) {
  const std::uint64_t recordings = kSanitized ? 1 : GetParam().in_directories ? 2 : 4;
  const std::uint64_t outcomes = kSanitized ? 3 : 5;
  Run(RoundsOf(recordings), [&] { AtEveryPrefix(CheckOfScenario(), outcomes); });
}

// Every subset of this many unsynced writes and names; other unsynced ones are chosen at random.
TEST_P(PowerLossStates, HoldThemInEverySubset) {
  Run(1, [&] { AtEveryPossibility(CheckOfScenario(), NumberFromEnvironment("LZY_TEST_BITS", kSanitized ? 2 : 3)); });
}

INSTANTIATE_TEST_SUITE_P(Of, PowerLossStates, ::testing::ValuesIn(PowerLossStates::InBothForms()),
                         [](const auto& test) { return test.param.name + SuffixOfForm(test.param.compact); });

}  // namespace
}  // namespace lzy::testing
