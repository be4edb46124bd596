// Heals blocks after random damage. An oracle knows the committed content.
#include "repair/heal.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "dataset/lock.h"
#include "dataset/view.h"
#include "sidecar/contents.h"
#include "engine_fixture.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

using Verdict = HealedBlock::Verdict;

/// A protected dataset with rot in random blocks; counts the rotten blocks of each row.
class Damaged {
 public:
  Damaged(Rng& rng, Sample sample) : rng_(rng), sample_(std::move(sample)), self_(SelfCommunicator()) {
    const Context context{PosixFileSystem(), *self_, sample_.options};
    const DatasetReport made = Protect(context, RefOf(*self_, sample_.path, Resolve::kProtectable), {});
    EXPECT_OK(made.status);
    auto view = OpenDataset(context, RefOf(*self_, sample_.path), {});
    EXPECT_OK(view);
    view_ = std::move(*view);
    for (const std::string& path : sample_.files) committed_[path] = {ReadFile(path), MtimeOf(path)};
  }

  /// Corrupts one block of data or parity.
  void RotOne() {
    const std::size_t e = Below(rng_, view_.ensembles.size());
    const Ensemble& ensemble = view_.ensembles[e];
    const auto f = static_cast<std::uint32_t>(Below(rng_, ensemble.files.size()));
    const FileView& file = ensemble.files[f];
    const Layout& layout = *ensemble.layout;
    const bool parity = OneIn(rng_, 3);
    const std::uint64_t blocks = parity ? layout.parity_blocks(f) : layout.data_blocks(f);
    if (blocks == 0) return;
    const std::uint64_t index = Below(rng_, blocks);
    const Layout::DeviceRow at = parity ? layout.LocateParity(f, index) : layout.LocateData(f, index);
    const BlockPlace place = parity ? layout.ParityBlock(at.device, at.row.unit_row, at.row.slice)
                                    : layout.DataBlock(at.device, at.row.unit_row, at.row.slice);
    const std::string& path = parity ? file.sidecar_path : file.path;
    std::set<std::uint32_t>& hit = hit_[{e, at.row.group, at.row.unit_row, at.row.slice}];
    const Bytes before = ReadFile(path);
    if (place.length > 0 && !hit.contains(at.device)) Rot(rng_, path, (parity ? file.parity_base : 0) + place.offset, place.length);
    if (before == ReadFile(path)) return;  // zeros where zeros were
    hit.insert(at.device);
    if (!parity) rotten_.insert({file.path, index});
  }

  struct Where {
    std::size_t ensemble;
    std::uint32_t file;
  };
  Where Of(const std::string& path) const {
    for (std::size_t e = 0; e < view_.ensembles.size(); ++e) {
      for (std::uint32_t f = 0; f < view_.ensembles[e].files.size(); ++f) {
        if (view_.ensembles[e].files[f].path == path) return {e, f};
      }
    }
    ADD_FAILURE() << path;
    return {0, 0};
  }
  bool IsRotten(const std::string& path, std::uint64_t index) const { return rotten_.contains({path, index}); }
  bool CanBeHad(const std::string& path, std::uint64_t index) const {
    const auto [e, f] = Of(path);
    const Layout& layout = *view_.ensembles[e].layout;
    const RowId row = layout.LocateData(f, index).row;
    const auto hit = hit_.find({e, row.group, row.unit_row, row.slice});
    return hit == hit_.end() || hit->second.size() <= layout.parity();
  }
  /// Records that all data blocks of the row of this block were repaired.
  void NoteRepaired(const std::string& path, std::uint64_t index) {
    const auto [e, f] = Of(path);
    const Layout& layout = *view_.ensembles[e].layout;
    const RowId row = layout.LocateData(f, index).row;
    for (const std::uint32_t device : hit_[{e, row.group, row.unit_row, row.slice}]) {
      if (layout.IsParity(device, row.unit_row)) continue;
      rotten_.erase({view_.ensembles[e].files[layout.file_of(device)].path,
                     layout.DataBlock(device, row.unit_row, row.slice).index});
    }
    hit_.erase({e, row.group, row.unit_row, row.slice});
  }
  Bytes Committed(const std::string& path, std::uint64_t index) const {
    const Bytes& all = committed_.at(path).first;
    const std::uint64_t begin = index * sample_.options.block_size;
    const std::uint64_t end = std::min<std::uint64_t>(begin + sample_.options.block_size, all.size());
    return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end)};
  }
  std::uint64_t BlocksOf(const std::string& path) const {
    const auto [e, f] = Of(path);
    return view_.ensembles[e].layout->data_blocks(f);
  }
  std::int64_t MtimeWas(const std::string& path) const { return committed_.at(path).second; }
  const Sample& sample() const { return sample_; }
  std::vector<std::uint64_t> SomeBlocks(const std::string& path) {
    std::vector<std::uint64_t> blocks;
    for (std::uint64_t i = 0; i < BlocksOf(path); ++i) {
      if (IsRotten(path, i) || OneIn(rng_, 4)) blocks.push_back(i);
    }
    return blocks;
  }

 private:
  Rng& rng_;
  Sample sample_;
  std::unique_ptr<Communicator> self_;
  DatasetView view_;
  std::map<std::string, std::pair<Bytes, std::int64_t>> committed_;
  std::map<std::tuple<std::size_t, std::uint32_t, std::uint64_t, std::uint32_t>, std::set<std::uint32_t>> hit_;
  std::set<std::pair<std::string, std::uint64_t>> rotten_;
};

