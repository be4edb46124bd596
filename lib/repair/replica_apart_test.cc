// Replicas that only other ranks see. Restores have the same result as with a visible replica, and only copied blocks
// travel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "memory_files.h"
#include "repair/replica.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using FileOp = MemoryFileSystem::Op;

constexpr std::int64_t kProtectedThen = 1'600'000'000'000'000'000;
constexpr std::uint32_t kPageBlock = 4096;
constexpr std::uint64_t kFileBlocks = 60;

/// Node 0 has d/f, which is protected; node 1 has r/f, a copy of it. Inodes are the same on both by chance.
class ReplicaApart : public ::testing::Test {
 protected:
  ReplicaApart() {
    options_.block_size = kPageBlock;
    options_.stripe = 2 * kPageBlock;
    options_.group = 4;
    options_.parity = 1;
    options_.threads = 2;
    options_.timeout_seconds = 0;
  }
  void SetUp() override { Prepare(); }
  void Prepare() {
    bytes_ = RandomBytes(rng_, kFileBlocks * kPageBlock - 100);
    here_.Put("d/f", bytes_, kProtectedThen).stat.mode = 0640;
    ASSERT_OK(Protect({here_, *self_, options_}, File(), {}).status);
    there_.Put("r/f", bytes_);
    committed_ = here_.Copy();
    intact_ = there_.Copy();
    there_.fault = [&](FileOp op, const std::string& path, std::uint64_t, std::uint64_t) {
      if (op != FileOp::kRead && op != FileOp::kSync) ADD_FAILURE() << path << " was written";
      return Status::Ok();
    };
    here_.fault = [&](FileOp op, const std::string&, std::uint64_t, std::uint64_t) {
      if (op != FileOp::kRead) ++written_;
      return Status::Ok();
    };
  }
  static DatasetRef File() { return {DatasetKind::kShared, "d/f", {}}; }

  /// Restores with ranks on these nodes (0 or 1).
  DatasetReport Run(RestoreRequest request = {}, const std::vector<int>& nodes = {0, 1}) {
    request.replica = "r/f";
    written_ = 0;
    traffic_.calls = traffic_.answer_bytes = 0;
    std::vector<DatasetReport> reports(nodes.size());
    std::vector<std::string> names;
    for (const int node : nodes) names.push_back("n" + std::to_string(node));
    RunRanks(static_cast<int>(nodes.size()), [&](Communicator& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      reports[rank] = Restore({nodes[rank] == 0 ? here_ : there_, comm, options_}, File(), request);
    }, names, nullptr, &traffic_);
    for (const DatasetReport& report : reports) {
      EXPECT_EQ(Text(report), Text(reports[0]));
      EXPECT_EQ(report.from_replica, reports[0].from_replica);
      EXPECT_EQ(report.warnings, reports[0].warnings);
    }
    return reports[0];
  }
  static void FlipBlock(MemoryFileSystem& fs, const std::string& path, std::uint64_t block) {
    auto& node = fs.At(path);
    node.bytes.at(block * kPageBlock + 7) ^= 1;
    node.durable.at(block * kPageBlock + 7) ^= 1;
  }
  /// Blocks of the row of block 0.
  std::vector<std::uint64_t> Row() {
    const auto layout = LayoutOf(Sidecar::Load(here_, "d/.LZY.f", OpenMode::kRead).value()->contents()).value();
    std::vector<std::uint64_t> blocks;
    for (std::uint64_t i = 0; i < kFileBlocks; ++i) {
      if (layout.LocateData(0, i).row == layout.LocateData(0, 0).row) blocks.push_back(i);
    }
    return blocks;
  }
  void ExpectRestored(const DatasetReport& report) {
    ASSERT_OK(report.status);
    EXPECT_EQ(ExitCodeOf(report), 0) << Text(report);
    ASSERT_TRUE(here_.Has("d/f"));
    EXPECT_EQ(here_.At("d/f").bytes, bytes_);
    EXPECT_EQ(here_.At("d/f").durable, bytes_);
    EXPECT_EQ(here_.At("d/f").stat.mtime_ns, kProtectedThen);
    EXPECT_EQ(here_.At("d/f").stat.mode & 07777, 0640U);
    EXPECT_EQ(Verify({here_, *self_, options_}, File(), {}).state, DatasetState::kIntact);
    EXPECT_EQ(here_.nodes().size(), committed_.size()) << "debris";
  }

