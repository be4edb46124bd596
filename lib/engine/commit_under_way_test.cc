// Readers take no lock. Stops a commit at each of its operations and at each operation of a reader; the reader must call
// nothing damaged. The same after a commit that was killed there.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "both_forms.h"
#include "misfortune_fixture.h"

namespace lzy::testing {
namespace {

using Op = MemoryFileSystem::Op;

/// Lets a reader and a writer take turns: one continues only while the other waits. Each may have several threads.
class Turns {
 public:
  enum Side { kReader, kWriter };
  /// Waits for the turn of `side`.
  void Await(Side side) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || turn_ == side; });
  }
  /// Lets the other side go on, and waits until it gives the turn back or ends.
  void Yield(Side side) {
    {
      std::lock_guard lock(mutex_);
      turn_ = side == kReader ? kWriter : kReader;
    }
    changed_.notify_all();
    Await(side);
  }
  /// From now on no thread waits.
  void End() {
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
  }
  bool ended() {
    std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Side turn_ = kReader;
  bool ended_ = false;
};

/// By form of the sidecar and number of members; 0: a shared file.
class CommitUnderWay : public MisfortuneTest, public ::testing::WithParamInterface<std::tuple<bool, std::uint32_t>> {
 protected:
  CommitUnderWay() { options_.compact = std::get<0>(GetParam()); }

  void Begin() {
    fs_.now = [this] { return now_ += 10'000'000; };  // so no commit waits for a tick
    Make(std::get<1>(GetParam()));
    ASSERT_TRUE(Commit(0)) << "so that an epoch in place follows";
    written_ = 0;
  }
  /// A program with one rank for each file writes to the files, without changing their size, and commits.
  bool Commit(std::uint64_t n) {
    std::vector<IntervalSet> touched(paths_.size());
    for (std::uint32_t f = 0; f < paths_.size(); ++f) {
      const bool member = ref_.kind == DatasetKind::kSet;
      const auto begun = BeginEpoch(fs_, options_, paths_[f], member ? ref_.path : "");
      if (!begun.ok()) return false;
      auto file = fs_.Open(paths_[f], OpenMode::kReadWrite);
      const std::uint64_t at = (n * 5 + f) % 20 * kBlock + 13;
      if (!file.ok() || !(*file)->WriteAt(at, Bytes(2 * kBlock, static_cast<std::uint8_t>(n + 1))).ok()) return false;
      if (!(*file)->Sync().ok()) return false;
      touched[f].Add({at, at + 2 * kBlock});
      if (begun->changed_behind) touched[f].AddWhole();
    }
    std::atomic<bool> done{true};
    RunRanks(static_cast<int>(paths_.size()), [&](Communicator& comm) {
      const auto rank = static_cast<std::uint32_t>(comm.rank());
      ProtectRequest request;
      request.touched.emplace();
      (*request.touched)[rank] = touched[rank];
      DatasetRef ref = ref_;
      std::erase_if(ref.members, [&](const auto& m) { return m.first != rank; });
      if (!Protect(Context{fs_, comm, options_}, ref, request).status.ok()) done = false;
    });
    return done;
  }

  /// Calls all readers that judge.
  void ExpectNoDamage(const std::string& when) {
    for (const bool info : {false, true}) {
      const DatasetReport report = info ? Info(Here(), Ref()) : Check();
      const int code = ExitCodeOf(report);
      EXPECT_TRUE(report.status.ok() && (code == 0 || code == 9)) << when << (info ? ", info: " : ", verify: ") << Text(report);
    }
  }

  std::uint64_t written_ = 0;
  std::int64_t now_ = kPast + kNsPerSecond;
};

TEST_P(CommitUnderWay, AReaderLooksAtEachOperation) {
  Begin();
  static thread_local bool looking = false;
  std::mutex one_at_a_time;
  std::uint64_t operations = 0;
  fs_.fault = [&](Op op, const std::string& path, std::uint64_t offset, std::uint64_t) {
    if (looking || op == Op::kRead || HasFailure()) return Status::Ok();
    const std::lock_guard lock(one_at_a_time);
    looking = true;
    ExpectNoDamage(fmt::format("before operation {}, of kind {} on {} at {}", operations++, static_cast<int>(op), path, offset));
    looking = false;
    return Status::Ok();
  };
  EXPECT_TRUE(Commit(1));
  fs_.fault = nullptr;
  EXPECT_GT(operations, 10u);
  EXPECT_EQ(ExitCodeOf(Check()), 0);
}

