// The engine on files that misbehave: bad sectors, wrong first readings, full disks, and crashes at every operation of
// a commit, a repair or a restore. Files are in memory.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <future>

#include "dataset/view.h"
#include "misfortune_fixture.h"
#include "sidecar/sidecar.h"

namespace lzy::testing {
namespace {

// ---------------------------------------------------------------------------------------------------------- bad
// sectors

class BothForms : public MisfortuneTest, public ::testing::WithParamInterface<bool> {
 protected:
  BothForms() { options_.compact = GetParam(); }
};

/// For what is prepared in place.
class OrdinaryForm : public MisfortuneTest {
 protected:
  OrdinaryForm() { options_.compact = false; }
};

TEST_P(BothForms, BadSectorsAreErasures) {
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

TEST_P(BothForms, BadSectorsInParityAreErasures) {
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

TEST_P(BothForms, BadSectorsInMetadataAreHealed) {
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    const std::string path = *SidecarPath(paths_[0]);
    // In each copy: its superblock, and what follows.
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

TEST_P(BothForms, TransientReadingsAreToldAndNothingIsWritten) {
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
      for (const auto& [path, node] : before) EXPECT_EQ(fs_.At(path).bytes, node.bytes) << path;
    }
    Data().flaky.clear();
    ExpectIntact();
  }
}

// Each operation on files in turn has no memory left, on one rank of three. Nobody may wait for it for ever, all must get the same
// answer, and what was protected must stay so (or be named as at risk).
TEST_P(BothForms, OutOfMemoryOnOneRankStopsAll) {
  options_.timeout_seconds = 0;
  for (const char* what : {"protect", "commit", "verify", "restore"}) {
    for (std::uint32_t members : {0u, 3u}) {
      SCOPED_TRACE(fmt::format("{} with {} members", what, members));
      Make(members);
      if (std::string(what) == "protect") Write(0, 0, Bytes(10, 0xee));
      if (std::string(what) == "commit") {
        for (const std::string& path : paths_) ASSERT_OK(BeginEpoch(fs_, options_, path, members > 0 ? ref_.path : ""));
      }
      if (std::string(what) == "restore") fs_.At(paths_[0]).bytes[5 * kBlock] ^= 1;
      const auto start = fs_.Copy();
      int stopped = 0;
      for (int at = 0;; ++at) {
        ASSERT_LT(at, 5000);
        fs_.Restore(start);
        const std::vector<DatasetReport> reports = RunWithoutMemory(what, at);
        if (reports.empty()) break;  // fewer operations than that
        for (const DatasetReport& report : reports) {
          EXPECT_EQ(report.status.code(), reports[0].status.code()) << report.status.message();
          EXPECT_EQ(ExitCodeOf(report), ExitCodeOf(reports[0]));
        }
        stopped += reports[0].status.code() == Code::kNoMemory ? 1 : 0;
        const DatasetReport after = Check();
        ASSERT_OK(after.status);
        for (const Damage& d : after.damage) {
          // A copy of the metadata may be half written: there is another.
          EXPECT_TRUE(d.cause == DamageCause::kAtRisk || d.cause == DamageCause::kStale ||
                      d.part == DamagePart::kMetadata || std::string(what) == "restore")
              << "operation " << at << ": " << Text(after);
        }
      }
      EXPECT_GT(stopped, 3);
    }
  }
}

// Judged clean, and then encoded from what the page cache has wrong: the wrong bytes must not become the truth.
TEST_P(BothForms, TransientReadingsAreNotCommitted) {
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

// Reading takes time, in which somebody who does not know of us may edit the file.
TEST_P(BothForms, EditsMadeWhileARepairReadsAreNotTakenBack) {
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
    const DatasetReport mended = Repair();
    fs_.fault = nullptr;
    ASSERT_OK(mended.status);
    ASSERT_TRUE(edited);
    EXPECT_EQ(ExitCodeOf(mended), 9) << Text(mended);
    EXPECT_EQ(Data().bytes, expected) << "which of the two was an edit nobody can know";
    EXPECT_NE(Data().stat.mtime_ns, kPast) << "with the committed mtime the edit would look like rot";
  }
}

// The job is restarted and writes its checkpoint while the lost one is being restored.
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

// What an epoch may be changing stays named as such, whatever is repaired meanwhile.
TEST_P(BothForms, RepairInAnEpochKeepsItsIntent) {
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    ASSERT_OK(BeginEpoch(fs_, options_, paths_[0], members > 0 ? ref_.path : ""));
    Write(0, 2 * kBlock, Bytes(10, 0xee));
    const std::int64_t written_at = Data().stat.mtime_ns;
    Data().unreadable = {{9 * kBlock, 1}};
    const DatasetReport mended = Repair();
    EXPECT_EQ(ExitCodeOf(mended), 9) << Text(mended);
    EXPECT_TRUE((*Sidecar::Load(fs_, *SidecarPath(paths_[0]), OpenMode::kRead))->intent());
    EXPECT_GE(Data().stat.mtime_ns, written_at);
    EXPECT_EQ(ExitCodeOf(Check()), 9) << Text(Check());
  }
}

TEST_P(BothForms, RepairOfABadSectorLeavesEditsAlone) {
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    Write(0, 2 * kBlock, Bytes(10, 0xee));
    const std::int64_t edited_at = Data().stat.mtime_ns;
    ASSERT_NE(edited_at, kPast);
    const Bytes edited = Data().bytes;
    Data().unreadable = {{9 * kBlock, 1}};
    const DatasetReport mended = Repair();
    ASSERT_OK(mended.status);
    EXPECT_EQ(std::string(Name(mended.state)), "stale") << Text(mended);
    EXPECT_EQ(Data().bytes, edited);
    EXPECT_TRUE(Data().unreadable.empty());
    EXPECT_NE(Data().stat.mtime_ns, kPast) << "with the committed mtime the edit would look like rot";
    // The edit must still be an edit, and stay so, whatever is done without force.
    for (int again = 0; again < 2; ++again) {
      const DatasetReport after = again == 0 ? Check() : Repair();
      EXPECT_EQ(std::string(Name(after.state)), "stale") << Text(after);
      EXPECT_EQ(Data().bytes, edited) << "the edit was taken for rot";
    }
    EXPECT_EQ(ExitCodeOf(Repair(/*force=*/true)), 0);
    ExpectDataAsCommitted();
    ExpectIntact();
  }
}

TEST_P(BothForms, RepairOfABadSectorLeavesABrokenEpochAtRisk) {
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    ASSERT_OK(BeginEpoch(fs_, options_, paths_[0], members > 0 ? ref_.path : ""));
    Write(0, 2 * kBlock, Bytes(10, 0xee));
    const Bytes edited = Data().bytes;
    Data().unreadable = {{9 * kBlock, 1}};
    const DatasetReport mended = Repair();
    ASSERT_OK(mended.status);
    EXPECT_EQ(std::string(Name(mended.state)), "at-risk") << Text(mended);
    EXPECT_EQ(Data().bytes, edited);
    for (int again = 0; again < 2; ++again) {
      const DatasetReport after = again == 0 ? Check() : Repair();
      EXPECT_EQ(std::string(Name(after.state)), "at-risk") << Text(after);
      EXPECT_EQ(Data().bytes, edited) << "data of the epoch were taken back without force";
    }
    EXPECT_EQ(ExitCodeOf(Repair(/*force=*/true)), 0);
    ExpectDataAsCommitted();
    ExpectIntact();
  }
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

TEST_P(BothForms, DamageIsJudgedAsBeforeInARestoredMember) {
  // The members' commit clocks differ: the first was read before the last one was written.
  options_.parity = 1;
  ref_ = {DatasetKind::kSet, "d/s.%r", {}};
  for (std::uint32_t r = 0; r < 4; ++r) {
    paths_.push_back(ExpandPattern(ref_.path, r));
    ref_.members[r] = paths_[r];
    fs_.Put(paths_[r], RandomBytes(rng_, 20 * kBlock), r == 2 ? CoarseNowNs() : kPast);
  }
  ASSERT_OK(Protect(Here(), ref_, {}).status);
  committed_ = fs_.Copy();
  root_ = Check().root;
  ASSERT_OK(fs_.Remove(paths_[2]));
  ASSERT_OK(fs_.Remove(*SidecarPath(paths_[2])));
  EXPECT_EQ(ExitCodeOf(Restore(Here(), Ref(), {})), 0);
  ExpectDataAsCommitted();
  Data(2).bytes[77] ^= 1;
  const DatasetReport found = Check();
  EXPECT_EQ(std::string(Name(found.state)), "damaged") << Text(found);
}

TEST_P(BothForms, ATouchedFileIsIntact) {
  Make();
  Data().stat.mtime_ns += 5;
  ExpectIntact();
  EXPECT_EQ(ExitCodeOf(Repair()), 0);
}

TEST_P(BothForms, ARacyStampJudgesNothing) {
  Make();
  // The commit's clock reads no later than the mtime: a change within the same tick would not show.
  {
    auto sidecar = Sidecar::Load(fs_, *SidecarPath(paths_[0]), OpenMode::kReadWrite);
    SidecarContents contents = (*sidecar)->contents();
    contents.superblock.commit_clock_ns = kPast;
    ASSERT_OK((*sidecar)->WriteAll(contents));
  }
  Data().bytes[3] ^= 1;
  EXPECT_EQ(std::string(Name(Check().state)), "stale");
  const Bytes edited = Data().bytes;
  EXPECT_EQ(ExitCodeOf(Repair()), 9);
  EXPECT_EQ(Data().bytes, edited);
}

TEST_P(BothForms, EditsAfterABrokenRepairAreEdits) {
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
    const DatasetReport mended = Repair();
    ASSERT_OK(mended.status);
    EXPECT_EQ(std::string(Name(mended.state)), "stale") << Text(mended);
    EXPECT_EQ(Data().bytes[12 * kBlock], 0xee) << "taken for what the repair had begun";
    EXPECT_EQ(Data().bytes[5 * kBlock], committed_.at(paths_[0]).bytes[5 * kBlock]);
    EXPECT_EQ(Data().bytes[6 * kBlock], committed_.at(paths_[0]).bytes[6 * kBlock]);
    const DatasetReport after = Check();
    EXPECT_EQ(std::string(Name(after.state)), "stale") << Text(after);
    EXPECT_EQ(ExitCodeOf(Repair(/*force=*/true)), 0);
    ExpectDataAsCommitted();
    ExpectIntact();
  }
}

