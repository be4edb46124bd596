// Bad sectors, and reads that are wrong once.
#include <gtest/gtest.h>

#include <string>

#include "both_forms.h"
#include "misfortune_fixture.h"
#include "sidecar/sidecar.h"

namespace lzy::testing {
namespace {

TEST_P(BothForms, BadSectorsInDataAreRepaired) {
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    Data().unreadable = {{5 * kBlock + 3, 1}};
    const DatasetReport found = Check();
    ASSERT_OK(found.status);
    ASSERT_EQ(found.damage.size(), 1u) << Text(found);
    EXPECT_EQ(found.damage[0].cause, DamageCause::kUnreadable);
    EXPECT_EQ(found.damage[0].offset, 5 * kBlock);
    EXPECT_EQ(found.damage[0].length, kBlock);
    EXPECT_EQ(ExitCodeOf(Repair()), 0);
    EXPECT_TRUE(Data().unreadable.empty()) << "it was written over";
    ExpectDataAsCommitted();
    ExpectIntact();
  }
}

TEST_P(BothForms, BadSectorsInParityAreRepaired) {
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    const std::string path = *SidecarPath(paths_[0]);
    const std::uint64_t base = (*Sidecar::Load(fs_, path, OpenMode::kRead))->ParityFileOffset(0);
    fs_.At(path).unreadable = {{base + kBlock, 1}};
    const DatasetReport found = Check();
    ASSERT_EQ(found.damage.size(), 1u) << Text(found);
    EXPECT_EQ(found.damage[0].cause, DamageCause::kUnreadable);
    EXPECT_EQ(found.damage[0].part, DamagePart::kParity);
    EXPECT_EQ(found.damage[0].offset, base + kBlock);
    EXPECT_EQ(ExitCodeOf(Repair()), 0);
    ExpectIntact();
  }
}

TEST_P(BothForms, BadSectorsInMetadataAreRepaired) {
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    const std::string path = *SidecarPath(paths_[0]);
    // In each copy: its superblock, and the bytes behind it.
    const auto loaded = Sidecar::Load(fs_, path, OpenMode::kRead);
    ASSERT_OK(loaded);
    const Superblock sb = (*loaded)->contents().superblock;
    for (const std::uint64_t at : {std::uint64_t{0}, sb.bytes(), sb.PlaceOf(1), sb.PlaceOf(1) + sb.bytes()}) {
      fs_.At(path).unreadable = {{at, 1}};
      const DatasetReport found = Check();
      ASSERT_OK(found.status);
      EXPECT_EQ(ExitCodeOf(found), 1) << Text(found);
      EXPECT_EQ(ExitCodeOf(Repair()), 0);
      fs_.At(path).unreadable.clear();
      ExpectIntact();
    }
  }
}

// The sidecar may be whole, so no commit replaces it.
TEST_P(BothForms, ASidecarThatCannotBeReadIsNotDestroyed) {
  Make();
  const std::string path = *SidecarPath(paths_[0]);
  Data().bytes[5 * kBlock] ^= 1;
  fs_.At(path).unreadable = {{0, 1u << 20}};
  const auto before = fs_.Copy();
  ProtectRequest force;
  force.force = true;
  for (const DatasetReport& report : {Check(), Repair(), Restore(Here(), Ref(), {}), Protect(Here(), Ref(), {}), Protect(Here(), Ref(), force)}) {
    EXPECT_EQ(report.status.code(), Code::kUnreadable) << Text(report);
    EXPECT_EQ(ExitCodeOf(report), 6) << Text(report);
  }
  ASSERT_EQ(fs_.nodes().size(), before.size());
  ExpectBytes(before);
  fs_.At(path).unreadable.clear();
  EXPECT_EQ(ExitCodeOf(Repair()), 0);
  ExpectDataAsCommitted();
  ExpectIntact();
}

