// Restores that take from a replica what parity cannot rebuild: only blocks that are as committed. The replica is never
// written.
#include "repair/replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "memory_files.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using Op = MemoryFileSystem::Op;

constexpr std::int64_t kLongAgo = 1'600'000'000'000'000'000;
constexpr std::uint32_t kBlock = 512;
constexpr std::uint64_t kBlocks = 40;

class ReplicaTest : public ::testing::Test {
 protected:
  ReplicaTest() {
    options_.block_size = kBlock;
    options_.stripe = 2048;
    options_.group = 4;
    options_.parity = 1;
    options_.threads = 2;
    options_.timeout_seconds = 0;
  }
  void SetUp() override {
    bytes_ = RandomBytes(rng_, kBlocks * kBlock - 100);
    fs_.Put("d/f", bytes_, kLongAgo).stat.mode = 0640;
    ASSERT_OK(Protect({fs_, *self_, options_}, Ref(), {}).status);
    fs_.Put("r/f", bytes_);
    committed_ = fs_.Copy();
    fs_.fault = [&](Op op, const std::string& path, std::uint64_t, std::uint64_t) {
      if (op != Op::kRead && path.starts_with("r/")) ADD_FAILURE() << path << " was written";
      if (op != Op::kRead) ++written_;
      return Status::Ok();
    };
  }

  DatasetRef Ref() const { return {DatasetKind::kShared, "d/f", {}}; }
  DatasetReport Run(RestoreRequest request = {}) {
    request.replica = "r/f";
    written_ = 0;
    return Restore({fs_, *self_, options_}, Ref(), request);
  }
  void Flip(const std::string& path, std::uint64_t offset) {
    auto& node = fs_.At(path);
    node.bytes.at(offset) ^= 1;
    node.durable.at(offset) ^= 1;
  }
  void FlipBlock(const std::string& path, std::uint64_t block) { Flip(path, block * kBlock + 7); }
  /// Blocks of the row of block 0, which is whole.
  std::vector<std::uint64_t> Row() {
    const auto layout = LayoutOf(Sidecar::Load(fs_, "d/.LZY.f", OpenMode::kRead).value()->contents()).value();
    std::vector<std::uint64_t> blocks;
    for (std::uint64_t i = 0; i < kBlocks; ++i) {
      if (layout.LocateData(0, i).row == layout.LocateData(0, 0).row) blocks.push_back(i);
    }
    return blocks;
  }
  void ExpectRestored(const DatasetReport& report) {
    ASSERT_OK(report.status);
    EXPECT_EQ(report.state, DatasetState::kRestored) << Text(report);
    EXPECT_EQ(ExitCodeOf(report), 0);
    ASSERT_TRUE(fs_.Has("d/f"));
    EXPECT_EQ(fs_.At("d/f").bytes, bytes_);
    EXPECT_EQ(fs_.At("d/f").durable, bytes_);
    EXPECT_EQ(fs_.At("d/f").stat.mtime_ns, kLongAgo);
    EXPECT_EQ(fs_.At("d/f").stat.mode & 07777, 0640U);
    EXPECT_EQ(Verify({fs_, *self_, options_}, Ref(), {}).state, DatasetState::kIntact);
    EXPECT_EQ(fs_.nodes().size(), committed_.size());
  }

  Rng rng_{1};
  MemoryFileSystem fs_;
  Options options_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
  Bytes bytes_;
  std::map<std::string, MemoryFileSystem::Node> committed_;
  std::atomic<std::uint64_t> written_{0};
};

TEST_F(ReplicaTest, GivesWhatParityCannotAndMayBeDamagedElsewhere) {
  const auto row = Row();
  ASSERT_GE(row.size(), 3U);
  for (const std::uint64_t block : row) FlipBlock("d/f", block);
  for (std::uint64_t block = 0; block < kBlocks; ++block) {
    if (!std::ranges::count(row, block)) FlipBlock("r/f", block);
  }
  const DatasetReport report = Run();
  ExpectRestored(report);
  EXPECT_EQ(report.from_replica, row.size() * kBlock);
  for (const Damage& damage : report.damage) EXPECT_TRUE(damage.repaired);
}

// The replica has all blocks of the row but one. Parity rebuilds that one from the others.
TEST_F(ReplicaTest, ParityGivesWhatTheReplicaDoesNotHave) {
  const auto row = Row();
  for (const std::uint64_t block : row) FlipBlock("d/f", block);
  FlipBlock("r/f", row[1]);
  const DatasetReport report = Run();
  ExpectRestored(report);
  EXPECT_EQ(report.from_replica, (row.size() - 1) * kBlock);
}

TEST_F(ReplicaTest, IsNotAskedForWhatParityGives) {
  FlipBlock("d/f", 3);
  fs_.fault = {};
  ASSERT_OK(fs_.Remove("r/f"));
  committed_.erase("r/f");
  const DatasetReport report = Run();
  ExpectRestored(report);
  EXPECT_EQ(report.from_replica, 0U);
  EXPECT_TRUE(report.warnings.empty());
}

