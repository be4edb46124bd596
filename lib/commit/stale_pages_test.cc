// Commits of files that several nodes write, on a file system of which each node keeps pages (and names) that others have changed
// since. Whatever a node's page cache has: hashes and parity are of the bytes that are in the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "commit/check_written.h"
#include "commit/epoch.h"
#include "commit/protect.h"
#include "dataset/seen_late.h"
#include "dataset/view.h"
#include "encode/capture.h"
#include "engine/engine.h"
#include "engine_fixture.h"
#include "stale_pages.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

class StalePages : public ::testing::Test {
 protected:
  /// `per_node`: ranks of a node. `looks`, `contents`: NodeFileSystem::SeeLate.
  void Mount(int nodes, int per_node, bool stale_names, int looks = 0, bool contents = false) {
    nodes_.clear();
    for (int n = 0; n < nodes; ++n) {
      nodes_.push_back(std::make_unique<NodeFileSystem>(server_, 10 + static_cast<std::uint64_t>(n), stale_names));
      nodes_.back()->SeeLate(looks, contents);
    }
    ranks_ = nodes * per_node;
  }
  NodeFileSystem& NodeOf(int rank) { return *nodes_[static_cast<std::size_t>(rank) % nodes_.size()]; }

  /// The operation on all ranks, each on its node; the report of rank 0.
  template <class Fn>
  DatasetReport OnAll(const Fn& fn) {
    DatasetReport first;
    RunRanks(ranks_, [&](Communicator& comm) {
      const DatasetReport report = fn(Context{NodeOf(comm.rank()), comm, options_});
      if (comm.rank() == 0) first = report;
    });
    return first;
  }

  /// The ranks write records of `size` bytes in turns, as one epoch, and sync. Some of them read the file meanwhile.
  void WriteRecords(std::uint64_t size, std::uint64_t total) {
    ASSERT_OK(BeginEpoch(NodeOf(0), options_, kPath, ""));
    touched_.assign(static_cast<std::size_t>(ranks_), {});
    std::vector<std::uint64_t> records((total + size - 1) / size);
    std::iota(records.begin(), records.end(), 0);
    if (OneIn(rng_, 2)) std::ranges::shuffle(records, rng_);
    for (const std::uint64_t record : records) {
      const auto rank = static_cast<int>(record % static_cast<std::uint64_t>(ranks_));
      const auto file = NodeOf(rank).Open(kPath, OpenMode::kReadWrite, true, 0600);
      ASSERT_OK(file);
      const std::uint64_t at = record * size, length = std::min(size, total - at);
      if (OneIn(rng_, 4)) {
        Bytes bytes(size);
        (void)(*file)->ReadAt(Below(rng_, total), bytes);
      }
      const Bytes bytes = RandomBytes(rng_, length);
      ASSERT_OK((*file)->WriteAt(at, bytes));
      ASSERT_OK((*file)->Sync());
      if (!captures_.empty()) captures_[static_cast<std::size_t>(rank)]->Take(at, bytes, record + 1);
      touched_[static_cast<std::size_t>(rank)][0].Add({at, at + length});
    }
  }

  DatasetReport Commit() {
    return OnAll([&](const Context& context) {
      ProtectRequest request;
      request.touched = touched_[static_cast<std::size_t>(context.comm.rank())];
      return Protect(context, kRef, request);
    });
  }

  /// As verify-writes looks at it.
  std::uint64_t FaultsOfWrites(std::uint64_t generation) { return CheckOfWrites(generation).faults; }
  WrittenCheck CheckOfWrites(std::uint64_t generation) {
    std::map<std::uint32_t, IntervalSet> all;
    for (const auto& one : touched_) {
      if (const auto at = one.find(0); at != one.end()) all[0].Add(at->second.intervals());
    }
    WrittenCheck first;
    RunRanks(ranks_, [&](Communicator& comm) {
      const Capture* const capture = captures_.empty() ? nullptr : captures_[static_cast<std::size_t>(comm.rank())].get();
      const auto checked = CheckWritten(Context{NodeOf(comm.rank()), comm, options_}, {kRef, all, generation, capture});
      ASSERT_OK(checked);
      if (comm.rank() == 0) first = *checked;
    });
    return first;
  }

