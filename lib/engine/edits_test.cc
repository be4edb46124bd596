// Edits without lzy, before and during a repair or restore. They must never be taken for rot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <string>

#include "misfortune_fixture.h"
#include "sidecar/sidecar.h"

namespace lzy::testing {
namespace {

TEST_P(BothForms, ATouchedFileIsIntact) {
  Make();
  Data().stat.mtime_ns += 5;
  ExpectIntact();
  EXPECT_EQ(ExitCodeOf(Repair()), 0);
}

TEST_P(BothForms, ChangesWithinTheClockTickOfTheCommitAreStaleNotDamaged) {
  Make();
  // The commit's clock is not later than the mtime, so a change within the same tick would not show.
  {
    auto sidecar = Sidecar::Load(fs_, *SidecarPath(paths_[0]), OpenMode::kReadWrite);
    SidecarContents contents = (*sidecar)->contents();
    contents.superblock.commit_clock_ns = kPast;
    ASSERT_OK((*sidecar)->WriteAll(contents));
  }
  Data().bytes[3] ^= 1;
  EXPECT_EQ(StateOf(Check()), "stale");
  const Bytes edited = Data().bytes;
  EXPECT_EQ(ExitCodeOf(Repair()), 9);
  EXPECT_EQ(Data().bytes, edited);
}

// While lzy reads a file, a program that does not use lzy may edit it.
TEST_P(BothForms, EditsDuringARepairAreKept) {
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    Data().bytes[5 * kBlock] ^= 1;
    bool edited = false;
    Bytes expected;
    fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
      if (op == MemoryFileSystem::Op::kRead && path == paths_[0] && !edited) {
        edited = true;
        Data().bytes[9 * kBlock] ^= 1;
        Data().stat.mtime_ns += 1'000'000'000;
        expected = Data().bytes;
      }
      return Status::Ok();
    };
    const DatasetReport repaired = Repair();
    fs_.fault = nullptr;
    ASSERT_OK(repaired.status);
    ASSERT_TRUE(edited);
    EXPECT_EQ(ExitCodeOf(repaired), 9) << Text(repaired);
    EXPECT_EQ(Data().bytes, expected) << "which of the two was an edit nobody can know";
    EXPECT_NE(Data().stat.mtime_ns, kPast) << "with the committed mtime the edit would look like rot";
  }
}

TEST_P(BothForms, EditsAfterARepairThatBrokeOffAreKept) {
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    Data().bytes[5 * kBlock] ^= 1;
    Data().bytes[6 * kBlock] ^= 1;
    std::uint64_t writes = 0;
    fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
      const bool to_data = op == MemoryFileSystem::Op::kWrite && path == paths_[0];
      return to_data && writes++ > 0 ? Status(Code::kIo, path + ": crashed") : Status::Ok();
    };
    EXPECT_NE(ExitCodeOf(Repair()), 0);
    fs_.fault = nullptr;
    Write(0, 12 * kBlock, Bytes(10, 0xee));
    const DatasetReport repaired = Repair();
    ASSERT_OK(repaired.status);
    EXPECT_EQ(StateOf(repaired), "stale") << Text(repaired);
    EXPECT_EQ(Data().bytes[12 * kBlock], 0xee) << "taken for what the repair had begun";
    EXPECT_EQ(Data().bytes[5 * kBlock], committed_.at(paths_[0]).bytes[5 * kBlock]);
    EXPECT_EQ(Data().bytes[6 * kBlock], committed_.at(paths_[0]).bytes[6 * kBlock]);
    const DatasetReport after = Check();
    EXPECT_EQ(StateOf(after), "stale") << Text(after);
    ExpectTakenBackByForce();
  }
}