class Heal : public ::testing::TestWithParam<bool> {};

TEST_P(Heal, ReturnsTheCommittedBytes) {
  const bool write = GetParam();
  Rng rng(SeedOf(write ? 71 : 72));
  std::uint64_t healed = 0, lost = 0, repaired = 0;
  for (std::uint64_t round = 0; round < RoundsOf(60); ++round) {
    Scratch scratch;
    Damaged damaged(rng, MakeSample(rng, scratch.path()));
    if (::testing::Test::HasFailure()) return;
    SCOPED_TRACE(fmt::format("round {}: {}", round, damaged.sample().Describe()));
    for (std::uint64_t hits = 1 + Below(rng, 6); hits > 0; --hits) damaged.RotOne();
    const Image before = ImageOf(scratch.path());
    for (const std::string& path : damaged.sample().files) {
      const HealRequest request{.path = path, .blocks = damaged.SomeBlocks(path), .write = write};
      if (request.blocks.empty()) continue;
      const auto result = HealBlocks(PosixFileSystem(), damaged.sample().options, request);
      ASSERT_OK(result);
      ASSERT_EQ(result->blocks.size(), request.blocks.size());
      std::set<std::uint64_t> bad;
      for (const std::uint64_t index : request.blocks) {
        if (damaged.IsRotten(path, index)) bad.insert(index);
      }
      const bool any_lost = std::any_of(request.blocks.begin(), request.blocks.end(), [&](std::uint64_t i) {
        return damaged.IsRotten(path, i) && !damaged.CanBeHad(path, i);
      });
      for (std::size_t i = 0; i < result->blocks.size(); ++i) {
        const HealedBlock& block = result->blocks[i];
        SCOPED_TRACE(fmt::format("{}: block {}", path, block.index));
        EXPECT_EQ(block.index, request.blocks[i]);
        const bool rotten = bad.contains(block.index);
        if (rotten && !damaged.CanBeHad(path, block.index)) {
          EXPECT_EQ(block.verdict, Verdict::kLost);
          EXPECT_NE(block.why, "");
          ++lost;
          continue;
        }
        ASSERT_EQ(block.verdict, Verdict::kAsCommitted);
        EXPECT_EQ(block.bytes, damaged.Committed(path, block.index));
        EXPECT_EQ(block.damaged, rotten);
        // If a dataset cannot be repaired, nothing of it is written.
        EXPECT_EQ(block.repaired, rotten && write && !any_lost);
        healed += rotten;
        repaired += block.repaired;
        if (!block.repaired) continue;
        damaged.NoteRepaired(path, block.index);
        const Bytes now = ReadFile(path);
        const std::uint64_t at = block.index * damaged.sample().options.block_size;
        EXPECT_TRUE(std::equal(block.bytes.begin(), block.bytes.end(), now.begin() + static_cast<std::ptrdiff_t>(at)));
      }
      EXPECT_EQ(MtimeOf(path), damaged.MtimeWas(path));
    }
    if (!write) {
      EXPECT_EQ(Differences(before, ImageOf(scratch.path())), "");
    }
  }
  EXPECT_GT(healed, 20u);
  EXPECT_GT(lost, 5u);
  EXPECT_EQ(repaired > 0, write);
}