  /// What is in the file system itself is intact, and has the root of these bytes protected alone.
  void ExpectTruth(const DatasetReport& made, const std::string& what) {
    ASSERT_TRUE(made.status.ok()) << what << ": " << Text(made);
    const auto self = SelfCommunicator();
    const DatasetReport found = Verify(Context{server_, *self, options_}, kRef, {});
    EXPECT_EQ(ExitCodeOf(found), 0) << what << ": " << Text(found);
    EXPECT_TRUE(found.damage.empty()) << what << ": " << Text(found);
    MemoryFileSystem elsewhere;
    elsewhere.Put(kPath, server_.At(kPath).bytes);
    EXPECT_EQ(made.root, Protect(Context{elsewhere, *self, options_}, kRef, {}).root) << what;
  }

  std::uint64_t StaleReadings() const {
    return std::transform_reduce(nodes_.begin(), nodes_.end(), std::uint64_t{0}, std::plus<>(),
                                 [](const auto& node) { return node->stale_readings(); });
  }

  static constexpr const char* kPath = "d/f";
  const DatasetRef kRef{DatasetKind::kShared, kPath, {}};
  Rng rng_{SeedOf(41)};
  MemoryFileSystem server_;
  std::vector<std::unique_ptr<NodeFileSystem>> nodes_;
  int ranks_ = 0;
  Options options_;
  std::vector<std::map<std::uint32_t, IntervalSet>> touched_;
  std::vector<std::unique_ptr<Capture>> captures_;  // by rank; none: not captured
};

// As on two mounts of GlusterFS: alternate records in one block, twice.
TEST_F(StalePages, ACommitIsOfTheBytesInTheFileAndNotOfThoseInOnesOwnPageCache) {
  options_.block_size = 65536;
  Mount(2, 1, /*stale_names=*/false);
  server_.Put(kPath, {});
  for (int epoch = 0; epoch < 2; ++epoch) {
    WriteRecords(100, 65536);
    const DatasetReport made = Commit();
    ExpectTruth(made, fmt::format("epoch {}", epoch));
    EXPECT_EQ(FaultsOfWrites(made.generation), 0u);
  }
}

TEST_F(StalePages, RandomEpochs) {
  const std::uint64_t rounds = RoundsOf(kSanitized ? 10 : 40);
  for (std::uint64_t round = 0; round < rounds && !HasFailure(); ++round) {
    options_ = Options();
    options_.block_size = OneIn(rng_, 3) ? kAutomaticBlockSize : 512u << Below(rng_, 5);
    options_.parity = static_cast<std::uint32_t>(Below(rng_, 3));
    options_.group = options_.parity + 2 + static_cast<std::uint32_t>(Below(rng_, 4));
    options_.threads = 1 + static_cast<std::uint32_t>(Below(rng_, 2));
    if (OneIn(rng_, 2)) options_.memory = 1u << 18;  // parity of more than 4 KiB is written by all ranks
    Mount(2 + static_cast<int>(Below(rng_, 2)), 1 + static_cast<int>(Below(rng_, 2)), /*stale_names=*/OneIn(rng_, 2),
          /*looks=*/OneIn(rng_, 4) ? 2 : 0, /*contents=*/OneIn(rng_, 2));
    server_.Restore({});
    server_.Put(kPath, RandomBytes(rng_, Below(rng_, 50000)));
    for (int epoch = 0; epoch < 3; ++epoch) {
      WriteRecords(1 + Below(rng_, 3000), 1 + Below(rng_, 80000));
      const DatasetReport made = Commit();
      ExpectTruth(made, fmt::format("round {}, epoch {}", round, epoch));
      EXPECT_EQ(FaultsOfWrites(made.generation), 0u) << round;
    }
  }
}

// Nobody knows who wrote the file.
TEST_F(StalePages, RanksOfAToolOnSeveralNodesReadWhatIsInTheFile) {
  options_.block_size = 4096;
  Mount(3, 1, /*stale_names=*/false);
  server_.Put(kPath, RandomBytes(rng_, 100000));
  for (int again = 0; again < 3; ++again) {
    WriteRecords(700, 100000);
    ExpectTruth(OnAll([&](const Context& context) { return Protect(context, kRef, {}); }), fmt::format("{}", again));
  }
}

