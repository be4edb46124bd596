// Sets in which a crash left some members prepared and others committed.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "dataset/view.h"
#include "misfortune_fixture.h"
#include "sidecar/sidecar.h"

namespace lzy::testing {
namespace {

TEST_F(OrdinaryForm, AGenerationThatOneMemberCommittedCountsForAll) {
  // In either order, and with a clock that was set back between the two commits.
  for (std::uint32_t first : {0u, 1u, 2u}) {
    Make(3);
    const std::uint64_t generation = Check().generation;
    for (std::uint32_t r = 0; r < 3; ++r) {
      auto sidecar = Sidecar::Load(fs_, *SidecarPath(paths_[r]), OpenMode::kReadWrite);
      ASSERT_OK(sidecar);
      SidecarContents next = (*sidecar)->contents();
      next.superblock.generation = generation + 1;
      next.superblock.wall_time_ns -= 3'600'000'000'000;
      ASSERT_OK((*sidecar)->Prepare(next));
      if (r == first) {
        ASSERT_OK((*sidecar)->FinishPrepared());
      }
    }
    const auto before = fs_.Copy();
    const DatasetReport found = Check();
    EXPECT_EQ(found.generation, generation + 1) << "member " << first << " has it";
    EXPECT_EQ(StateOf(found), "at-risk") << Text(found);
    for (const Damage& d : found.damage) EXPECT_EQ(d.part, DamagePart::kMetadata) << Text(found);
    ExpectBytes(before);
    EXPECT_EQ(ExitCodeOf(Repair()), 0);
    ExpectIntact();
    for (std::uint32_t r = 0; r < 3; ++r) {
      EXPECT_EQ((*Sidecar::Load(fs_, *SidecarPath(paths_[r]), OpenMode::kRead))->generation(), generation + 1)
          << "rolled forward";
    }
  }
}

// A program that begins to write between the crash of a commit and its completion sees the previous generation.
TEST_F(OrdinaryForm, AnIntentOfTheOlderGenerationHoldsAfterRollingForward) {
  for (const bool in_place : {true, false}) {
    SCOPED_TRACE(in_place);
    Make(3);
    const std::uint64_t generation = Check().generation;
    for (std::uint32_t r = 0; r < 3; ++r) {
      auto sidecar = Sidecar::Load(fs_, *SidecarPath(paths_[r]), OpenMode::kReadWrite);
      ASSERT_OK(sidecar);
      SidecarContents next = (*sidecar)->contents();
      next.superblock.generation = generation + 1;
      if (r != 1) {
        ASSERT_OK((*sidecar)->WriteAll(next));
      } else if (in_place) {
        ASSERT_OK((*sidecar)->Prepare(next));
      } else {
        WriteNewSidecar(r, **sidecar, next);
      }
    }
    const auto begun = BeginEpoch(fs_, options_, paths_[1], ref_.path);
    ASSERT_OK(begun);
    Write(1, 3 * kBlock, Bytes(kBlock, 0x11));
    Data(1).stat.mtime_ns = kPast + 1;  // only the intent shows that the file was written
    const auto before = fs_.Copy();
    const DatasetReport read = Check();  // in place, copy 0 is not up to date: damage of the metadata
    const auto at_risk = [](const Damage& d) { return d.part == DamagePart::kData && d.cause == DamageCause::kAtRisk; };
    EXPECT_EQ(std::count_if(read.damage.begin(), read.damage.end(), at_risk), 1) << Text(read);
    for (const Damage& d : read.damage) EXPECT_TRUE(at_risk(d) || d.part == DamagePart::kMetadata) << Text(read);
    ExpectBytes(before);
    Code other_lock = in_place ? Code::kBusy : Code::kOk;
    fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
      if (op == MemoryFileSystem::Op::kRename) other_lock = (*fs_.Open(path, OpenMode::kReadWrite))->Lock().code();
      return Status::Ok();
    };
    { ASSERT_OK(OpenDataset(Here(), Ref(), {.write = true})); }
    fs_.fault = nullptr;
    EXPECT_EQ(other_lock, Code::kBusy) << "the sidecar that is replaced is locked until it has gone";
    const auto rolled = Sidecar::Load(fs_, *SidecarPath(paths_[1]), OpenMode::kRead);
    ASSERT_OK(rolled);
    EXPECT_EQ((*rolled)->generation(), generation + 1);
    ASSERT_TRUE((*rolled)->intent());
    EXPECT_TRUE(SameWriter(*(*rolled)->intent(), begun->intent));
    EXPECT_EQ(StateOf(Check()), "at-risk");
    EXPECT_FALSE(fs_.Has(NewSidecarPath(paths_[1])));
  }
}

TEST_F(OrdinaryForm, AnAbandonedPreparationIsNotTakenForTheCommitOfTheSameGeneration) {
  Make(3);
  const std::uint64_t generation = Check().generation;
  Hash other;
  other.bytes.fill(0x33);
  for (std::uint32_t r = 0; r < 3; ++r) {
    const std::string path = *SidecarPath(paths_[r]);
    auto sidecar = Sidecar::Load(fs_, path, OpenMode::kReadWrite);
    ASSERT_OK(sidecar);
    SidecarContents next = (*sidecar)->contents();
    next.superblock.generation = generation + 1;
    next.superblock.wall_time_ns += 1'000'000'000;
    if (r != 1) {
      ASSERT_OK((*sidecar)->WriteAll(next));
      continue;
    }
    // This one prepared in place in an earlier attempt, and was built anew, but not yet renamed, in the one that
    // counts.
    SidecarContents given_up = next;
    given_up.superblock.dataset_root = other;
    given_up.superblock.wall_time_ns -= 1;
    ASSERT_OK((*sidecar)->Prepare(given_up));
    WriteNewSidecar(r, **sidecar, next);
  }
  const DatasetReport found = Check();
  EXPECT_EQ(found.generation, generation + 1);
  EXPECT_EQ(found.root, root_) << Text(found);
  EXPECT_EQ(StateOf(found), "intact") << Text(found);
  EXPECT_EQ(ExitCodeOf(Repair()), 0);
  ExpectIntact();
  EXPECT_EQ((*Sidecar::Load(fs_, *SidecarPath(paths_[1]), OpenMode::kRead))->generation(), generation + 1);
}

TEST_F(OrdinaryForm, APreparedGenerationThatNoMemberCommittedIsIgnored) {
  Make(3);
  const std::uint64_t generation = Check().generation;
  for (std::uint32_t r = 0; r < 2; ++r) {
    auto sidecar = Sidecar::Load(fs_, *SidecarPath(paths_[r]), OpenMode::kReadWrite);
    SidecarContents next = (*sidecar)->contents();
    next.superblock.generation = generation + 1;
    ASSERT_OK((*sidecar)->Prepare(next));
  }
  const DatasetReport found = Check();
  EXPECT_EQ(found.generation, generation);
  EXPECT_EQ(StateOf(found), "intact") << Text(found);
}

}  // namespace
}  // namespace lzy::testing