// ------------------------------------------------------------------------------------------------- devices and salvage

TEST_P(BothForms, ANamedDeviceIsMadeAgain) {
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    for (std::uint32_t device = 0; device < 4; ++device) {
      RestoreRequest request;
      request.devices = {device};
      const DatasetReport restored = Restore(Here(), Ref(), request);
      ASSERT_OK(restored.status);
      EXPECT_EQ(ExitCodeOf(restored), 0) << Text(restored);
      ExpectDataAsCommitted();
      ExpectIntact();
    }
    RestoreRequest request;
    request.devices = {4};
    EXPECT_EQ(ExitCodeOf(Restore(Here(), Ref(), request)), 3);
    request.devices = {0, 1, 2};
    const auto before = fs_.Copy();
    EXPECT_EQ(ExitCodeOf(Restore(Here(), Ref(), request)), 2);
    for (const auto& [path, node] : before) EXPECT_EQ(fs_.At(path).bytes, node.bytes);
  }
}

TEST_P(BothForms, DryRunWritesNothing) {
  Make(4);
  ASSERT_OK(fs_.Remove(paths_[1]));
  Data(2).bytes[0] ^= 1;
  const auto before = fs_.Copy();
  fs_.fault = [](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
    return op == MemoryFileSystem::Op::kRead ? Status::Ok() : Status(Code::kIo, path + ": written to");
  };
  RestoreRequest request;
  request.dry_run = true;
  const DatasetReport report = Restore(Here(), Ref(), request);
  fs_.fault = nullptr;
  ASSERT_OK(report.status);
  EXPECT_EQ(ExitCodeOf(report), 1) << Text(report);
  EXPECT_FALSE(fs_.Has(paths_[1]));
}