  Rng rng_{1};
  MemoryFileSystem here_, there_;
  Options options_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
  Bytes bytes_;
  std::map<std::string, MemoryFileSystem::Node> committed_, intact_;
  std::atomic<std::uint64_t> written_{0};
  CallTraffic traffic_;
};

TEST_F(ReplicaApart, OnlyWhatIsNeededTravels) {
  const auto row = Row();
  ASSERT_GE(row.size(), 3U);
  for (const std::uint64_t block : row) FlipBlock(here_, "d/f", block);
  FlipBlock(here_, "d/f", row.back() + 2);  // parity can rebuild it
  for (std::uint64_t block = 0; block < kFileBlocks; ++block) {
    if (!std::ranges::count(row, block)) FlipBlock(there_, "r/f", block);
  }
  for (const std::vector<int>& nodes : {std::vector<int>{0, 1}, {1, 0}, {1, 0, 0, 1}}) {
    const auto damaged = here_.Copy();
    const DatasetReport report = Run({}, nodes);
    ExpectRestored(report);
    EXPECT_EQ(report.from_replica, row.size() * kPageBlock);
    EXPECT_GE(traffic_.answer_bytes, row.size() * kPageBlock);
    EXPECT_LE(traffic_.answer_bytes, row.size() * kPageBlock + 200 * traffic_.calls) << "each block once, and a few words with each answer";
    EXPECT_LE(traffic_.calls, 40U);
    here_.Restore(damaged);
  }
}

TEST_F(ReplicaApart, ALostFileComesBackThroughAnyNumberOfRanks) {
  for (const std::vector<int>& nodes : {std::vector<int>{0, 1}, {1, 0, 0}, {0, 0, 1, 0, 1}}) {
    here_.Restore(committed_);
    there_.Restore(intact_);
    ASSERT_OK(here_.Remove("d/f"));
    FlipBlock(there_, "r/f", 3);  // parity can rebuild it from blocks of the replica
    const DatasetReport report = Run({}, nodes);
    ExpectRestored(report);
    // All but block 3, and a few at the end that are alone in their rows: parity has these.
    EXPECT_LE(report.from_replica, bytes_.size() - kPageBlock);
    EXPECT_GE(report.from_replica, bytes_.size() - 4 * kPageBlock);
    EXPECT_GE(traffic_.answer_bytes, report.from_replica);
    EXPECT_LE(traffic_.answer_bytes, report.from_replica + 200 * traffic_.calls);
  }
}

TEST_F(ReplicaApart, ADryRunLetsHashesTravel) {
  ASSERT_OK(here_.Remove("d/f"));
  const DatasetReport report = Run({.dry_run = true});
  EXPECT_EQ(ExitCodeOf(report), 1) << Text(report);
  EXPECT_GE(report.from_replica, bytes_.size() - 3 * kPageBlock);
  EXPECT_EQ(written_, 0U);
  EXPECT_LE(traffic_.answer_bytes, kFileBlocks * 16 + 200 * traffic_.calls);
}

TEST_F(ReplicaApart, IsNotAskedForWhatParityGives) {
  FlipBlock(here_, "d/f", 3);
  ExpectRestored(Run());
  EXPECT_EQ(traffic_.calls, 0U);
}

// A rank that sees both copies, and nothing travels.
TEST_F(ReplicaApart, WhoSeesTheReplicaReadsIt) {
  here_.fault = {};
  here_.Put("r/f", bytes_);
  committed_ = here_.Copy();
  for (const std::uint64_t block : Row()) FlipBlock(here_, "d/f", block);
  FlipBlock(there_, "r/f", 0);
  ExpectRestored(Run());
  EXPECT_EQ(traffic_.calls, 0U);
}

