// File systems whose times are whole seconds, and whose clock differs from that of this node: edits right after a commit,
// and stamps that are renewed when the content is proven.
#include <gtest/gtest.h>

#include <string>

#include "misfortune_fixture.h"
#include "sidecar/sidecar.h"

namespace lzy::testing {
namespace {

/// The clock of the file system is years behind that of the node, or an hour ahead. It stands still.
class CoarseClockTest : public MisfortuneTest, public ::testing::WithParamInterface<std::tuple<bool, std::uint32_t>> {
 protected:
  CoarseClockTest() {
    options_.compact = std::get<0>(GetParam());
    fs_.now = [this] { return clock_ / tick_ * tick_; };
  }
  /// Protects files that were written `age` ticks ago.
  void MakeNow(std::int64_t age = 0) {
    NameFiles(std::get<1>(GetParam()));
    for (std::uint32_t r = 0; r < paths_.size(); ++r) {
      fs_.Put(paths_[r], RandomBytes(rng_, 24 * kBlock - 100 * r - 7), fs_.now() - age * tick_);
    }
    ASSERT_OK(Protect(Here(), ref_, {}).status);
    committed_ = fs_.Copy();
    root_ = Check().root;
  }
  void Tick() { clock_ += tick_; }
  void Rot(std::uint32_t r = 0) { Data(r).bytes[5 * kBlock] ^= 1; }
  void ExpectRotIsRepaired() {
    Rot();
    const DatasetReport found = Check();
    EXPECT_EQ(StateOf(found), "damaged") << Text(found);
    EXPECT_EQ(ExitCodeOf(Repair()), 0);
    for (const std::string& path : paths_) EXPECT_EQ(fs_.At(path).bytes, committed_.at(path).bytes) << path;
    ExpectIntact();
  }
  /// As files from an archive with times of whole seconds.
  void Unpack() {
    for (const std::string& path : paths_) {
      auto& stat = fs_.At(path).stat;
      stat.mtime_ns = stat.mtime_ns / kNsPerSecond * kNsPerSecond - kNsPerSecond;
      stat.inode += 1000;
      stat.birth_ns += 1000;
    }
  }