TEST_P(BothForms, SalvageMendsTheRowsThatCanBe) {
  Make();
  for (std::uint64_t at : {0u, 1u, 2u}) Data().bytes[at * kBlock] ^= 1;  // neighbours: three of one row or of two
  auto damaged_only = [&] {
    std::vector<std::uint64_t> bad;
    for (std::uint64_t b = 0; b * kBlock < Data().bytes.size(); ++b) {
      const auto from = static_cast<std::ptrdiff_t>(b * kBlock);
      const auto to = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>((b + 1) * kBlock, Data().bytes.size()));
      if (!std::equal(Data().bytes.begin() + from, Data().bytes.begin() + to,
                      committed_.at(paths_[0]).bytes.begin() + from))
        bad.push_back(b);
    }
    return bad;
  };
  // Make one row lose all of its data and parity, and another one block.
  std::fill(Data().bytes.begin(), Data().bytes.begin() + 4 * kBlock, std::uint8_t{0});
  const std::string sidecar = *SidecarPath(paths_[0]);
  const std::uint64_t base = (*Sidecar::Load(fs_, sidecar, OpenMode::kRead))->ParityFileOffset(0);
  for (std::uint64_t b = 0; b < 6; ++b) fs_.At(sidecar).bytes[base + b * kBlock] ^= 1;
  Data().bytes[20 * kBlock] ^= 1;
  const DatasetReport refused = Restore(Here(), Ref(), {});
  EXPECT_EQ(ExitCodeOf(refused), 2) << Text(refused);
  EXPECT_EQ(damaged_only(), (std::vector<std::uint64_t>{0, 1, 2, 3, 20}));
  RestoreRequest request;
  request.salvage = true;
  const DatasetReport salvaged = Restore(Here(), Ref(), request);
  ASSERT_OK(salvaged.status);
  EXPECT_EQ(ExitCodeOf(salvaged), 2) << Text(salvaged);
  const auto left = damaged_only();
  EXPECT_EQ(std::count(left.begin(), left.end(), 20u), 0) << "this one could be had";
  EXPECT_FALSE(left.empty());
  const DatasetReport after = Check();
  EXPECT_EQ(ExitCodeOf(after), 2) << "what was not had is still lost: " << Text(after);
}

// Nothing of member 1 is proven, and more is lost beside it than can be mended: what it has is better than nothing.
TEST_P(BothForms, SalvageKeepsWhatCannotBeHad) {
  Make(4);
  ASSERT_OK(fs_.Remove(*SidecarPath(paths_[1])));
  Data(1).bytes[2 * kBlock] ^= 1;
  for (std::uint32_t r : {2u, 3u}) {
    ASSERT_OK(fs_.Remove(paths_[r]));
    ASSERT_OK(fs_.Remove(*SidecarPath(paths_[r])));
  }
  const Bytes before = Data(1).bytes;
  RestoreRequest request;
  request.salvage = true;
  const DatasetReport salvaged = Restore(Here(), Ref(), request);
  ASSERT_OK(salvaged.status);
  EXPECT_EQ(ExitCodeOf(salvaged), 2) << Text(salvaged);
  EXPECT_EQ(Data(1).bytes, before);
}

