// Restores named devices and lost members, with other damage beside them.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "misfortune_fixture.h"
#include "sidecar/sidecar.h"

namespace lzy::testing {
namespace {

TEST_P(BothForms, ANamedDeviceIsRebuilt) {
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
    ExpectBytes(before);
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

TEST_P(BothForms, ARestoreReadsSurvivorsOnce) {
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

// The damaged block may be a source or not. It is repaired and reported in any case.
TEST_P(BothForms, ARestoreRepairsOtherDamageToo) {
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
      LoseMember(1);
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

// With ranks of one node and of several, each with a member. If any rank finds a wrong source, all ranks start again.
TEST_P(BothForms, ARestoreByManyRanksRepairsOtherDamageToo) {
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

// Members of one group must not get their names if another group turns out to have lost more.
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
          LoseMember(lost);
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

TEST_P(BothForms, ARestoreThatFailsLeavesNoHalfFile) {
  Make(4);
  LoseMember(1);
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

TEST_P(BothForms, DamageInARestoredMemberIsFound) {
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
  LoseMember(2);
  EXPECT_EQ(ExitCodeOf(Restore(Here(), Ref(), {})), 0);
  ExpectDataAsCommitted();
  Data(2).bytes[77] ^= 1;
  const DatasetReport found = Check();
  EXPECT_EQ(StateOf(found), "damaged") << Text(found);
}

}  // namespace
}  // namespace lzy::testing
