#include "sidecar/commit_clock.h"

#include <gtest/gtest.h>

#include "memory_files.h"
#include "status_matchers.h"

namespace lzy {
namespace {

constexpr std::int64_t kPast = 1'600'000'000'000'000'000;

class CommitClockTest : public ::testing::Test {
 protected:
  CommitClockTest() {
    fs_.now = [this] { return clock_ / kNsPerSecond * kNsPerSecond; };
  }
  std::unique_ptr<File> Open() {
    auto file = fs_.Open("d/.LZY.f", OpenMode::kReadWrite);
    return file.ok() ? std::move(*file) : nullptr;
  }

  testing::MemoryFileSystem fs_;
  std::int64_t clock_ = kPast + 300'000'000;
};

TEST_F(CommitClockTest, IsThatOfTheFileSystemAndLeavesTheFileAsItIs) {
  const std::vector<std::uint8_t> bytes{1, 2, 3};
  fs_.Put("d/.LZY.f", bytes, kPast - 1000);
  const auto file = Open();
  for (const std::int64_t expected : {kPast, kPast + kNsPerSecond}) {
    const auto clock = FileSystemClock(*file);
    ASSERT_OK(clock);
    EXPECT_EQ(*clock, expected);
    EXPECT_EQ(fs_.At("d/.LZY.f").bytes, bytes);
    clock_ += kNsPerSecond;
  }
}

TEST_F(CommitClockTest, AnEmptyFileGetsAByte) {
  fs_.Put("d/.LZY.f", {}, kPast - 1000);
  const auto clock = FileSystemClock(*Open());
  ASSERT_OK(clock);
  EXPECT_EQ(*clock, kPast);
  EXPECT_EQ(fs_.At("d/.LZY.f").bytes, std::vector<std::uint8_t>{0});
}

TEST_F(CommitClockTest, AFileThatCannotBeWrittenTellsNone) {
  fs_.Put("d/.LZY.f", {1, 2, 3});
  fs_.fault = [](testing::MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
    return op == testing::MemoryFileSystem::Op::kWrite ? Status(Code::kIo, path) : Status::Ok();
  };
  EXPECT_EQ(FileSystemClock(*Open()).status().code(), Code::kIo);
}

}  // namespace
}  // namespace lzy