INSTANTIATE_TEST_SUITE_P(Modes, Heal, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "OnDisk" : "InMemory"; });

/// A shared file of ten blocks.
class HealOne : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.block_size = 4096;
    options_.group = 4;
    options_.timeout_seconds = 1;
    path_ = scratch_ / "f";
    Rng rng(5);
    committed_ = RandomBytes(rng, 10 * 4096 + 100);
    WriteFile(path_, committed_);
    SetMtime(path_, 1'600'000'000'000'000'000);
    const auto self = SelfCommunicator();
    ASSERT_OK(Protect({PosixFileSystem(), *self, options_}, RefOf(*self, path_, Resolve::kProtectable), {}).status);
  }
  HealedBlock HealBlock(std::uint64_t index, bool write = true) {
    const auto healed = HealBlocks(PosixFileSystem(), options_, {.path = path_, .blocks = {index}, .write = write});
    EXPECT_OK(healed);
    return healed.ok() ? healed->blocks[0] : HealedBlock();
  }
  void RotBlock(std::uint64_t index) {
    Rng rng(index);
    Rot(rng, path_, index * 4096, 10);
  }
  Bytes Committed(std::uint64_t index) const {
    return {committed_.begin() + static_cast<std::ptrdiff_t>(index * 4096),
            committed_.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(committed_.size(), index * 4096 + 4096))};
  }

  Scratch scratch_;
  Options options_;
  std::string path_;
  Bytes committed_;
};

TEST_F(HealOne, AnEditIsNoDamage) {
  WriteAt(path_, 5000, Bytes(10, 7));
  const Bytes edited = ReadFile(path_);
  EXPECT_EQ(HealBlock(1).verdict, Verdict::kNotJudged);
  EXPECT_EQ(HealBlock(2).verdict, Verdict::kAsCommitted) << "what is as committed is right, edit or not";
  EXPECT_EQ(ReadFile(path_), edited);
}

TEST_F(HealOne, BlocksOfAnOpenEpochAreNotJudged) {
  const auto begun = BeginEpoch(PosixFileSystem(), options_, path_, "");
  ASSERT_OK(begun);
  RotBlock(1);  // like a write by another rank before its mtime is known
  const Bytes written = ReadFile(path_);
  EXPECT_EQ(HealBlock(1).verdict, Verdict::kNotJudged);
  EXPECT_EQ(ReadFile(path_), written);
  ASSERT_OK(AbandonEpoch(PosixFileSystem(), options_, path_, *begun));
  EXPECT_EQ(HealBlock(1).verdict, Verdict::kAsCommitted);
}

TEST_F(HealOne, AnIntentForABlockCoversItsWholeRow) {
  const auto sidecar = Sidecar::Load(PosixFileSystem(), *SidecarPath(path_), OpenMode::kReadWrite);
  ASSERT_OK(sidecar);
  const auto layout = LayoutOf((*sidecar)->contents());
  ASSERT_OK(layout);
  const RowId row = layout->LocateData(0, 1).row;
  std::optional<std::uint64_t> mate, stranger;
  for (std::uint64_t i = 2; i < 10; ++i) (layout->LocateData(0, i).row == row ? mate : stranger) = i;
  ASSERT_TRUE(mate && stranger);
  ASSERT_OK((*sidecar)->SetIntent(NewIntent(0, {{*mate * 4096 + 10, 1}})));
  RotBlock(1);
  RotBlock(*stranger);
  EXPECT_EQ(HealBlock(1).verdict, Verdict::kNotJudged);
  const HealedBlock far = HealBlock(*stranger);
  EXPECT_EQ(far.verdict, Verdict::kAsCommitted);
  EXPECT_EQ(far.bytes, Committed(*stranger));
  EXPECT_FALSE(far.repaired) << "while an epoch is open";
}

TEST_F(HealOne, WaitsOnlyShortlyForTheLock) {
  RotBlock(3);
  const auto sidecar = LockSidecar(PosixFileSystem(), *SidecarPath(path_), nullptr, nullptr, 0);
  ASSERT_OK(sidecar);
  options_.timeout_seconds = 0;
  const HealedBlock block = HealBlock(3);
  EXPECT_EQ(block.verdict, Verdict::kAsCommitted);
  EXPECT_EQ(block.bytes, Committed(3));
  EXPECT_TRUE(block.damaged);
  EXPECT_FALSE(block.repaired);
}

