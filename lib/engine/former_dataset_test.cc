// Files that another dataset committed before: single files that become members of a set, and members that become single
// files. Rot must not be committed on the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "misfortune_fixture.h"

namespace lzy::testing {
namespace {

using ::testing::ElementsAre;

class FormerDataset : public OrdinaryForm {
 protected:
  DatasetRef Single(std::uint32_t r) const { return {DatasetKind::kShared, paths_[r], {}}; }

  /// Files that will become members of a set; each is protected alone.
  void MakeSingle(std::uint32_t members) {
    NameFiles(members);
    for (std::uint32_t r = 0; r < members; ++r) {
      fs_.Put(paths_[r], RandomBytes(rng_, 24 * kBlock - 100 * r - 7), kPast + r);
      ASSERT_OK(Protect(Here(), Single(r), {}).status);
    }
    committed_ = fs_.Copy();
  }
  void Rot(std::uint32_t r, std::uint64_t block) { Data(r).bytes[block * kBlock + 5] ^= 1; }

  /// One rank for each member. All get the same report.
  DatasetReport ProtectTogether(const ProtectRequest& request) {
    std::vector<DatasetReport> reports(paths_.size());
    RunRanks(static_cast<int>(paths_.size()), [&](Communicator& comm) {
      DatasetRef ref = ref_;
      std::erase_if(ref.members, [&](const auto& m) { return static_cast<int>(m.first) != comm.rank(); });
      reports[static_cast<std::size_t>(comm.rank())] = Protect(Context{fs_, comm, options_}, ref, request);
    });
    for (const DatasetReport& one : reports) {
      EXPECT_EQ(Text(one), Text(reports[0]));
      EXPECT_EQ(one.repair_first, reports[0].repair_first);
    }
    return reports[0];
  }
  void ExpectNothingChanged(const std::map<std::string, MemoryFileSystem::Node>& before) {
    ExpectBytes(before);
    EXPECT_EQ(fs_.Copy().size(), before.size()) << "files were left behind";
  }
};

TEST_F(FormerDataset, RotIsNotCommittedWhenSingleFilesBecomeASet) {
  MakeSingle(3);
  Rot(1, 4);
  const auto before = fs_.Copy();
  const DatasetReport refused = ProtectTogether({});
  EXPECT_EQ(ExitCodeOf(refused), 1) << Text(refused);
  EXPECT_FALSE(refused.committed);
  EXPECT_THAT(refused.repair_first, ElementsAre(paths_[1]));
  ASSERT_EQ(refused.damage.size(), 1u) << Text(refused);
  EXPECT_EQ(refused.damage[0].offset, 4 * kBlock);
  EXPECT_EQ(refused.damage[0].cause, DamageCause::kHash);
  ExpectNothingChanged(before);

  VerifyRequest repair;
  repair.repair = true;
  EXPECT_EQ(ExitCodeOf(Verify(Here(), Single(1), repair)), 0);
  EXPECT_EQ(Data(1).bytes, committed_.at(paths_[1]).bytes);
  const DatasetReport made = ProtectTogether({});
  EXPECT_TRUE(made.committed) << Text(made);
  EXPECT_EQ(StateOf(Check()), "intact");
}

TEST_F(FormerDataset, EditsAndForceAreCommitted) {
  MakeSingle(3);
  Write(0, 2 * kBlock, Bytes(10, 0xee));
  const DatasetReport edited = ProtectTogether({});
  EXPECT_TRUE(edited.committed) << Text(edited);
  EXPECT_EQ(ExitCodeOf(edited), 0);

  MakeSingle(3);
  Rot(2, 7);
  ProtectRequest force;
  force.force = true;
  const DatasetReport forced = ProtectTogether(force);
  EXPECT_TRUE(forced.committed) << Text(forced);
  EXPECT_THAT(forced.warnings, ::testing::Contains(::testing::HasSubstr("are damaged; committed as they are now (--force)")));
  EXPECT_EQ(StateOf(Check()), "intact");
}

// The set records an older state of the file. That it was edited since then does not excuse rot in the new state.
TEST_F(FormerDataset, AMemberThatWasProtectedForItselfIsHeldToThat) {
  Make(3);
  Write(1, 2 * kBlock, Bytes(10, 0xee));
  ASSERT_OK(Protect(Here(), Single(1), {}).status);
  Rot(1, 9);
  const auto before = fs_.Copy();
  const DatasetReport refused = ProtectTogether({});
  EXPECT_FALSE(refused.committed) << Text(refused);
  EXPECT_EQ(ExitCodeOf(refused), 1);
  EXPECT_THAT(refused.repair_first, ElementsAre(paths_[1]));
  ExpectNothingChanged(before);
  Rot(1, 9);  // as it was
  EXPECT_TRUE(ProtectTogether({}).committed);
  EXPECT_EQ(StateOf(Check()), "intact");
}

TEST_F(FormerDataset, AFileThatASetDoesNotHaveYetIsHeldToItsOwnHashes) {
  MakeSingle(4);
  const std::string last = paths_[3];
  ref_.members.erase(3);
  paths_.pop_back();
  ASSERT_TRUE(ProtectTogether({}).committed);
  ref_.members[3] = last;
  paths_.push_back(last);
  Rot(3, 1);
  const auto before = fs_.Copy();
  const DatasetReport refused = ProtectTogether({});
  EXPECT_FALSE(refused.committed) << Text(refused);
  EXPECT_EQ(ExitCodeOf(refused), 1);
  EXPECT_THAT(refused.repair_first, ElementsAre(last));
  ExpectNothingChanged(before);
}

TEST_F(FormerDataset, RotIsNotCommittedWhenAMemberBecomesAFileOfItsOwn) {
  for (const std::uint32_t r : {0u, 2u}) {
    Make(3);
    Rot(r, 3);
    const auto before = fs_.Copy();
    const DatasetReport refused = Protect(Here(), Single(r), {});
    EXPECT_FALSE(refused.committed) << Text(refused);
    EXPECT_EQ(ExitCodeOf(refused), 1) << Text(refused);
    EXPECT_THAT(refused.repair_first, ElementsAre(paths_[r]));
    ExpectNothingChanged(before);
    EXPECT_EQ(ExitCodeOf(Repair()), 0);
    ExpectDataAsCommitted();
  }
}

// As after sidecars of two directories were exchanged, for files of equal size and time. The set knows the content of its
// member.
TEST_F(FormerDataset, ASidecarThatWasMovedHereCallsNoProvenMemberDamaged) {
  Make(3);
  const Bytes right = Data(1).bytes;
  fs_.Put("other", RandomBytes(rng_, right.size()), Data(1).stat.mtime_ns);
  ASSERT_OK(Protect(Here(), {DatasetKind::kShared, "other", {}}, {}).status);
  ASSERT_OK(fs_.Remove(*SidecarPath(paths_[1])));
  ASSERT_OK(fs_.Remove("other"));
  ASSERT_OK(fs_.Rename(*SidecarPath("other"), *SidecarPath(paths_[1])));
  const DatasetReport made = ProtectTogether({});
  EXPECT_TRUE(made.committed) << Text(made);
  EXPECT_THAT(made.repair_first, ElementsAre());
  EXPECT_EQ(StateOf(Check()), "intact");
  EXPECT_EQ(Data(1).bytes, right);
}

// The commit counts as soon as the new sidecar has its name. So what was kept of the old one stays after a later failure.
TEST_F(FormerDataset, TheSidecarOfAMovedMemberIsKeptThoughTheCommitFailsAtItsEnd) {
  Make(3);
  const std::string old = *SidecarPath(paths_[1]);
  const auto kept = fs_.At(old).bytes;
  ASSERT_OK(fs_.Rename(paths_[1], "moved"));
  ASSERT_OK(fs_.Rename(old, *SidecarPath("moved")));
  fs_.At("moved").bytes[5] ^= 1;
  fs_.At("moved").stat.mtime_ns = CoarseNowNs();
  bool named = false;
  fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) -> Status {
    named = named || (op == MemoryFileSystem::Op::kRename && path == *SidecarPath("moved"));
    return named && op == MemoryFileSystem::Op::kSync ? Status(Code::kIo, path) : Status::Ok();
  };
  const DatasetReport made = Protect(Here(), {DatasetKind::kShared, "moved", {}}, {});
  fs_.fault = {};
  EXPECT_TRUE(named) << Text(made);
  EXPECT_EQ(made.status.code(), Code::kIo) << Text(made);
  EXPECT_TRUE(std::ranges::any_of(fs_.nodes(), [&](const auto& node) { return node.second->bytes == kept; }));
}

// The program wrote block 2; another block is rotten. Its right content is in the new parity.
TEST_F(FormerDataset, ACommitOfAProgramRebuildsRotByTheFormerParity) {
  MakeSingle(3);
  Rot(1, 6);
  ProtectRequest request;
  request.touched.emplace();
  for (std::uint32_t r = 0; r < 3; ++r) {
    Write(r, 2 * kBlock, Bytes(kBlock, 0xaa));
    (*request.touched)[r].Add({2 * kBlock, 3 * kBlock});
  }
  const Bytes rotten = Data(1).bytes;
  const DatasetReport report = ProtectTogether(request);
  EXPECT_TRUE(report.committed) << Text(report);
  EXPECT_EQ(StateOf(report), "damaged") << Text(report);
  EXPECT_EQ(Data(1).bytes, rotten);
  EXPECT_EQ(StateOf(Check()), "damaged");
  EXPECT_EQ(ExitCodeOf(Repair()), 0);
  Bytes right = committed_.at(paths_[1]).bytes;
  std::fill_n(right.begin() + 2 * kBlock, kBlock, std::uint8_t{0xaa});
  EXPECT_EQ(Data(1).bytes, right);
}

// The set that could rebuild the block is not open. But the block keeps its hash, so it is not taken for right.
TEST_F(FormerDataset, ACommitOfAProgramKeepsTheHashOfARottenMember) {
  Make(3);
  Rot(1, 6);
  Write(1, 2 * kBlock, Bytes(kBlock, 0xaa));
  ProtectRequest request;
  request.touched.emplace();
  (*request.touched)[0].Add({2 * kBlock, 3 * kBlock});
  const DatasetReport report = Protect(Here(), Single(1), request);
  ASSERT_OK(report.status);
  EXPECT_EQ(StateOf(report), "unrepairable") << Text(report);
  EXPECT_EQ(StateOf(Verify(Here(), Single(1), {})), "unrepairable");
}

}  // namespace
}  // namespace lzy::testing