// Data that an epoch may be changing stay at risk, whatever is repaired meanwhile.
TEST_P(BothForms, RepairInAnEpochKeepsItsIntent) {
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    ASSERT_OK(BeginEpoch(fs_, options_, paths_[0], members > 0 ? ref_.path : ""));
    Write(0, 2 * kBlock, Bytes(10, 0xee));
    const std::int64_t written_at = Data().stat.mtime_ns;
    Data().unreadable = {{9 * kBlock, 1}};
    const DatasetReport repaired = Repair();
    EXPECT_EQ(ExitCodeOf(repaired), 9) << Text(repaired);
    EXPECT_TRUE((*Sidecar::Load(fs_, *SidecarPath(paths_[0]), OpenMode::kRead))->intent());
    EXPECT_GE(Data().stat.mtime_ns, written_at);
    EXPECT_EQ(ExitCodeOf(Check()), 9) << Text(Check());
  }
}

// The job is restarted, and writes its checkpoint while the lost one is restored.
TEST_P(BothForms, AFileThatAppearsDuringItsRestoreIsLeftAlone) {
  Make(4);
  const Bytes fresh = RandomBytes(rng_, 5000);
  ASSERT_OK(fs_.Remove(paths_[1]));
  bool there = false;
  fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
    if (op == MemoryFileSystem::Op::kWrite && path.find(".LZY-data.") != std::string::npos && !there) {
      there = true;
      fs_.Put(paths_[1], fresh);
    }
    return Status::Ok();
  };
  const DatasetReport restored = Restore(Here(), Ref(), {});
  fs_.fault = nullptr;
  ASSERT_TRUE(there);
  EXPECT_EQ(restored.status.code(), Code::kBusy) << Text(restored);
  EXPECT_EQ(fs_.At(paths_[1]).bytes, fresh);
  for (const auto& [path, node] : fs_.nodes()) EXPECT_EQ(path.find(".LZY-data."), std::string::npos) << "left behind: " << path;
}

TEST_P(BothForms, AnEditedMemberWithoutItsSidecarIsLeftAlone) {
  Make(4);
  Write(1, 2 * kBlock, Bytes(10, 0xee));
  ASSERT_OK(fs_.Remove(*SidecarPath(paths_[1])));
  const auto before = fs_.Copy();
  for (const bool restore : {false, true}) {
    const DatasetReport report = restore ? Restore(Here(), Ref(), {}) : Repair();
    EXPECT_OK(report.status);
    EXPECT_TRUE(ExitCodeOf(report) == 1 || ExitCodeOf(report) == 9) << Text(report);
    EXPECT_EQ(Data(1).bytes, before.at(paths_[1]).bytes) << "an edit was taken back without force";
  }
  RestoreRequest force;
  force.force = true;
  const DatasetReport forced = Restore(Here(), Ref(), force);
  EXPECT_EQ(ExitCodeOf(forced), 0) << Text(forced);
  ExpectDataAsCommitted();
  ExpectIntact();
}

// The parity of the edited row is out of date. The restored member gets its data, but no parity of this row until the next
// commit.
TEST_P(BothForms, AMemberIsRestoredBesideAnEditedOne) {
  options_.parity = 1;
  Make(3);
  std::uint32_t restored = 0;
  const auto sound = fs_.Copy();
  for (std::uint64_t at = 0; at < Data(2).bytes.size(); at += kBlock) {
    fs_.Restore(sound);
    LoseMember(1);
    Write(2, at, {1, 2, 3});
    const Bytes edited = Data(2).bytes;
    RestoreRequest dry;
    dry.dry_run = true;
    const int expected = ExitCodeOf(Restore(Here(), Ref(), dry));
    const DatasetReport done = Restore(Here(), Ref(), {});
    SCOPED_TRACE(fmt::format("edited at {}: {}", at, Text(done)));
    EXPECT_EQ(ExitCodeOf(done), expected);
    EXPECT_EQ(Data(2).bytes, edited);
    ASSERT_EQ(fs_.Has(paths_[1]), expected != 2);
    if (expected == 2) continue;
    ++restored;
    EXPECT_EQ(Data(1).bytes, committed_.at(paths_[1]).bytes);
  }
  EXPECT_GT(restored, 0u);
}