TEST_F(HealOne, SeveralThreadsHealOneBlockAtOnce) {
  const std::uint64_t rounds = RoundsOf(40);
  Rng rng(7);
  for (std::uint64_t round = 0; round < rounds && !HasFailure(); ++round) {
    const std::uint64_t block = Below(rng, 10);
    RotBlock(block);
    std::vector<std::thread> healers;
    for (int i = 0; i < 4; ++i) {
      healers.emplace_back([&] { EXPECT_EQ(HealBlock(block).verdict, Verdict::kAsCommitted); });
    }
    for (std::thread& healer : healers) healer.join();
    EXPECT_EQ(ReadFile(path_), committed_) << "round " << round;
    EXPECT_EQ(MtimeOf(path_), 1'600'000'000'000'000'000) << "round " << round;
  }
}

TEST_F(HealOne, BlocksOfAFileThatWasCut) {
  Truncate(path_, 4096 * 10);
  SetMtime(path_, 1'600'000'000'000'000'000);
  const HealedBlock block = HealBlock(10, /*write=*/false);
  EXPECT_EQ(block.verdict, Verdict::kAsCommitted);
  EXPECT_EQ(block.bytes, Committed(10));
  EXPECT_TRUE(HealBlock(10).repaired);
  EXPECT_EQ(ReadFile(path_), committed_);
  EXPECT_EQ(HealBlock(11).verdict, Verdict::kNotJudged) << "behind the end";
}

TEST_F(HealOne, AnotherFileOrAnotherCommitIsNotJudged) {
  RotBlock(1);
  const auto stat = PosixFileSystem().Stat(path_);
  ASSERT_OK(stat);
  HealRequest request{.path = path_, .inode = stat->inode, .blocks = {1}};
  const auto sidecar = Sidecar::Load(PosixFileSystem(), *SidecarPath(path_), OpenMode::kRead);
  ASSERT_OK(sidecar);
  request.uuid = (*sidecar)->contents().superblock.uuid;
  request.generation = (*sidecar)->generation();
  const auto same = HealBlocks(PosixFileSystem(), options_, request);
  ASSERT_OK(same);
  EXPECT_EQ(same->blocks[0].verdict, Verdict::kAsCommitted);
  HealRequest older = request;
  older.generation += 5;
  const auto other = HealBlocks(PosixFileSystem(), options_, older);
  ASSERT_OK(other);
  EXPECT_TRUE(other->other_commit);
  EXPECT_EQ(other->blocks[0].verdict, Verdict::kNotJudged);
  HealRequest replaced = request;
  ++replaced.inode;
  EXPECT_FALSE(HealBlocks(PosixFileSystem(), options_, replaced).ok());
}

TEST_F(HealOne, ARepairThatBrokeOffIsNotFinished) {
  {
    const auto sidecar = Sidecar::Load(PosixFileSystem(), *SidecarPath(path_), OpenMode::kReadWrite);
    ASSERT_OK(sidecar);
    ASSERT_OK((*sidecar)->SetIntent(NewIntent(kIntentRepair, {{4096, 4096}})));
  }
  WriteAt(path_, 9 * 4096, Bytes(10, 7));  // an edit since
  const std::int64_t mtime = MtimeOf(path_);
  RotBlock(1);
  const HealedBlock noted = HealBlock(1);
  EXPECT_EQ(noted.verdict, Verdict::kAsCommitted);
  EXPECT_EQ(noted.bytes, Committed(1));
  EXPECT_FALSE(noted.repaired);
  EXPECT_EQ(MtimeOf(path_), mtime) << "which tells that block 9 is an edit";
  const auto edited = HealBlocks(PosixFileSystem(), options_, {.path = path_, .blocks = {9}, .write = true, .patient = false});
  ASSERT_OK(edited);
  EXPECT_EQ(edited->blocks[0].verdict, Verdict::kNotJudged);
  EXPECT_TRUE(edited->gave_up_waiting);
}

TEST_F(HealOne, AFileWithoutASidecarIsAnError) {
  ASSERT_OK(PosixFileSystem().Remove(*SidecarPath(path_)));
  EXPECT_FALSE(HealBlocks(PosixFileSystem(), options_, {.path = path_, .blocks = {0}, .write = true}).ok());
}

}  // namespace
}  // namespace lzy::testing