  std::int64_t tick_ = kNsPerSecond;
  std::int64_t clock_ = kPast + 300'000'000;
};

INSTANTIATE_TEST_SUITE_P(All, CoarseClockTest, ::testing::Combine(::testing::Bool(), ::testing::Values(0u, 4u)));

class CoarseSetTest : public CoarseClockTest {};

INSTANTIATE_TEST_SUITE_P(All, CoarseSetTest, ::testing::Combine(::testing::Bool(), ::testing::Values(4u)));

TEST_P(CoarseClockTest, EditsWithinTheTickOfTheCommitAreKept) {
  for (const std::int64_t tick : {kNsPerSecond, 2 * kNsPerSecond}) {
    tick_ = tick;
    MakeNow();
    Write(0, 3 * kBlock, Bytes(10, 0xee));
    ExpectLeftAlone("stale", Bytes(Data().bytes));
    Tick();
    ExpectLeftAlone("stale", Bytes(Data().bytes));
  }
}

TEST_P(CoarseSetTest, SuchAnEditIsKeptIfTheMembersSidecarIsLost) {
  MakeNow();
  Write(0, 3 * kBlock, Bytes(10, 0xee));
  const Bytes edited = Data().bytes;
  ASSERT_OK(fs_.Remove(*SidecarPath(paths_[0])));
  Tick();
  EXPECT_NE(ExitCodeOf(Restore(Here(), Ref(), {})), 0);
  EXPECT_EQ(Data().bytes, edited);
}

// The clock of the server is an hour ahead of that of the node. That makes no stamp racy.
TEST_P(CoarseClockTest, RotIsFoundWhereTheServersClockIsAhead) {
  clock_ = CoarseNowNs() + 3600 * kNsPerSecond;
  MakeNow(1);
  ExpectRotIsRepaired();
}

// It is some seconds ahead or behind. For any difference, an edit is an edit, also right after the commit, and rot is rot.
TEST_P(CoarseClockTest, VerdictsAreTheSameIfTheServersClockDiffersBySeconds) {
  for (const std::int64_t tick : {kNsPerSecond / 1000, kNsPerSecond}) {
    for (const std::int64_t ahead : {-5, -1, 1, 5}) {
      SCOPED_TRACE(::testing::Message() << "tick " << tick << ", " << ahead << " s ahead");
      tick_ = tick;
      clock_ = CoarseNowNs() + ahead * kNsPerSecond;
      MakeNow(1);
      ExpectIntact();
      Write(0, 3 * kBlock, Bytes(10, 0xee));
      ExpectLeftAlone("stale", Bytes(Data().bytes));
      MakeNow(1);
      ExpectRotIsRepaired();
      if (tick < kNsPerSecond) continue;
      MakeNow();  // written within the tick of the commit
      Write(0, 3 * kBlock, Bytes(10, 0xee));
      ExpectLeftAlone("stale", Bytes(Data().bytes));
    }
  }
}

// The mtime that the sidecar gets after the last read would be wrong here: it is later than the edit that was not read.
TEST_P(CoarseClockTest, AnEditBetweenTheReadAndTheSidecarIsKept) {
  NameFiles(std::get<1>(GetParam()));
  for (const std::string& path : paths_) fs_.Put(path, RandomBytes(rng_, 24 * kBlock));
  bool edited = false;
  fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
    if (op == MemoryFileSystem::Op::kSync && path == paths_[0] && !edited) {
      edited = true;
      Data().bytes[9 * kBlock] ^= 1;
      Data().stat.mtime_ns = fs_.now();
      Tick();
    }
    return Status::Ok();
  };
  ASSERT_OK(Protect(Here(), ref_, {}).status);
  fs_.fault = nullptr;
  ASSERT_TRUE(edited);
  ExpectLeftAlone("stale", Bytes(Data().bytes));
}

TEST_P(CoarseClockTest, ARacyStampIsRenewedWhenTheContentIsProven) {
  for (const bool by_protect : {false, true}) {
    MakeNow();
    Tick();
    EXPECT_EQ(Check().stamps, StampNote::kRacy);
    const DatasetReport renewed = by_protect ? Protect(Here(), Ref(), {}) : Repair();
    EXPECT_EQ(ExitCodeOf(renewed), 0) << Text(renewed);
    EXPECT_EQ(renewed.stamps == StampNote::kTaken, !by_protect);
    EXPECT_EQ(Check().stamps, StampNote::kNone);
    EXPECT_FALSE(Protect(Here(), Ref(), {}).committed) << "it is up to date";
    ExpectDataAsCommitted();
    ExpectRotIsRepaired();
  }
}

TEST_P(CoarseClockTest, WithinTheSameTickNothingIsRenewed) {
  MakeNow();
  EXPECT_EQ(Repair().stamps, StampNote::kNone);
  ExpectBytes(committed_);
}

// Commits of touched rows prove nothing about the other rows.
TEST_P(CoarseClockTest, AnEditIsKeptThroughTheNextEpochs) {
  MakeNow();
  Write(0, 9 * kBlock, Bytes(10, 0xee));
  const bool set = std::get<1>(GetParam()) > 0;
  for (const std::uint64_t block : {2, 4}) {
    Tick();
    ProtectRequest request;
    request.touched.emplace();
    for (std::uint32_t r = 0; r < paths_.size(); ++r) {
      ASSERT_OK(BeginEpoch(fs_, options_, paths_[r], set ? ref_.path : ""));
      Write(r, block * kBlock, Bytes(kBlock, 0xaa));
      (*request.touched)[r].Add({block * kBlock, (block + 1) * kBlock});
    }
    Tick();
    ASSERT_OK(Protect(Here(), ref_, request).status);
  }
  ExpectLeftAlone("stale", Bytes(Data().bytes));
  EXPECT_EQ(ExitCodeOf(Protect(Here(), Ref(), {})), 0);
  EXPECT_EQ(StateOf(Check()), "intact");
  committed_ = fs_.Copy();
  root_ = Check().root;
  ExpectRotIsRepaired();
}

TEST_P(CoarseClockTest, NewTimesAreTakenWhenTheContentIsProven) {
  for (const bool by_protect : {false, true}) {
    tick_ = 1;
    MakeNow(5'000'000'000);
    Unpack();
    const auto unpacked = fs_.Copy();
    const DatasetReport found = Check();
    EXPECT_EQ(found.stamps, StampNote::kTimesDiffer);
    EXPECT_EQ(ExitCodeOf(found), 0);
    ExpectBytes(unpacked);
    EXPECT_EQ(ExitCodeOf(by_protect ? Protect(Here(), Ref(), {}) : Repair()), 0);
    for (const std::string& path : paths_) {
      EXPECT_EQ(fs_.At(path).bytes, unpacked.at(path).bytes);
      EXPECT_EQ(fs_.At(path).stat.mtime_ns, unpacked.at(path).stat.mtime_ns);
    }
    EXPECT_EQ(Check().stamps, StampNote::kNone);
    ExpectRotIsRepaired();
    if (paths_.size() == 1) continue;
    LoseMember(1);
    EXPECT_EQ(ExitCodeOf(Restore(Here(), Ref(), {})), 0);
    ExpectIntact();
    Rot(1);
    EXPECT_EQ(StateOf(Check()), "damaged");
  }
}

// Each rank renews the stamps of its members, and all ranks get the same report.
TEST_P(CoarseClockTest, RanksRenewTheirStamps) {
  tick_ = 1;
  MakeNow(5'000'000'000);
  Unpack();
  RunRanks(3, [&](Communicator& comm) {
    DatasetRef ref = ref_;
    std::erase_if(ref.members, [&](const auto& m) { return static_cast<int>(m.first) % 3 != comm.rank(); });
    VerifyRequest request;
    const Context context{fs_, comm, options_};
    EXPECT_EQ(Verify(context, ref, request).stamps, StampNote::kTimesDiffer);
    request.repair = true;
    EXPECT_EQ(Verify(context, ref, request).stamps, StampNote::kTaken);
    EXPECT_EQ(Verify(context, ref, request).stamps, StampNote::kNone);
  });
  for (std::uint32_t r = 0; r < paths_.size(); ++r) {
    Rot(r);
    EXPECT_EQ(StateOf(Check()), "damaged");
    EXPECT_EQ(ExitCodeOf(Repair()), 0);
  }
}

// The spares get the new stamp, too.
TEST_F(MisfortuneTest, NewTimesAreTakenWithDeviceDirectories) {
  for (std::uint32_t d = 0; d < options_.group; ++d) options_.device_dirs.push_back(fmt::format("/p{}", d));
  NameFiles(0);
  for (const std::string& directory : options_.device_dirs) fs_.Put(directory + "/lost+found", {});
  fs_.Put(paths_[0], RandomBytes(rng_, 24 * kBlock), kPast + 5);
  ASSERT_OK(Protect(Here(), ref_, {}).status);
  Data().stat.mtime_ns = kPast;
  EXPECT_EQ(Check().stamps, StampNote::kTimesDiffer);
  EXPECT_EQ(Repair().stamps, StampNote::kTaken);
  EXPECT_EQ(StateOf(Check()), "intact");
  EXPECT_EQ(Check().stamps, StampNote::kNone);
  ASSERT_OK(fs_.Remove(*SidecarPath(paths_[0])));
  EXPECT_EQ(ExitCodeOf(Repair()), 0);
  EXPECT_EQ(Check().stamps, StampNote::kNone) << "a spare had the old stamp";
  Data().bytes[5 * kBlock] ^= 1;
  EXPECT_EQ(StateOf(Check()), "damaged");
  EXPECT_EQ(ExitCodeOf(Repair()), 0);
}

// If anything of a file differs, its stamp is not renewed.
TEST_P(CoarseClockTest, NewTimesOfAnEditedFileAreNotTaken) {
  tick_ = 1;
  MakeNow(5'000'000'000);
  Unpack();
  Rot();
  const auto before = fs_.Copy();
  const DatasetReport found = Repair();
  EXPECT_EQ(ExitCodeOf(found), 9) << Text(found);
  EXPECT_EQ(found.stamps, StampNote::kNone);
  ExpectBytes(before);
}

// An edit while everything is read keeps the mtime, because it is within the tick of the new stamp's clock.
TEST_P(CoarseClockTest, AnEditWhileStampsAreRenewedIsKept) {
  MakeNow();
  Tick();
  for (const std::string& path : paths_) fs_.At(path).stat.mtime_ns = fs_.now();
  const auto before = fs_.Copy();
  const DatasetReport found = Repair();
  EXPECT_EQ(ExitCodeOf(found), 0);
  EXPECT_EQ(found.stamps, StampNote::kNone) << "it would be racy again";
  ExpectBytes(before);
}

// At any time, one copy of each sidecar is whole, with the old or the new stamp.
TEST_P(CoarseClockTest, ARenewalThatBreaksOffDoesNoHarm) {
  tick_ = 1;
  MakeNow(5'000'000'000);
  Unpack();
  const auto before = fs_.Copy();
  bool done = false;
  for (int budget = 0; !done; ++budget) {
    ASSERT_LT(budget, 2000);
    fs_.Restore(before);
    int left = budget;
    fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
      const bool changes = op != MemoryFileSystem::Op::kRead;
      return changes && left-- <= 0 ? Status(Code::kIo, path + ": crashed") : Status::Ok();
    };
    const Status repaired = Repair().status;
    done = left >= 0;
    EXPECT_TRUE(!done || repaired.ok());
    fs_.fault = nullptr;
    for (int attempt = 0; attempt < 4; ++attempt) {
      const auto crashed = fs_.Copy();
      fs_.PowerLoss(rng_, 512);
      const DatasetReport found = Check();
      ASSERT_OK(found.status);
      // A page of a superblock may be torn; the other copies are whole.
      for (const Damage& d : found.damage) EXPECT_EQ(d.part, DamagePart::kMetadata) << "after " << budget << ": " << Text(found);
      EXPECT_EQ(ExitCodeOf(Repair()), 0);
      EXPECT_EQ(ExitCodeOf(Repair()), 0) << "what repairs the sidecar takes no stamp";
      EXPECT_EQ(StateOf(Check()), "intact");
      EXPECT_EQ(Check().stamps, StampNote::kNone);
      for (const std::string& path : paths_) EXPECT_EQ(fs_.At(path).bytes, before.at(path).bytes);
      fs_.Restore(crashed);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace lzy::testing