// A node that was away, or a backup: the file was not edited, but it is not up to date either.
TEST_P(BothForms, AMemberFromAnOlderCommitIsDamage) {
  Make(4);
  Write(1, 2 * kBlock, Bytes(10, 0xee));
  ASSERT_OK(Protect(Here(), ref_, {}).status);
  const auto now = fs_.Copy();
  PutBackMember(1);
  EXPECT_EQ(ExitCodeOf(Check()), 1) << Text(Check());
  EXPECT_EQ(ExitCodeOf(Protect(Here(), ref_, {})), 1) << "it is not committed as if it were news";
  const DatasetReport restored = Restore(Here(), Ref(), {});
  EXPECT_EQ(ExitCodeOf(restored), 0) << Text(restored);
  for (const std::string& path : paths_) EXPECT_EQ(fs_.At(path).bytes, now.at(path).bytes) << path;
  EXPECT_EQ(StateOf(Check()), "intact");
}

// Found by the campaign (seed 65612): the other members of the group have lost the hashes of the newest commit, so nothing
// shows that the member differs. It must not be committed without a warning.
TEST_F(MisfortuneTest, AMemberFromAnOlderCommitThatCannotBeCheckedIsNotCommitted) {
  Make(8);
  Write(1, 2 * kBlock, Bytes(10, 0xee));
  ASSERT_OK(Protect(Here(), ref_, {}).status);
  PutBackMember(1);
  const auto sidecar = Sidecar::Load(fs_, *SidecarPath(paths_[1]), OpenMode::kRead);
  ASSERT_OK(sidecar);
  const std::vector<std::uint32_t> group = (*sidecar)->contents().info.groups[0];
  ASSERT_LT(group.size(), 8u);
  for (const std::uint32_t rank : group) {
    if (rank != 1) ASSERT_OK(fs_.Remove(*SidecarPath(paths_[rank])));
  }
  const DatasetReport refused = Protect(Here(), ref_, {});
  EXPECT_EQ(ExitCodeOf(refused), 4) << Text(refused);
  EXPECT_FALSE(refused.committed);
  EXPECT_THAT(refused.warnings, ::testing::Contains(::testing::HasSubstr(paths_[1] + ": it is as an older commit of its set left it")));
  ProtectRequest force;
  force.force = true;
  EXPECT_EQ(ExitCodeOf(Protect(Here(), ref_, force)), 0);
  EXPECT_EQ(StateOf(Check()), "intact");
}

// A file that differs from its old sidecar may be an edit.
TEST_P(BothForms, AnEditedMemberFromAnOlderCommitIsAnEdit) {
  for (const std::string edit : {"bytes", "longer", "racy", "while it is read"}) {
    SCOPED_TRACE(edit);
    Make(4);
    if (edit == "racy") {
      // As if the first commit had happened within the tick of the last write.
      auto sidecar = Sidecar::Load(fs_, *SidecarPath(paths_[1]), OpenMode::kReadWrite);
      SidecarContents contents = (*sidecar)->contents();
      contents.superblock.commit_clock_ns = contents.superblock.stamp.mtime_ns;
      ASSERT_OK((*sidecar)->WriteAll(contents));
      sidecar->reset();
      committed_ = fs_.Copy();
    }
    Write(1, 2 * kBlock, Bytes(10, 0xee));
    ASSERT_OK(Protect(Here(), ref_, {}).status);
    PutBackMember(1);
    if (edit == "bytes") Write(1, 5 * kBlock, Bytes(1, 0x11));
    if (edit == "longer") Data(1).bytes.push_back(1);
    Bytes expected = Data(1).bytes;
    bool edited = edit != "while it is read";
    fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
      if (!edited && op == MemoryFileSystem::Op::kRead && path == paths_[0]) {
        edited = true;
        Data(1).bytes[7 * kBlock] ^= 1;
        Data(1).stat.mtime_ns += 5;
        expected = Data(1).bytes;
      }
      return Status::Ok();
    };
    const DatasetReport restored = Restore(Here(), Ref(), {});
    fs_.fault = nullptr;
    EXPECT_TRUE(edited);
    EXPECT_EQ(Data(1).bytes, expected) << Text(restored);
    EXPECT_NE(ExitCodeOf(restored), 0) << Text(restored);
  }
}

}  // namespace
}  // namespace lzy::testing