// A node that was away, or a backup: no edit, and no truth either.
TEST_P(BothForms, AMemberOfThePastIsDamage) {
  Make(4);
  Write(1, 2 * kBlock, Bytes(10, 0xee));
  ASSERT_OK(Protect(Here(), ref_, {}).status);
  const auto now = fs_.Copy();
  for (const std::string& path : {paths_[1], *SidecarPath(paths_[1])}) {
    Bytes old = committed_.at(path).bytes;
    fs_.Put(path, std::move(old), committed_.at(path).stat.mtime_ns);
  }
  EXPECT_EQ(ExitCodeOf(Check()), 1) << Text(Check());
  EXPECT_EQ(ExitCodeOf(Protect(Here(), ref_, {})), 1) << "it is not committed as if it were news";
  const DatasetReport restored = Restore(Here(), Ref(), {});
  EXPECT_EQ(ExitCodeOf(restored), 0) << Text(restored);
  for (const std::string& path : paths_) EXPECT_EQ(fs_.At(path).bytes, now.at(path).bytes) << path;
  EXPECT_EQ(std::string(Name(Check().state)), "intact");
}

// What does not look exactly as its old sidecar says may be an edit.
TEST_P(BothForms, AnEditOfAMemberOfThePastIsAnEdit) {
  for (const std::string edit : {"bytes", "longer", "racy", "while it is read"}) {
    SCOPED_TRACE(edit);
    Make(4);
    if (edit == "racy") {
      // As if the first commit had come within the tick of the last write.
      auto sidecar = Sidecar::Load(fs_, *SidecarPath(paths_[1]), OpenMode::kReadWrite);
      SidecarContents contents = (*sidecar)->contents();
      contents.superblock.commit_clock_ns = contents.superblock.stamp.mtime_ns;
      ASSERT_OK((*sidecar)->WriteAll(contents));
      sidecar->reset();
      committed_ = fs_.Copy();
    }
    Write(1, 2 * kBlock, Bytes(10, 0xee));
    ASSERT_OK(Protect(Here(), ref_, {}).status);
    for (const std::string& path : {paths_[1], *SidecarPath(paths_[1])}) {
      Bytes old = committed_.at(path).bytes;
      fs_.Put(path, std::move(old), committed_.at(path).stat.mtime_ns);
    }
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

// A whole group is gone, so the path from a member to the dataset root can not be had: what another group lost is salvaged all
// the same, without a sidecar that could not be believed.
TEST_P(BothForms, SalvageBesideAGroupThatIsGone) {
  options_.parity = 1;
  options_.group = 2;
  Make(4);
  const DatasetReport info = Info(Here(), Ref());
  ASSERT_EQ(info.map.size(), 2u);
  const std::string victim = info.map[0].devices[0].path;
  for (const GroupMap::Device& device : info.map[1].devices) {
    ASSERT_OK(fs_.Remove(device.path));
    ASSERT_OK(fs_.Remove(*SidecarPath(device.path)));
  }
  ASSERT_OK(fs_.Remove(victim));
  ASSERT_OK(fs_.Remove(*SidecarPath(victim)));
  EXPECT_EQ(ExitCodeOf(Restore(Here(), Ref(), {})), 2);
  EXPECT_FALSE(fs_.Has(victim)) << "nothing is written where something is beyond repair";
  RestoreRequest request;
  request.salvage = true;
  EXPECT_EQ(ExitCodeOf(Restore(Here(), Ref(), request)), 2);
  ASSERT_TRUE(fs_.Has(victim));
  EXPECT_EQ(fs_.At(victim).bytes, committed_.at(victim).bytes);
  const DatasetReport after = Check();
  EXPECT_EQ(ExitCodeOf(after), 2) << Text(after);
  for (const Damage& d : after.damage) {
    EXPECT_TRUE(d.path != victim || d.part != DamagePart::kData) << "what was salvaged is right: " << Text(after);
  }
}

// ------------------------------------------------------------------------------------------------------------ full
// disk

TEST_P(BothForms, AFullDiskDoesNoHarm) {
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    Write(0, 0, Bytes(3, 1));
    const auto start = fs_.Copy();
    for (std::uint64_t budget = 0;; ++budget) {
      fs_.Restore(start);
      std::uint64_t writes = 0;
      fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
        const bool takes_room = op == MemoryFileSystem::Op::kWrite || op == MemoryFileSystem::Op::kCreate;
        return takes_room && writes++ >= budget ? Status(Code::kIo, path + ": No space left on device") : Status::Ok();
      };
      const DatasetReport made = Protect(Here(), Ref(), {});
      fs_.fault = nullptr;
      if (made.status.ok()) break;
      SCOPED_TRACE(fmt::format("{} members, {} writes: {}", members, budget, made.status.message()));
      EXPECT_EQ(ExitCodeOf(made), 6);
      for (const auto& [path, node] : start) {
        if (BaseNameOf(path).rfind(".LZY", 0) == 0) continue;
        EXPECT_EQ(fs_.At(path).bytes, node.bytes) << path;
      }
      const DatasetReport after = Check();
      ASSERT_OK(after.status);
      EXPECT_EQ(std::string(Name(after.state)), "stale") << Text(after);
      ASSERT_LT(budget, 1000u);
    }
    const DatasetReport made = Check();
    EXPECT_EQ(std::string(Name(made.state)), "intact") << Text(made);
  }
}

