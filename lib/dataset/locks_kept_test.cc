// A run takes the lock of a sidecar once, and keeps it to the end, even if it opens its dataset again.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/engine.h"
#include "memory_dataset.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

class LocksKept : public MemoryDatasetTest {
 protected:
  LocksKept() : MemoryDatasetTest(/*block_size=*/512, /*stripe=*/1024, /*group=*/6) {}

  void Make(std::uint32_t members) {
    NameFiles(members);
    for (const std::string& path : paths_) fs_.Put(path, RandomBytes(rng_, 3000), /*mtime_ns=*/1'600'000'000'000'000'000);
  }
  void Protected(std::uint32_t members) {
    Make(members);
    ASSERT_OK(Protect(Here(), ref_, {}).status);
    fs_.lockings.clear();
  }
  /// How often the run locked the file that it locked most often.
  int MostLockings() {
    int most = 0;
    for (const auto& [inode, times] : fs_.lockings) most = std::max(most, times);
    return most;
  }
  void ExpectNothingLocked() {
    for (const auto& [path, node] : fs_.nodes()) EXPECT_FALSE(node->locked) << path;
  }
};

TEST_F(LocksKept, ByACommitThatMakesTheSidecars) {
  for (const std::uint32_t members : {0u, 4u}) {
    Make(members);
    fs_.lockings.clear();
    EXPECT_OK(Protect(Here(), ref_, {}).status);
    EXPECT_EQ(MostLockings(), 1);
    ExpectNothingLocked();
  }
}

// The commit removes the sidecars that it created, under their locks.
TEST_F(LocksKept, ByACommitThatFails) {
  for (const std::uint32_t members : {0u, 4u}) {
    Make(members);
    fs_.lockings.clear();
    const std::string last = paths_.back();
    fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
      return op == MemoryFileSystem::Op::kRead && path == last ? Status(Code::kIo, "wire cut") : Status::Ok();
    };
    EXPECT_CODE(Protect(Here(), ref_, {}).status, Code::kIo);
    fs_.fault = nullptr;
    EXPECT_EQ(MostLockings(), 1);
    EXPECT_EQ(fs_.nodes().size(), paths_.size()) << "a sidecar was left behind";
    ExpectNothingLocked();
  }
}

// A plain restore first assumes that only whole members are lost. If it finds rot in a block that it rebuilds from, it opens
// the set again.
TEST_F(LocksKept, ByARestoreThatHasToLookAgain) {
  for (std::uint64_t at = 0; at < 3000; at += 512) {
    Protected(6);
    const auto lost = fs_.At(paths_[1]).bytes;
    ASSERT_OK(fs_.Remove(paths_[1]));
    fs_.At(paths_[2]).bytes[at] ^= 1;
    EXPECT_EQ(Restore(Here(), Ref(), {}).state, DatasetState::kRestored);
    EXPECT_EQ(fs_.At(paths_[1]).bytes, lost);
    EXPECT_EQ(MostLockings(), 1);
    ExpectNothingLocked();
  }
}

// Nothing is damaged, but the mode changed. The repair records it with a commit.
TEST_F(LocksKept, ByARepairThatRecordsAccess) {
  for (const std::uint32_t members : {0u, 4u}) {
    Protected(members);
    fs_.At(paths_[0]).stat.mode = 0600;
    const DatasetReport report = Repair();
    EXPECT_EQ(report.state, DatasetState::kIntact);
    EXPECT_TRUE(report.warnings.empty());
    EXPECT_EQ(MostLockings(), 1);
    ExpectNothingLocked();
    fs_.lockings.clear();
    EXPECT_OK(Repair().status);
    EXPECT_EQ(MostLockings(), 1) << "and once only";
  }
}

}  // namespace
}  // namespace lzy::testing