TEST_P(BothForms, TheOthersRepairAMemberWhoseSidecarCannotBeRead) {
  Make(4);
  fs_.At(*SidecarPath(paths_[1])).unreadable = {{0, 1u << 20}};
  const DatasetReport found = Check();
  EXPECT_EQ(ExitCodeOf(found), 1) << Text(found);
  const DatasetReport repaired = Restore(Here(), Ref(), {});
  EXPECT_EQ(ExitCodeOf(repaired), 0) << Text(repaired);
  ExpectDataAsCommitted();
  ExpectIntact();
  // If no copy can be read, only this file is affected.
  for (const std::string& member : paths_) fs_.At(*SidecarPath(member)).unreadable = {{0, 1u << 20}};
  EXPECT_EQ(Check().status.code(), Code::kUnreadable);
  EXPECT_EQ(Protect(Here(), Ref(), {}).status.code(), Code::kUnreadable);
}

TEST_P(BothForms, ABadSectorBesideALostMemberIsRepaired) {
  Make(4);
  LoseMember(1);
  Data(2).unreadable.emplace_back(3 * kBlock, kBlock);
  const DatasetReport restored = Restore(Here(), Ref(), {});
  EXPECT_EQ(ExitCodeOf(restored), 0) << Text(restored);
  ExpectDataAsCommitted();
  ExpectIntact();
}

TEST_P(BothForms, RepairOfABadSectorLeavesEditsAlone) {
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    Write(0, 2 * kBlock, Bytes(10, 0xee));
    const std::int64_t edited_at = Data().stat.mtime_ns;
    ASSERT_NE(edited_at, kPast);
    const Bytes edited = Data().bytes;
    Data().unreadable = {{9 * kBlock, 1}};
    const DatasetReport repaired = Repair();
    ASSERT_OK(repaired.status);
    EXPECT_EQ(StateOf(repaired), "stale") << Text(repaired);
    EXPECT_EQ(Data().bytes, edited);
    EXPECT_TRUE(Data().unreadable.empty());
    EXPECT_NE(Data().stat.mtime_ns, kPast) << "with the committed mtime the edit would look like rot";
    // The edit must stay an edit, and must not be changed without force.
    ExpectLeftAlone("stale", edited);
    ExpectTakenBackByForce();
  }
}

TEST_P(BothForms, RepairOfABadSectorLeavesABrokenEpochAtRisk) {
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    ASSERT_OK(BeginEpoch(fs_, options_, paths_[0], members > 0 ? ref_.path : ""));
    Write(0, 2 * kBlock, Bytes(10, 0xee));
    const Bytes edited = Data().bytes;
    Data().unreadable = {{9 * kBlock, 1}};
    const DatasetReport repaired = Repair();
    ASSERT_OK(repaired.status);
    EXPECT_EQ(StateOf(repaired), "at-risk") << Text(repaired);
    EXPECT_EQ(Data().bytes, edited);
    ExpectLeftAlone("at-risk", edited);
    ExpectTakenBackByForce();
  }
}

TEST_P(BothForms, TransientReadErrorsAreReportedAndNothingIsWritten) {
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    Data().flaky = {{7 * kBlock, 2}};
    const auto before = fs_.Copy();
    for (const bool repair : {false, true}) {
      const DatasetReport found = repair ? Repair() : Check();
      ASSERT_OK(found.status);
      ASSERT_EQ(found.damage.size(), 1u) << Text(found);
      EXPECT_TRUE(found.damage[0].transient);
      EXPECT_EQ(found.damage[0].offset, 7 * kBlock);
      EXPECT_EQ(ExitCodeOf(found), 0) << Text(found);
      ExpectBytes(before);
    }
    Data().flaky.clear();
    ExpectIntact();
  }
}

// A block is intact when it is judged, and then encoded from wrong bytes of the page cache. These bytes must not be
// committed.
TEST_P(BothForms, TransientReadErrorsAreNotCommitted) {
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    Write(0, 2 * kBlock, Bytes(10, 0xee));
    Data().flaky = {{7 * kBlock, 2}};
    const DatasetReport made = Protect(Here(), Ref(), {});
    ASSERT_OK(made.status);
    EXPECT_EQ(ExitCodeOf(made), 0) << Text(made);
    Data().flaky.clear();
    root_ = made.root;
    ExpectIntact();
  }
}

INSTANTIATE_TEST_SUITE_P(Of, BothForms, ::testing::Bool(), NameOfForm);

}  // namespace
}  // namespace lzy::testing