// Members of a set that ranks of several nodes see.
TEST_F(StalePages, RanksOfAToolOnSeveralNodesReadMembersOfASet) {
  Mount(3, 1, /*stale_names=*/false);
  DatasetRef set{DatasetKind::kSet, "d/s.%r", {}};
  for (std::uint32_t r = 0; r < 3; ++r) {
    set.members[r] = fmt::format("d/s.{}", r);
    server_.Put(set.members[r], RandomBytes(rng_, 50000 + r));
  }
  const auto self = SelfCommunicator();
  for (int again = 0; again < 3; ++again) {
    for (const auto& [rank, path] : set.members) {
      for (int writer : {0, 1, 2}) {  // each node keeps a page of which others write the rest
        const auto file = NodeOf(writer).Open(path, OpenMode::kReadWrite, true, 0600);
        ASSERT_OK(file);
        for (std::uint64_t at = 100 * static_cast<std::uint64_t>(writer); at + 100 < 50000; at += 300) {
          ASSERT_OK((*file)->WriteAt(at, RandomBytes(rng_, 100)));
        }
      }
    }
    const DatasetReport made = OnAll([&](const Context& context) { return Protect(context, set, {}); });
    EXPECT_EQ(ExitCodeOf(made), 0) << Text(made);
    const DatasetReport found = Verify(Context{server_, *self, options_}, set, {});
    EXPECT_EQ(ExitCodeOf(found), 0) << Text(found);
  }
}

// verify-writes, where a reading past the page cache was wrong, too. What the ranks wrote is there, and counts more than a leaf that
// was read back: nothing is to be repaired.
TEST_F(StalePages, ALeafThatWasReadBackDoesNotOverruleWhatRanksWrote) {
  options_.block_size = 65536;
  options_.verify_writes = true;
  Mount(2, 1, /*stale_names=*/false);
  const auto honest = [](auto, const auto&, auto, auto, auto) { return MemoryFileSystem::Lie(); };
  server_.lie = honest;  // what was there before is kept
  server_.Put(kPath, {});
  WriteRecords(100, 65536);
  ASSERT_OK(Commit().status);
  captures_.clear();
  for (int rank = 0; rank < ranks_; ++rank) {
    auto capture = Capture::Create({.parameters = SharedGeometry(options_, 65536), .memory = 16u << 20, .hold = 8u << 20, .compare = true});
    ASSERT_OK(capture);
    captures_.push_back(std::move(*capture));
  }
  WriteRecords(100, 65536);
  server_.lie = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t, bool) {
    MemoryFileSystem::Lie lie;
    if (op == MemoryFileSystem::Op::kRead && path == kPath) lie.kind = MemoryFileSystem::Lie::Kind::kStale;
    return lie;
  };
  const DatasetReport made = Commit();
  server_.lie = honest;
  ASSERT_OK(made.status);
  for (const auto& capture : captures_) capture->CloseOpen([](std::uint64_t) { return Capture::Fate::kCaptured; });
  const WrittenCheck found = CheckOfWrites(made.generation);
  EXPECT_EQ(found.faults, 0u);
  EXPECT_EQ(found.untrue_leaves, 1u);
  // A byte that differs is a fault, whatever the leaf.
  server_.At(kPath).bytes[12345] ^= 1;
  EXPECT_GT(CheckOfWrites(made.generation).faults, 0u);
}

// What another node has added is not there yet for this one, and then not as it is.
TEST_F(StalePages, SizesAndSmallContentsThatANodeSeesLateAreWaitedFor) {
  for (const bool contents : {false, true}) {
    options_.block_size = 4096;
    Mount(2, 1, /*stale_names=*/false, /*looks=*/2, contents);
    server_.Restore({});
    server_.Put(kPath, {});
    ASSERT_OK(NodeOf(1).Open(kPath, OpenMode::kRead, true, 0600).value()->Stat());
    for (int epoch = 0; epoch < 2; ++epoch) {
      WriteRecords(100, 65536);
      const DatasetReport made = Commit();
      ExpectTruth(made, fmt::format("contents {}, epoch {}", contents, epoch));
      EXPECT_EQ(FaultsOfWrites(made.generation), 0u);
    }
  }
}