TEST_F(ReplicaApart, WhatNobodySeesIsTold) {
  ASSERT_OK(here_.Remove("d/f"));
  there_.fault = {};
  ASSERT_OK(there_.Remove("r/f"));
  const DatasetReport report = Run();
  EXPECT_EQ(ExitCodeOf(report), 2);
  EXPECT_EQ(written_, 0U);
  EXPECT_THAT(report.warnings, Contains(HasSubstr("the replica cannot be used: r/f")));
  // Before anything is written, if possible.
  RunRanks(2, [&](Communicator& comm) {
    MemoryFileSystem& fs = comm.rank() == 0 ? here_ : there_;
    const auto found = FindReplicas(fs, comm, "d/f", {File()}, "r/f");
    EXPECT_CODE(found.status(), Code::kInvalidArgument);
    EXPECT_THAT(found.status().message(), HasSubstr("--from: r/f: there is no such file or directory"));
    const auto pattern = FindReplicas(fs, comm, "d/s.%r", {{DatasetKind::kSet, "d/s.%r", {}}}, "r/s.%r");
    EXPECT_CODE(pattern.status(), Code::kInvalidArgument);
    EXPECT_THAT(pattern.status().message(), HasSubstr("r/s.%r: nothing matches"));
  });
  there_.Put("r/other", {});
  RunRanks(2, [&](Communicator& comm) {
    const auto found = FindReplicas(comm.rank() == 0 ? here_ : there_, comm, "d/f", {File()}, "r");
    EXPECT_CODE(found.status(), Code::kInvalidArgument);
    EXPECT_THAT(found.status().message(), HasSubstr("r: it has no replica of d/f: there is no r/f"));
  });
}

TEST_F(ReplicaApart, EditsStayUnlessForced) {
  for (const std::uint64_t block : Row()) FlipBlock(here_, "d/f", block);
  here_.At("d/f").stat.mtime_ns += 1;
  const Bytes edited = here_.At("d/f").bytes;
  EXPECT_EQ(ExitCodeOf(Run()), 9);
  EXPECT_EQ(here_.At("d/f").bytes, edited);
  const DatasetReport report = Run({.force = true});
  ASSERT_TRUE(here_.Has("d/f.replaced"));
  EXPECT_EQ(here_.At("d/f.replaced").bytes, edited);
  ASSERT_OK(here_.Remove("d/f.replaced"));
  ExpectRestored(report);
}

// The second read returns other bytes than the first.
TEST_F(ReplicaApart, ChangesMeanwhileAreNotTaken) {
  ASSERT_OK(here_.Remove("d/f"));
  constexpr std::uint64_t kBlock = 4096;
  std::atomic<int> reads = 0;
  there_.fault = [&](FileOp op, const std::string&, std::uint64_t at, std::uint64_t length) {
    // Checks read larger pieces.
    if (op == FileOp::kRead && at == 30 * kBlock && length == kBlock && ++reads == 1) FlipBlock(there_, "r/f", 30);
    return Status::Ok();
  };
  const auto before = here_.Copy();
  const DatasetReport report = Run();
  EXPECT_NE(ExitCodeOf(report), 0);
  EXPECT_THAT(report.status.message(), HasSubstr("r/f: block 30 was right when it was checked and is not any more"));
  EXPECT_FALSE(here_.Has("d/f"));
  EXPECT_EQ(here_.nodes().size(), before.size()) << "debris";
}

TEST_F(ReplicaApart, Sealed) {
  here_.fault = there_.fault = {};
  ASSERT_OK(here_.Remove("d/.LZY.f"));
  options_.key = LeafKey::Make(Bytes(32, 7)).value();
  Prepare();
  ASSERT_OK(here_.Remove("d/f"));
  ExpectRestored(Run());
}

// For any damage, the result is the same as with a visible replica.
TEST_F(ReplicaApart, AnyDamage) {
  int restored = 0, lost = 0;
  for (int round = 0; round < 60; ++round) {
    here_.Restore(committed_);
    there_.Restore(intact_);
    const bool gone = OneIn(rng_, 6);
    for (std::uint64_t i = 1 + Below(rng_, 30); i > 0; --i) FlipBlock(here_, "d/f", Below(rng_, kFileBlocks));
    for (std::uint64_t i = Below(rng_, 30); i > 0; --i) FlipBlock(there_, "r/f", Below(rng_, kFileBlocks));
    if (gone) {
      ASSERT_OK(here_.Remove("d/f"));
    }
    const auto before = here_.Copy();
    const DatasetReport apart = Run({}, round % 2 == 0 ? std::vector<int>{0, 1} : std::vector<int>{1, 0, 0});
    if (ExitCodeOf(apart) == 0) {
      ++restored;
      ExpectRestored(apart);
    } else {
      ++lost;
      for (const auto& [path, node] : before) EXPECT_EQ(node.bytes, here_.At(path).bytes) << path;
    }
    // On one node.
    here_.Restore(before);
    here_.Put("r/f", there_.At("r/f").bytes);
    const DatasetReport together = Restore({here_, *self_, options_}, File(), {.replica = "r/f"});
    EXPECT_EQ(ExitCodeOf(together), ExitCodeOf(apart)) << Text(together) << Text(apart);
    EXPECT_EQ(together.from_replica, apart.from_replica);
    if (HasFailure()) return;
  }
  EXPECT_GT(restored, 10);
  EXPECT_GT(lost, 10);
}