TEST_P(BothForms, SurvivorsAreReadOnce) {
  for (const bool sidecar_too : {true, false}) {
    Make(4);
    fs_.Remove(paths_[1]).ok();
    if (sidecar_too) fs_.Remove(*SidecarPath(paths_[1])).ok();
    std::map<std::string, std::uint64_t> read;
    fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t length) {
      if (op == MemoryFileSystem::Op::kRead) read[path] += length;
      return Status::Ok();
    };
    const DatasetReport restored = Restore(Here(), Ref(), {});
    fs_.fault = nullptr;
    EXPECT_EQ(ExitCodeOf(restored), 0) << Text(restored);
    for (const std::uint32_t r : {0u, 2u, 3u}) EXPECT_EQ(read[paths_[r]], Data(r).bytes.size()) << paths_[r];
    ExpectDataAsCommitted();
    ExpectIntact();
  }
}

// Whichever block it is, a source or not: it is mended too, and told.
TEST_P(BothForms, WhatElseIsDamagedIsFoundByARestore) {
  Make(4);
  const auto sound = fs_.Copy();
  for (const std::uint32_t r : {0u, 2u, 3u}) {
    const std::string sidecar = *SidecarPath(paths_[r]);
    const std::uint64_t data = Data(r).bytes.size();
    const auto loaded = Sidecar::Load(fs_, sidecar, OpenMode::kRead);
    ASSERT_OK(loaded);
    const std::uint64_t first = (*loaded)->ParityFileOffset(0);
    const std::uint64_t parity = (*loaded)->contents().superblock.parity_size;
    for (std::uint64_t at = 0; at < data + parity && !HasFailure(); at += kBlock) {
      fs_.Restore(sound);
      const std::string& path = at < data ? paths_[r] : sidecar;
      const std::uint64_t offset = at < data ? at : first + at - data;
      fs_.At(path).bytes[offset] ^= 1;
      fs_.Remove(paths_[1]).ok();
      fs_.Remove(*SidecarPath(paths_[1])).ok();
      const DatasetReport restored = Restore(Here(), Ref(), {});
      SCOPED_TRACE(fmt::format("{} at {}: {}", path, offset, Text(restored)));
      EXPECT_EQ(ExitCodeOf(restored), 0);
      EXPECT_TRUE(std::any_of(restored.damage.begin(), restored.damage.end(), [&](const Damage& d) {
        return d.path == path && d.offset <= offset && offset < d.offset + d.length && d.repaired;
      }));
      for (const auto& [name, node] : fs_.nodes()) EXPECT_EQ(name.find("-new."), std::string::npos) << "left behind: " << name;
      ExpectDataAsCommitted();
      ExpectIntact();
    }
  }
}