// A node other than the owner's has just written a member, and the owner's node still shows the old size.
TEST_F(StalePages, SizesOfMembersThatTheirOwnersNodeSeesLateAreWaitedFor) {
  const auto self = SelfCommunicator();
  DatasetRef set{DatasetKind::kSet, "d/s.%r", {}};
  for (std::uint32_t r = 0; r < 3; ++r) set.members[r] = fmt::format("d/s.{}", r);
  for (const bool is_protected : {false, true}) {
    server_.Restore({});
    for (const auto& [rank, path] : set.members) server_.Put(path, RandomBytes(rng_, 20000 + rank));
    Mount(3, 1, /*stale_names=*/false, /*looks=*/3);
    if (is_protected) {
      const DatasetReport made = OnAll([&](const Context& context) { return Protect(context, set, {}); });
      ASSERT_EQ(ExitCodeOf(made), 0) << Text(made);
    }
    for (const auto& [rank, path] : set.members) {
      for (int node = 0; node < 3; ++node) ASSERT_OK(NodeOf(node).Open(path, OpenMode::kRead, true, 0600).value()->Stat());
      const auto file = NodeOf(static_cast<int>(rank) + 1).Open(path, OpenMode::kReadWrite, true, 0600);
      ASSERT_OK(file);
      ASSERT_OK((*file)->WriteAt(100, RandomBytes(rng_, 30000)));
    }
    const DatasetReport made = OnAll([&](const Context& context) { return Protect(context, set, {}); });
    EXPECT_EQ(ExitCodeOf(made), 0) << Text(made);
    const DatasetReport found = Verify(Context{server_, *self, options_}, set, {});
    EXPECT_EQ(ExitCodeOf(found), 0) << is_protected << ": " << Text(found);
    EXPECT_EQ(found.bytes, 3u * 30100) << "all of it";
  }
}

// If ranks never see the same time, later commits wait less for it.
TEST_F(StalePages, CommitsWaitLessEachTimeThatItWasInVain) {
  options_.block_size = 4096;
  Mount(2, 1, /*stale_names=*/false, /*looks=*/1 << 20);
  server_.now = [time = CoarseNowNs()]() mutable { return time += 10'000'000; };  // no two writings at one time
  server_.Put(kPath, RandomBytes(rng_, 20000));
  // One rank that has waited four times makes the others hurry, too.
  for (int time = 0; time < 4; ++time) NodeOf(1).Memo<PatienceOf>().Note("d", /*seen_alike=*/false);
  std::vector<std::uint64_t> looks;
  for (int commit = 0; commit < 4; ++commit) {
    WriteRecords(700, 20000);
    const std::uint64_t before = NodeOf(0).refreshes();
    EXPECT_OK(Commit().status);
    looks.push_back(NodeOf(0).refreshes() - before);
  }
  EXPECT_EQ(looks[0], looks[1] + 1);
  EXPECT_EQ(looks[1], looks[2] + 1);
  EXPECT_EQ(looks[2], looks[3]) << "one look is left";
}

TEST_F(StalePages, PatienceIsHalvedInVainAndComesBack) {
  PatienceOf patience;
  std::chrono::milliseconds all{0};
  for (int commit = 0; commit < 1000; ++commit) {
    all += patience.Longest("d");
    patience.Note("d", /*seen_alike=*/false);
  }
  EXPECT_LE(all, 2 * PatienceOf::kLongest + std::chrono::milliseconds(1000));
  EXPECT_EQ(patience.Longest("d"), std::chrono::milliseconds(1)) << "one look is left";
  EXPECT_EQ(patience.Longest("e"), PatienceOf::kLongest);
  patience.Note("d", /*seen_alike=*/true);
  EXPECT_EQ(patience.Longest("d"), PatienceOf::kLongest);
}