// Each member on a node of its own; the replicas on another one, as on an archive.
TEST_F(ReplicaApart, MembersOfASet) {
  constexpr int kMembers = 5;
  std::vector<MemoryFileSystem> nodes(kMembers + 1);
  MemoryFileSystem& archive = nodes[kMembers];
  std::vector<Bytes> bytes;
  std::vector<std::string> names;
  for (int rank = 0; rank <= kMembers; ++rank) names.push_back("n" + std::to_string(rank));
  for (int rank = 0; rank < kMembers; ++rank) {
    bytes.push_back(RandomBytes(rng_, 60'000 + Below(rng_, 30'000)));
    nodes[static_cast<std::size_t>(rank)].Put("d/m" + std::to_string(rank), bytes.back(), kProtectedThen);
    archive.Put("r/m" + std::to_string(rank), bytes.back(), kProtectedThen);
  }
  options_.group = 5;
  const auto on_nodes = [&](const std::function<void(Communicator&, MemoryFileSystem&)>& work) {
    traffic_.calls = traffic_.answer_bytes = 0;
    RunRanks(kMembers + 1, [&](Communicator& comm) { work(comm, nodes[static_cast<std::size_t>(comm.rank())]); }, names, nullptr, &traffic_);
  };
  const auto ref_of = [&](Communicator& comm, MemoryFileSystem& fs, Resolve what) {
    auto found = ResolvePath(fs, comm, "d/m%r", what);
    EXPECT_OK(found.status());
    return found->at(0);
  };
  on_nodes([&](Communicator& comm, MemoryFileSystem& fs) {
    EXPECT_OK(Protect({fs, comm, options_}, ref_of(comm, fs, Resolve::kProtectable), {}).status);
  });
  ASSERT_OK(nodes[1].Remove("d/m1"));
  ASSERT_OK(nodes[1].Remove("d/.LZY.m1"));  // its root, which the others record, proves the replica
  ASSERT_OK(nodes[2].Remove("d/m2"));
  for (const std::uint64_t at : {7, 50'000}) archive.At("r/m2").bytes[at] ^= 1;
  const auto before = archive.Copy();
  on_nodes([&](Communicator& comm, MemoryFileSystem& fs) {
    const DatasetReport report = Restore({fs, comm, options_}, ref_of(comm, fs, Resolve::kProtected), {.replica = "r/m%r"});
    ASSERT_OK(report.status);
    EXPECT_EQ(report.state, DatasetState::kRestored) << Text(report);
    EXPECT_GT(report.from_replica, 0U);
  });
  EXPECT_LE(traffic_.answer_bytes, bytes[1].size() + bytes[2].size() + 200 * traffic_.calls);
  for (int rank = 0; rank < kMembers; ++rank) {
    int copies = 0;
    for (int node = 0; node < kMembers; ++node) {
      const std::string path = "d/m" + std::to_string(rank);
      if (!nodes[static_cast<std::size_t>(node)].Has(path)) continue;
      ++copies;
      EXPECT_EQ(nodes[static_cast<std::size_t>(node)].At(path).bytes, bytes[static_cast<std::size_t>(rank)]) << rank;
    }
    EXPECT_EQ(copies, 1) << rank;
  }
  for (const auto& [path, node] : before) EXPECT_EQ(archive.At(path).bytes, node.bytes) << path;
  on_nodes([&](Communicator& comm, MemoryFileSystem& fs) {
    EXPECT_EQ(Verify({fs, comm, options_}, ref_of(comm, fs, Resolve::kProtected), {}).state, DatasetState::kIntact);
  });
}

}  // namespace
}  // namespace lzy::testing