// The edit's row has no parity that fits it, and the lost member none of that row until the next commit; its data can be had.
TEST_P(BothForms, AMemberIsRestoredBesideAnEditedOne) {
  options_.parity = 1;
  Make(3);
  std::uint32_t restored = 0;
  const auto sound = fs_.Copy();
  for (std::uint64_t at = 0; at < Data(2).bytes.size(); at += kBlock) {
    fs_.Restore(sound);
    fs_.Remove(paths_[1]).ok();
    fs_.Remove(*SidecarPath(paths_[1])).ok();
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

// One group's members must not be in place when another group turns out to have lost more.
TEST_P(BothForms, GroupsAreRestoredTogetherOrNotAtAll) {
  options_.group = 3;
  for (const std::uint32_t parity : {1u, 2u}) {
    options_.parity = parity;
    Make(6);
    const auto sound = fs_.Copy();
    for (const std::uint32_t flipped : {2u, 3u, 4u, 5u}) {
      for (std::uint64_t at = 0; at < Data(flipped).bytes.size(); at += kBlock) {
        fs_.Restore(sound);
        for (const std::uint32_t lost : {0u, 1u}) {  // of one group each
          fs_.Remove(paths_[lost]).ok();
          fs_.Remove(*SidecarPath(paths_[lost])).ok();
        }
        Data(flipped).bytes[at] ^= 1;
        const std::size_t files = fs_.nodes().size();
        const DatasetReport done = Restore(Here(), Ref(), {});
        SCOPED_TRACE(fmt::format("{} at {}: {}", paths_[flipped], at, Text(done)));
        if (parity == 2) {
          EXPECT_EQ(ExitCodeOf(done), 0);
          ExpectDataAsCommitted();
        } else {
          EXPECT_EQ(ExitCodeOf(done), 2);
          EXPECT_EQ(fs_.nodes().size(), files);
        }
      }
    }
  }
}

// By ranks of one node and of several, each with a member: whoever finds the wrong source, all look again.
TEST_P(BothForms, RanksFindTogetherWhatElseIsDamaged) {
  for (const bool one_node : {true, false}) {
    for (const bool sidecar_too : {true, false}) {
      for (std::uint64_t at = 0; at < 24 * kBlock; at += 3 * kBlock) {
        Make(4);
        fs_.Remove(paths_[1]).ok();
        if (sidecar_too) fs_.Remove(*SidecarPath(paths_[1])).ok();
        Data(2).bytes[at] ^= 1;
        std::vector<DatasetReport> reports(4);
        RunRanks(4, [&](Communicator& comm) {
          DatasetRef ref = ref_;
          std::erase_if(ref.members, [&](const auto& m) { return static_cast<int>(m.first) != comm.rank(); });
          const Context context{.fs = fs_, .comm = comm, .options = options_, .share_page_cache = one_node};
          reports[static_cast<std::size_t>(comm.rank())] = Restore(context, ref, {});
        });
        SCOPED_TRACE(fmt::format("one node: {}, sidecar too: {}, at {}", one_node, sidecar_too, at));
        for (const DatasetReport& report : reports) EXPECT_EQ(ExitCodeOf(report), 0) << Text(report);
        ExpectDataAsCommitted();
        ExpectIntact();
      }
    }
  }
}

TEST_P(BothForms, ABadSectorBesideALostMemberIsMended) {
  Make(4);
  fs_.Remove(paths_[1]).ok();
  fs_.Remove(*SidecarPath(paths_[1])).ok();
  Data(2).unreadable.emplace_back(3 * kBlock, kBlock);
  const DatasetReport restored = Restore(Here(), Ref(), {});
  EXPECT_EQ(ExitCodeOf(restored), 0) << Text(restored);
  ExpectDataAsCommitted();
  ExpectIntact();
}

TEST_P(BothForms, ARestoreThatFailsLeavesNoHalfFile) {
  Make(4);
  fs_.Remove(paths_[1]).ok();
  fs_.Remove(*SidecarPath(paths_[1])).ok();
  Data(2).bytes[100] ^= 1;
  const auto start = fs_.Copy();
  for (std::uint64_t budget = 0;; ++budget) {
    fs_.Restore(start);
    std::uint64_t writes = 0;
    fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
      return op == MemoryFileSystem::Op::kWrite && writes++ >= budget
                 ? Status(Code::kIo, path + ": No space left on device")
                 : Status::Ok();
    };
    const DatasetReport restored = Restore(Here(), Ref(), {});
    fs_.fault = nullptr;
    SCOPED_TRACE(fmt::format("{} writes: {}", budget, restored.status.message()));
    if (restored.status.ok()) break;
    if (fs_.Has(paths_[1])) {
      EXPECT_EQ(Data(1).bytes, committed_.at(paths_[1]).bytes) << "whole and checked, or not at all";
    }
    EXPECT_EQ(ExitCodeOf(Restore(Here(), Ref(), {})), 0) << "and it works when there is room again";
    ExpectDataAsCommitted();
    ExpectIntact();
    ASSERT_LT(budget, 1000u);
    if (HasFailure()) return;
  }
}

// --------------------------------------------------------------------------------------------------------- slow devices

double SecondsOfThisThread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// Somebody's commit hangs in a sync: others wait as long as they are told to, at rest, and say what for; and all goes on when the
// device does.
TEST_P(BothForms, ACommitThatHangsIsWaitedForAndNamed) {
  for (const std::uint32_t members : {0u, 3u}) {
    Make(members);
    Write(0, 0, Bytes(3, 1));
    static thread_local bool hangs = false;
    std::promise<void> reached, released;
    std::atomic<bool> hung{false};
    fs_.fault = [&](MemoryFileSystem::Op op, const std::string&, std::uint64_t, std::uint64_t) {
      if (hangs && op == MemoryFileSystem::Op::kSync && !hung.exchange(true)) {
        reached.set_value();
        released.get_future().wait();
      }
      return Status::Ok();
    };
    auto slow = std::async(std::launch::async, [&] {
      hangs = true;
      return Protect(Here(), ref_, {});
    });
    reached.get_future().wait();
    for (const std::uint32_t timeout : {0u, 1u}) {
      Options options = options_;
      options.timeout_seconds = timeout;
      const auto start = std::chrono::steady_clock::now();
      const double busy = SecondsOfThisThread();
      const DatasetReport refused = Protect({fs_, *self_, options}, ref_, {});
      EXPECT_EQ(refused.status.code(), Code::kBusy) << Text(refused);
      EXPECT_NE(refused.status.message().find("another process is committing or repairing"), std::string::npos)
          << refused.status.message();
      EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(timeout));
      EXPECT_LT(SecondsOfThisThread() - busy, 0.5) << "it waits without rest";
    }
    // Looking needs no lock.
    EXPECT_EQ(ExitCodeOf(Check()), 9) << Text(Check());
    auto patient = std::async(std::launch::async, [&] {
      Options options = options_;
      options.timeout_seconds = 600;
      auto self = SelfCommunicator();
      return Protect({fs_, *self, options}, ref_, {});
    });
    released.set_value();
    EXPECT_EQ(ExitCodeOf(slow.get()), 0);
    EXPECT_EQ(ExitCodeOf(patient.get()), 0);
    fs_.fault = nullptr;
    EXPECT_EQ(std::string(Name(Check().state)), "intact");
  }
}

// --------------------------------------------------------------------------------------------------------------
// crashes