// The bytes are here before their time is. What looks like rot is an edit, and no repair may undo it.
TEST_F(StalePages, AnEditOfAnotherNodeIsNotTakenForRot) {
  options_.block_size = 4096;
  options_.parity = 1;
  Mount(2, 1, /*stale_names=*/false, /*looks=*/2);
  const auto self = SelfCommunicator();
  const Context here{NodeOf(0), *self, options_}, there{NodeOf(1), *self, options_};
  server_.Put(kPath, RandomBytes(rng_, 50000));
  ASSERT_OK(Protect(here, kRef, {}).status);
  EXPECT_EQ(ExitCodeOf(Verify(there, kRef, {.from_disk = true})), 0);
  const Bytes edit = RandomBytes(rng_, 10);
  ASSERT_OK(NodeOf(0).Open(kPath, OpenMode::kReadWrite, true, 0600).value()->WriteAt(20000, edit));
  const Bytes edited = server_.At(kPath).bytes;
  const DatasetReport found = Verify(there, kRef, {.from_disk = true});
  EXPECT_EQ(ExitCodeOf(found), 9) << Text(found);
  ASSERT_OK(NodeOf(0).Open(kPath, OpenMode::kReadWrite, true, 0600).value()->WriteAt(30000, edit));
  const Bytes again = server_.At(kPath).bytes;
  for (const bool restore : {false, true}) {
    const DatasetReport repaired = restore ? Restore(there, kRef, {}) : Verify(there, kRef, {.from_disk = true, .repair = true});
    EXPECT_EQ(ExitCodeOf(repaired), 9) << Text(repaired);
    EXPECT_EQ(server_.At(kPath).bytes, again);
  }
}

// A node that sees late what another one has committed says nothing of damage, and finds what has rotted.
TEST_F(StalePages, WhatAnotherNodeHasCommittedIsIntactHere) {
  options_.block_size = 4096;
  options_.parity = 1;
  for (const bool names : {false, true}) {
    for (const auto& [looks, contents] : {std::pair(0, false), {2, false}, {2, true}}) {
      if (!names && looks == 0) continue;  // pages that no time tells of
      Mount(2, 1, names, looks, contents);
      const auto self = SelfCommunicator();
      const Context here{NodeOf(0), *self, options_}, there{NodeOf(1), *self, options_};
      server_.Restore({});
      server_.Put(kPath, RandomBytes(rng_, 50000));
      ASSERT_OK(Protect(here, kRef, {}).status);
      EXPECT_EQ(ExitCodeOf(Verify(there, kRef, {})), 0);
      for (int commit = 0; commit < 2; ++commit) {
        const auto file = NodeOf(0).Open(kPath, OpenMode::kReadWrite, true, 0600);
        ASSERT_OK(file);
        ASSERT_OK(BeginEpoch(NodeOf(0), options_, kPath, ""));
        ASSERT_OK((*file)->WriteAt(Below(rng_, 40000), RandomBytes(rng_, 5000)));
        EXPECT_THAT(ExitCodeOf(Verify(there, kRef, {})), ::testing::AnyOf(0, 9));  // as it was, or at risk
        ASSERT_OK(Protect(here, kRef, {}).status);
        const DatasetReport found = Verify(there, kRef, {});
        EXPECT_EQ(ExitCodeOf(found), 0) << Text(found);
        EXPECT_TRUE(found.damage.empty()) << Text(found);
      }
      server_.At(kPath).bytes[12345] ^= 1;
      const auto alone = SelfCommunicator();
      EXPECT_EQ(ExitCodeOf(Verify(Context{server_, *alone, options_}, kRef, {})), 1);
    }
  }
}

// Nodes that write to one small file at the same time wait for each other, on some file systems for half a minute.
TEST_F(StalePages, SmallParityIsWrittenByOneNode) {
  options_.block_size = 4096;
  Mount(3, 2, /*stale_names=*/true);
  server_.Put(kPath, {});
  for (int epoch = 0; epoch < 3; ++epoch) {
    WriteRecords(700, 300000);
    ExpectTruth(Commit(), fmt::format("epoch {}", epoch));
    EXPECT_EQ(NodeOf(1).sidecar_writes() + NodeOf(2).sidecar_writes(), 0u);
  }
  options_.memory = 1u << 18;
  WriteRecords(700, 300000);
  ExpectTruth(Commit(), "all write");
  EXPECT_GT(NodeOf(1).sidecar_writes(), 0u);
}

// The fast path: one page cache has what all ranks wrote, and is read.
TEST_F(StalePages, RanksOfOneNodeReadThroughTheirPageCache) {
  options_.block_size = 4096;
  Mount(1, 3, /*stale_names=*/false);
  server_.Put(kPath, {});
  WriteRecords(100, 60000);
  server_.uncached_reads = 0;
  const DatasetReport made = Commit();
  EXPECT_EQ(server_.uncached_reads, 0u);
  ExpectTruth(made, "one node");
  EXPECT_EQ(StaleReadings(), 0u);
}

}  // namespace
}  // namespace lzy::testing
