// A full disk, no memory on one rank, and a device that hangs.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <future>
#include <string>
#include <vector>

#include "misfortune_fixture.h"

namespace lzy::testing {
namespace {

TEST_P(BothForms, AFullDiskLeavesTheDatasetAsItWas) {
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
      EXPECT_EQ(StateOf(after), "stale") << Text(after);
      ASSERT_LT(budget, 1000u);
    }
    const DatasetReport made = Check();
    EXPECT_EQ(StateOf(made), "intact") << Text(made);
  }
}

// Each operation on files in turn runs out of memory, on one rank of three. No rank may wait forever, all ranks must get the
// same report, and what was protected must stay so (or be at risk).
TEST_P(BothForms, OutOfMemoryOnOneRankIsTheSameErrorOnAll) {
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
          // One copy of the metadata may be half written. Another one is whole.
          EXPECT_TRUE(d.cause == DamageCause::kAtRisk || d.cause == DamageCause::kStale ||
                      d.part == DamagePart::kMetadata || std::string(what) == "restore")
              << "operation " << at << ": " << Text(after);
        }
      }
      EXPECT_GT(stopped, 3);
    }
  }
}

double SecondsOfThisThread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// The commit of another process hangs in a sync. Others wait for their timeout without using the processor, and say what
// they wait for. When the storage continues, everything does.
TEST_P(BothForms, OthersWaitForACommitThatHangsUntilTheirTimeout) {
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
    // Readers need no lock.
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
    EXPECT_EQ(StateOf(Check()), "intact");
  }
}

}  // namespace
}  // namespace lzy::testing