TEST_F(OrdinaryForm, AGenerationThatOneMemberHasCountsForAll) {
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
    EXPECT_EQ(std::string(Name(found.state)), "damaged") << Text(found);
    for (const Damage& d : found.damage) EXPECT_EQ(d.part, DamagePart::kMetadata) << Text(found);
    for (const auto& [path, node] : before) EXPECT_EQ(fs_.At(path).bytes, node.bytes) << "looking changes nothing";
    EXPECT_EQ(ExitCodeOf(Repair()), 0);
    ExpectIntact();
    for (std::uint32_t r = 0; r < 3; ++r) {
      EXPECT_EQ((*Sidecar::Load(fs_, *SidecarPath(paths_[r]), OpenMode::kRead))->generation(), generation + 1)
          << "rolled forward";
    }
  }
}

// Somebody who begins to write between the crash of a commit and its completion sees the generation before.
TEST_F(OrdinaryForm, AnIntentOfTheGenerationBeforeHoldsAfterRollingForward) {
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
        auto data = fs_.Open(paths_[r], OpenMode::kRead);
        auto fresh = Sidecar::Create(fs_, NewSidecarPath(paths_[r]), next, **data);
        ASSERT_OK(fresh);
        Bytes parity(next.superblock.parity_size);
        ASSERT_OK(ReadExactly((*sidecar)->file(), (*sidecar)->ParityFileOffset(0), parity));
        ASSERT_OK((*fresh)->file().WriteAt((*fresh)->ParityFileOffset(0), parity));
        ASSERT_OK((*fresh)->WriteAll(next));
      }
    }
    const auto begun = BeginEpoch(fs_, options_, paths_[1], ref_.path);
    ASSERT_OK(begun);
    Write(1, 3 * kBlock, Bytes(kBlock, 0x11));
    Data(1).stat.mtime_ns = kPast + 1;  // so that nothing but the intent tells
    const auto before = fs_.Copy();
    const DatasetReport read = Check();  // in place, copy 0 is not up to date, which is metadata damage
    const auto at_risk = [](const Damage& d) { return d.part == DamagePart::kData && d.cause == DamageCause::kAtRisk; };
    EXPECT_EQ(std::count_if(read.damage.begin(), read.damage.end(), at_risk), 1) << Text(read);
    for (const Damage& d : read.damage) EXPECT_TRUE(at_risk(d) || d.part == DamagePart::kMetadata) << Text(read);
    for (const auto& [path, node] : before) EXPECT_EQ(fs_.At(path).bytes, node.bytes) << "looking changes nothing";
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
    EXPECT_EQ(std::string(Name(Check().state)), "at-risk");
    EXPECT_FALSE(fs_.Has(NewSidecarPath(paths_[1])));
  }
}

TEST_F(OrdinaryForm, APreparationGivenUpIsNotTakenForTheCommitOfTheSameNumber) {
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
    auto data = fs_.Open(paths_[r], OpenMode::kRead);
    auto fresh = Sidecar::Create(fs_, NewSidecarPath(paths_[r]), next, **data);
    ASSERT_OK(fresh);
    const std::uint64_t size = next.superblock.parity_size;
    Bytes parity(size);
    ASSERT_OK(ReadExactly((*sidecar)->file(), (*sidecar)->ParityFileOffset(0), parity));
    ASSERT_OK((*fresh)->file().WriteAt((*fresh)->ParityFileOffset(0), parity));
    ASSERT_OK((*fresh)->WriteAll(next));
  }
  const DatasetReport found = Check();
  EXPECT_EQ(found.generation, generation + 1);
  EXPECT_EQ(found.root, root_) << Text(found);
  EXPECT_EQ(std::string(Name(found.state)), "intact") << Text(found);
  EXPECT_EQ(ExitCodeOf(Repair()), 0);
  ExpectIntact();
  EXPECT_EQ((*Sidecar::Load(fs_, *SidecarPath(paths_[1]), OpenMode::kRead))->generation(), generation + 1);
}

TEST_F(OrdinaryForm, APreparedGenerationThatNobodyHasIsIgnored) {
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
  EXPECT_EQ(std::string(Name(found.state)), "intact") << Text(found);
}

constexpr std::uint64_t kSector = 512;

/// What happens at one operation.
enum class Fate {
  kCrash,       ///< the process ends; what it did before is there (of the power: power_loss_test.cc)
  kFails,       ///< one change fails, those after it do not
  kTorn,        ///< as kFails, and if it is a write, what it has done by then is there
  kUnreadable,  ///< a bad sector is read, once
  kNotRead,     ///< reading fails, once, for another reason
};

class FateTest : public MisfortuneTest, public ::testing::WithParamInterface<std::tuple<Fate, bool>> {
 protected:
  FateTest() { options_.compact = std::get<1>(GetParam()); }
  Fate fate() const { return std::get<0>(GetParam()); }