TEST_F(ReplicaTest, AWrongBlockIsNeverTaken) {
  const auto row = Row();
  for (const std::uint64_t block : row) FlipBlock("d/f", block);
  FlipBlock("d/f", row.back() + 1);
  FlipBlock("r/f", row[0]);
  FlipBlock("r/f", row[1]);
  const Bytes before = fs_.At("d/f").bytes;
  DatasetReport report = Run();
  EXPECT_EQ(ExitCodeOf(report), 2) << Text(report);
  EXPECT_EQ(written_, 0U);
  EXPECT_EQ(fs_.At("d/f").bytes, before);
  EXPECT_THAT(report.warnings, Contains(HasSubstr("r/f: it has 1 of 3 blocks")));
  // A salvage takes the blocks that the replica has.
  report = Run({.salvage = true});
  EXPECT_EQ(ExitCodeOf(report), 2) << Text(report);
  for (std::uint64_t block = 0; block < kBlocks; ++block) {
    const std::uint64_t end = std::min<std::uint64_t>((block + 1) * kBlock, bytes_.size());
    const bool right = std::equal(bytes_.begin() + block * kBlock, bytes_.begin() + end, fs_.At("d/f").bytes.begin() + block * kBlock);
    EXPECT_EQ(right, block != row[0] && block != row[1]) << block;
  }
}

TEST_F(ReplicaTest, AWholeFileThatIsLostComesBack) {
  for (const std::uint64_t size : {bytes_.size(), bytes_.size() + 5000}) {
    fs_.Restore(committed_);
    ASSERT_OK(fs_.Remove("d/f"));
    fs_.At("r/f").bytes.resize(size);
    FlipBlock("r/f", 3);
    const DatasetReport report = Run();
    ExpectRestored(report);
    EXPECT_EQ(report.from_replica, bytes_.size() - kBlock);
  }
}

TEST_F(ReplicaTest, ADryRunTellsAndWritesNothing) {
  ASSERT_OK(fs_.Remove("d/f"));
  const DatasetReport report = Run({.dry_run = true});
  EXPECT_EQ(ExitCodeOf(report), 1) << Text(report);
  EXPECT_EQ(report.from_replica, bytes_.size());
  EXPECT_EQ(written_, 0U);
}

TEST_F(ReplicaTest, EditsStayUnlessForced) {
  const auto row = Row();
  for (const std::uint64_t block : row) FlipBlock("d/f", block);
  fs_.At("d/f").stat.mtime_ns += 1;
  const Bytes edited = fs_.At("d/f").bytes;
  EXPECT_EQ(ExitCodeOf(Run()), 9);
  EXPECT_EQ(fs_.At("d/f").bytes, edited);
  const DatasetReport report = Run({.force = true});
  ASSERT_TRUE(fs_.Has("d/f.replaced"));
  EXPECT_EQ(fs_.At("d/f.replaced").bytes, edited);
  ASSERT_OK(fs_.Remove("d/f.replaced"));
  ExpectRestored(report);
}

// One bad sector must not hide them: the file is kept all the same.
TEST_F(ReplicaTest, EditsNearABadSectorAreKept) {
  const auto row = Row();
  for (const std::uint64_t block : row) FlipBlock("d/f", block);
  std::uint64_t other = 0;
  while (std::ranges::find(row, other) != row.end()) ++other;
  fs_.At("d/f").stat.mtime_ns += 1;
  fs_.At("d/f").unreadable = {{other * kBlock, 1}};
  const Bytes edited = fs_.At("d/f").bytes;
  (void)Run({.force = true});
  ASSERT_TRUE(fs_.Has("d/f.replaced"));
  EXPECT_EQ(fs_.At("d/f.replaced").bytes, edited);
  EXPECT_EQ(fs_.At("d/f").bytes, bytes_);
}

TEST_F(ReplicaTest, ItselfIsRefused) {
  const auto row = Row();
  for (const std::uint64_t block : row) FlipBlock("d/f", block);
  RestoreRequest request;
  request.replica = "d/f";
  const DatasetReport report = Restore({fs_, *self_, options_}, Ref(), request);
  EXPECT_CODE(report.status, Code::kInvalidArgument);
  EXPECT_THAT(report.status.message(), HasSubstr("d/f itself"));
}

