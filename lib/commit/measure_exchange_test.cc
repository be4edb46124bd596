// After which commits the ways of adding up parity may be measured, in which communicators, and for how long.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <vector>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "sidecar/names.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

constexpr int kRanks = 4;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class MeasuringAfterCommits : public ::testing::Test {
 protected:
  /// How many ranks were asked to measure, by the size of the communicator. Protects a dataset of kRanks files (or one
  /// file) with so many bytes each.
  std::map<int, int> Protected(bool set, std::uint64_t bytes, std::uint32_t group) {
    const Scratch scratch;
    DatasetRef ref{DatasetKind::kShared, scratch / "f", {}};
    if (set) {
      ref = {DatasetKind::kSet, scratch / "s.%r", {}};
      for (std::uint32_t r = 0; r < kRanks; ++r) ref.members[r] = ExpandPattern(ref.path, r);
    }
    for (std::uint64_t r = 0; r < (set ? kRanks : 1); ++r) {
      WriteFile(set ? ref.members.at(static_cast<std::uint32_t>(r)) : ref.path, Bytes(bytes, static_cast<std::uint8_t>(r + 1)));
    }
    Options options;
    options.group = group;
    options.threads = 1;
    std::mutex mutex;
    std::map<int, int> asked;
    const auto measured = [&](int, int size, double seconds) {
      const std::lock_guard lock(mutex);
      seconds_.push_back(seconds);
      ++asked[size];
    };
    const auto work = [&](Communicator& comm) {
      const DatasetReport report = Protect(Context{.fs = PosixFileSystem(), .comm = comm, .options = options}, ref, {});
      EXPECT_OK(report.status);
      const std::lock_guard lock(mutex);
      total_ = report.phases.total;
    };
    RunRanks(kRanks, work, {}, nullptr, nullptr, measured);
    return asked;
  }
  static int Calls(const std::map<int, int>& asked, int size) {
    const auto found = asked.find(size);
    return found == asked.end() ? 0 : found->second;
  }

  std::vector<double> seconds_;
  double total_ = 0;
};

TEST_F(MeasuringAfterCommits, OnlyIfTheyHaveMoreThan64MiB) {
  EXPECT_TRUE(Protected(true, 16 * kMiB, 8).empty());
  EXPECT_TRUE(Protected(false, 64 * kMiB, 8).empty());
  EXPECT_EQ(Calls(Protected(true, 16 * kMiB + 4096, 8), kRanks), kRanks);
  EXPECT_EQ(Calls(Protected(false, 64 * kMiB + 4096, 8), kRanks), kRanks);
}

TEST_F(MeasuringAfterCommits, InTheGroupsOfASet) {
  const auto asked = Protected(true, 17 * kMiB, 2);
  EXPECT_EQ(Calls(asked, 2), kRanks) << "two groups of two ranks";
}

TEST_F(MeasuringAfterCommits, ForOnePercentOfTheirTime) {
  (void)Protected(true, 17 * kMiB, 8);
  ASSERT_EQ(seconds_.size(), static_cast<std::size_t>(kRanks));
  for (const double seconds : seconds_) {
    EXPECT_GT(seconds, 0);
    EXPECT_LE(seconds, total_ / 100 + 1e-9);
    EXPECT_EQ(seconds, seconds_[0]) << "the same on all ranks";
  }
}

}  // namespace
}  // namespace lzy::testing