TEST_P(CommitUnderWay, WhatAKilledOneLeavesIsNoDamage) {
  Begin();
  const auto start = fs_.Copy();
  for (std::uint64_t budget = 0; !HasFailure(); ++budget) {
    fs_.Restore(start);
    std::atomic<std::uint64_t> used = 0;
    fs_.fault = [&](Op op, const std::string& path, std::uint64_t, std::uint64_t) {
      return op == Op::kRead || used++ < budget ? Status::Ok() : Status(Code::kIo, path + ": killed");
    };
    (void)Commit(1);
    fs_.fault = nullptr;
    fs_.Restore(fs_.Copy());  // locks go with the process
    ExpectNoDamage(fmt::format("killed after {} operations", budget));
    const auto left = fs_.Copy();
    const DatasetReport repaired = Repair();
    EXPECT_TRUE(repaired.status.ok() && (ExitCodeOf(repaired) == 0 || ExitCodeOf(repaired) == 9)) << budget << Text(repaired);
    for (const Damage& d : repaired.damage) EXPECT_TRUE(d.part != DamagePart::kMetadata || d.repaired) << budget << Text(repaired);
    for (const std::string& path : paths_) EXPECT_EQ(fs_.At(path).bytes, left.at(path).bytes) << "repair took data back";
    if (paths_.size() == 1 || budget % 8 == 0) {  // ranks of a set are threads, which takes time
      fs_.Restore(left);
      EXPECT_TRUE(Commit(2)) << budget;
      EXPECT_EQ(ExitCodeOf(Check()), 0) << "the next commit finishes it: " << budget;
    }
    if (used <= budget) return;
    ASSERT_LT(budget, 5000u);
  }
}

// A writer commits repeatedly. At each operation of the reader, it continues by some of its own operations.
TEST_P(CommitUnderWay, CommitsGoOnAtEachOperationOfTheReader) {
  Begin();
  for (const std::uint64_t pace : {1u, 3u, 7u}) {
    for (std::uint64_t head_start = 0; head_start < 2 && !HasFailure(); ++head_start) {
      Turns turns;
      static thread_local bool reads = false;
      std::mutex one_at_a_time;
      std::uint64_t done = 0, allowed = head_start * 11;
      fs_.fault = [&](Op op, const std::string&, std::uint64_t, std::uint64_t) {
        if (reads) {
          allowed += pace;
          turns.Yield(Turns::kReader);
        } else if (op != Op::kRead) {
          const std::lock_guard lock(one_at_a_time);
          if (++done > allowed) turns.Yield(Turns::kWriter);
        }
        return Status::Ok();
      };
      std::thread writer([&] {
        turns.Await(Turns::kWriter);
        while (!turns.ended()) EXPECT_TRUE(Commit(++written_));
      });
      reads = true;
      ExpectNoDamage(fmt::format("pace {}, head start {}", pace, head_start));
      reads = false;
      turns.End();
      writer.join();
      fs_.fault = nullptr;
      EXPECT_EQ(ExitCodeOf(Check()), 0);
    }
  }
}

// An interrupted commit must not hide rot.
TEST_P(CommitUnderWay, RotIsDamageWhenNobodyCommits) {
  Begin();
  Bytes& sidecar = fs_.At(*SidecarPath(paths_[0])).bytes;
  sidecar[sidecar.size() / 2] ^= 1;
  sidecar[kCompactSuperblockSize / 2] ^= 1;
  const DatasetReport found = Check();
  EXPECT_EQ(ExitCodeOf(found), 1) << Text(found);
  EXPECT_EQ(ExitCodeOf(Repair()), 0);
  EXPECT_EQ(ExitCodeOf(Check()), 0);
}

std::string NameOfCommit(const ::testing::TestParamInfo<std::tuple<bool, std::uint32_t>>& test) {
  return (std::get<1>(test.param) == 0 ? "Shared" : "Set") + SuffixOfForm(std::get<0>(test.param));
}
INSTANTIATE_TEST_SUITE_P(Of, CommitUnderWay, ::testing::Combine(::testing::Bool(), ::testing::Values(0u, 3u)), NameOfCommit);

}  // namespace
}  // namespace lzy::testing