  /// Has it happen to `work` at each operation there is, and `check` look at what is left.
  template <class Work, class CheckFn>
  void AtEveryOperation(const Work& work, const CheckFn& check) {
    const auto start = fs_.Copy();
    const bool reading = fate() == Fate::kUnreadable || fate() == Fate::kNotRead;
    const Code code = fate() == Fate::kUnreadable ? Code::kUnreadable : Code::kIo;
    for (std::uint64_t budget = 0;; ++budget) {
      fs_.Restore(start);
      std::atomic<std::uint64_t> used{0};
      std::atomic<bool> torn{false};
      fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
        if ((op == MemoryFileSystem::Op::kRead) != reading) return Status::Ok();
        const std::uint64_t number = used++;
        const bool struck = fate() == Fate::kCrash ? number >= budget : number == budget;
        if (fate() == Fate::kTorn && struck && op == MemoryFileSystem::Op::kWrite) {
          torn = true;
          return Status::Ok();
        }
        return struck ? Status(code, path + ": no luck") : Status::Ok();
      };
      fs_.lie = [&](MemoryFileSystem::Op op, const std::string&, std::uint64_t, std::uint64_t length, bool) {
        MemoryFileSystem::Lie lie;
        if (op != MemoryFileSystem::Op::kWrite || !torn.exchange(false)) return lie;
        // After a sector, or anywhere.
        lie.kind = MemoryFileSystem::Lie::Kind::kTorn;
        lie.bytes = budget % 2 == 0 ? length / 2 / kSector * kSector : Below(rng_, length);
        return lie;
      };
      const bool done = work();
      fs_.fault = nullptr;
      fs_.lie = nullptr;
      auto left = fs_.Copy();
      fs_.Restore(left);  // locks go with the process
      SCOPED_TRACE(fmt::format("struck at operation {}", budget));
      check(done);
      if (HasFailure() || used <= budget) return;
      ASSERT_LT(budget, 5000u);
    }
  }
};

TEST_P(FateTest, FirstCommit) {
  for (std::uint32_t members : {0u, 3u}) {
    Make(members);
    for (const std::string& path : paths_) ASSERT_OK(fs_.Remove(*SidecarPath(path)));
    const auto data = fs_.Copy();
    AtEveryOperation([&] { return Protect(Here(), ref_, {}).status.ok(); },
                     [&](bool done) {
                       for (const std::string& path : paths_) EXPECT_EQ(fs_.At(path).bytes, data.at(path).bytes);
                       if (done) {
                         ExpectIntact();
                       }
                       const DatasetReport again = Protect(Here(), ref_, {});
                       ASSERT_TRUE(again.status.ok()) << Text(again);
                       EXPECT_EQ(again.root, root_);
                       ExpectIntact();
                     });
  }
}

TEST_P(FateTest, LzyProtectOfAnEditedDataset) {
  for (std::uint32_t members : {0u, 3u}) {
    Make(members);
    for (std::uint32_t r = 0; r < paths_.size(); ++r) {
      Write(r, 5 * kBlock, Bytes(700, 0x77));
    }
    AtEveryOperation([&] { return Protect(Here(), ref_, {}).status.ok(); },
                     [&](bool) { ExpectRecoverable(members > 0 ? "set" : "shared"); });
  }
}

TEST_P(FateTest, EpochOfASharedFile) {
  Make();
  AtEveryOperation([&] { return Epoch(1); }, [&](bool) { ExpectRecoverable("shared"); });
}

TEST_P(FateTest, EpochOfASet) {
  Make(3);
  AtEveryOperation([&] { return Epoch(3); }, [&](bool) { ExpectRecoverable("set"); });
}

TEST_P(FateTest, Repair) {
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    for (std::uint64_t block : {2u, 3u, 11u}) Data().bytes[block * kBlock] ^= 1;
    if (members > 0) {
      Data(1).bytes.push_back(9);
    }
    AtEveryOperation([&] { return this->MisfortuneTest::Repair().status.ok(); },
                     [&](bool) {
                       const DatasetReport again = this->MisfortuneTest::Repair();
                       ASSERT_TRUE(again.status.ok()) << Text(again);
                       EXPECT_EQ(ExitCodeOf(again), 0) << Text(again);
                       ExpectDataAsCommitted();
                       ExpectIntact();
                     });
  }
}

TEST_P(FateTest, Restore) {
  Make(4);
  ASSERT_OK(fs_.Remove(paths_[1]));
  ASSERT_OK(fs_.Remove(*SidecarPath(paths_[1])));
  ASSERT_OK(fs_.Remove(*SidecarPath(paths_[2])));
  AtEveryOperation([&] { return lzy::Restore(Here(), Ref(), {}).status.ok(); },
                   [&](bool) {
                     const DatasetReport again = lzy::Restore(Here(), Ref(), {});
                     ASSERT_TRUE(again.status.ok()) << Text(again);
                     EXPECT_EQ(ExitCodeOf(again), 0) << Text(again);
                     ExpectDataAsCommitted();
                     ExpectIntact();
                   });
}

std::string NameOfFate(const ::testing::TestParamInfo<std::tuple<Fate, bool>>& test) {
  constexpr const char* kNames[] = {"Crash", "Fails", "Torn", "Unreadable", "NotRead"};
  return std::string(kNames[static_cast<int>(std::get<0>(test.param))]) + (std::get<1>(test.param) ? "Compact" : "");
}
INSTANTIATE_TEST_SUITE_P(Of, BothForms, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Compact" : "Ordinary"; });
INSTANTIATE_TEST_SUITE_P(Of, FateTest,
                         ::testing::Combine(::testing::Values(Fate::kCrash, Fate::kFails, Fate::kTorn,
                                                              Fate::kUnreadable, Fate::kNotRead),
                                            ::testing::Bool()),
                         NameOfFate);

}  // namespace
}  // namespace lzy::testing