// For any damage: restored bytes are right, and if not all can be restored, nothing is written. All can be restored if the
// replica has each block that the file lacks.
TEST_F(ReplicaTest, AnyDamage) {
  const auto sidecar = Sidecar::Load(fs_, "d/.LZY.f", OpenMode::kRead).value();
  const std::uint64_t parity = sidecar->ParityFileOffset(0), parity_size = sidecar->contents().superblock.parity_size;
  int restored = 0, lost = 0;
  for (int round = 0; round < 300; ++round) {
    fs_.Restore(committed_);
    std::set<std::uint64_t> here, there;
    const bool gone = OneIn(rng_, 8);
    for (std::uint64_t i = 1 + Below(rng_, 16); i > 0; --i) here.insert(Below(rng_, kBlocks));
    for (std::uint64_t i = Below(rng_, 24); i > 0; --i) there.insert(Below(rng_, kBlocks));
    for (const std::uint64_t block : here) FlipBlock("d/f", block);
    for (const std::uint64_t block : there) FlipBlock("r/f", block);
    if (OneIn(rng_, 2)) Flip("d/.LZY.f", parity + Below(rng_, parity_size));
    if (gone) {
      ASSERT_OK(fs_.Remove("d/f"));
    }
    const auto before = fs_.Copy();
    const DatasetReport report = Run();
    const bool covered = std::ranges::none_of(here, [&](std::uint64_t block) { return there.contains(block); }) && (!gone || there.empty());
    EXPECT_TRUE(!covered || ExitCodeOf(report) == 0) << Text(report);
    if (ExitCodeOf(report) == 0) {
      ++restored;
      ExpectRestored(report);
    } else {
      ++lost;
      EXPECT_EQ(ExitCodeOf(report), 2) << Text(report);
      for (const auto& [path, node] : before) EXPECT_EQ(node.bytes, fs_.At(path).bytes) << path;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(restored, 50);
  EXPECT_GT(lost, 50);
}

class ReplicaOfSet : public ::testing::TestWithParam<int> {};

// More members than parity covers are lost, with their sidecars: their roots, which other members record, prove the
// replica.
TEST_P(ReplicaOfSet, LostMembersComeBack) {
  Scratch scratch;
  Rng rng(5);
  Options options;
  options.block_size = kBlock;
  options.parity = 1;
  options.group = 5;
  std::map<int, Bytes> bytes;
  for (int rank = 0; rank < 5; ++rank) {
    bytes[rank] = RandomBytes(rng, 6000 + Below(rng, 3000));
    const std::string path = scratch / ("m" + std::to_string(rank));
    WriteFile(path, bytes[rank]);
    SetMtime(path, kLongAgo);
    WriteFile(scratch / ("r" + std::to_string(rank)), bytes[rank]);
  }
  const auto alone = SelfCommunicator();
  ASSERT_OK(Protect({PosixFileSystem(), *alone, options}, RefOf(*alone, scratch / "m%r", Resolve::kProtectable), {}).status);
  const auto lose = [&](int rank, bool sidecar) {
    ASSERT_OK(PosixFileSystem().Remove(scratch / ("m" + std::to_string(rank))));
    if (sidecar) {
      ASSERT_OK(PosixFileSystem().Remove(scratch / (".LZY.m" + std::to_string(rank))));
    }
  };
  lose(1, true);
  lose(2, false);
  lose(4, true);
  WriteAt(scratch / "r2", 1000, {1, 2, 3});  // 2 has its hashes: the rest of it is taken
  const Image before = ImageOf(scratch.path());
  RunRanks(GetParam(), [&](Communicator& comm) {
    RestoreRequest request;
    request.replica = scratch / "r%r";
    const DatasetReport report = Restore({PosixFileSystem(), comm, options}, RefOf(comm, scratch / "m%r"), request);
    ASSERT_OK(report.status);
    EXPECT_EQ(report.state, DatasetState::kRestored) << Text(report);
    EXPECT_GT(report.from_replica, 0U);
  });
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(ReadFile(scratch / ("m" + std::to_string(rank))), bytes[rank]) << rank;
    EXPECT_EQ(ReadFile(scratch / ("r" + std::to_string(rank))), before.at(scratch / ("r" + std::to_string(rank))).bytes);
  }
  EXPECT_EQ(Verify({PosixFileSystem(), *alone, options}, RefOf(*alone, scratch / "m%r"), {}).state, DatasetState::kIntact);
}
INSTANTIATE_TEST_SUITE_P(Ranks, ReplicaOfSet, ::testing::Values(1, 2, 5));

TEST(ReplicaNames, AreTheSameBelowTheDirectory) {
  const auto shared = [](const std::string& path) { return DatasetRef{DatasetKind::kShared, path, {}}; };
  const auto set = [](const std::string& path) { return DatasetRef{DatasetKind::kSet, path, {}}; };
  EXPECT_EQ(ReplicaBelow("b", "a/", true, shared("a/x/y")).value(), "b/x/y");
  EXPECT_EQ(ReplicaBelow("b", ".", true, shared("x/y")).value(), "b/x/y");
  EXPECT_EQ(ReplicaBelow("b", "/a", true, set("/a/n%r/s")).value(), "b/n%r/s");
  EXPECT_EQ(ReplicaBelow("b", "a/x/y", false, shared("a/x/y")).value(), "b/y");
  EXPECT_EQ(ReplicaBelow("b", "a/n%r/s", false, set("a/n%r/s")).value(), "b/n%r/s");
  EXPECT_EQ(ReplicaBelow("b", "a/n3/s", false, set("a/n%r/s")).value(), "b/n%r/s");
  EXPECT_EQ(ReplicaBelow("b", "a/step*/s.%r", false, set("a/step5/s.%r")).value(), "b/step5/s.%r");
  EXPECT_CODE(ReplicaBelow("b", "a", true, shared("c/x")).status(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace lzy::testing
