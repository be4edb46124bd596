// Many threads and processes lock and create sidecars at once. Files are real, because the races are between system calls.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "base/printable.h"
#include "commit/protector.h"
#include "dataset/lock.h"
#include "dataset/view.h"
#include "engine_fixture.h"
#include "passing_files.h"
#include "sidecar/names.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

class LockTest : public ::testing::Test {
 protected:
  FileSystem& fs_ = PosixFileSystem();
  Scratch dir_;
  const std::string data_ = dir_ / "f";
  const std::string sidecar_ = dir_ / ".LZY.f";

  std::unique_ptr<File> Data() { return std::move(fs_.Open(data_, OpenMode::kReadWrite)).value(); }
  static EmptySidecar Empty() { return NewSidecar(Options(), DatasetKind::kShared, "f", 0); }
  std::uint32_t ModeOf(const std::string& path) { return fs_.Stat(path)->mode; }

  /// Locks the sidecar from `threads` at once; each creates it if it is missing. All must get the same sidecar, one at a
  /// time.
  void LockByMany(int threads) {
    std::atomic<int> holders{0};
    std::mutex mutex;
    std::set<Uuid> seen;
    std::vector<std::thread> all;
    std::atomic<bool> go{false};
    for (int i = 0; i < threads; ++i) {
      all.emplace_back([&] {
        auto data = Data();
        const EmptySidecar empty = Empty();
        while (!go) std::this_thread::yield();
        auto sidecar = LockSidecar(fs_, sidecar_, data.get(), &empty, 60);
        ASSERT_OK(sidecar);
        EXPECT_EQ(holders++, 0) << "two hold the lock";
        std::lock_guard lock(mutex);
        seen.insert((*sidecar)->contents().superblock.uuid);
        --holders;
      });
    }
    go = true;
    for (std::thread& thread : all) thread.join();
    EXPECT_EQ(seen.size(), 1u) << "some hold a sidecar that was replaced under them";
    EXPECT_EQ(fs_.List(dir_.path())->size(), 2u) << "nothing is left behind";
  }
};

TEST_F(LockTest, ManyThreadsThatMakeASidecarGetTheSameOne) {
  WriteFile(data_, Bytes(100));
  for (int round = 0; round < 60 && !HasFailure(); ++round) {
    (void)fs_.Remove(sidecar_);
    LockByMany(4);
  }
}

TEST_F(LockTest, ManyThreadsThatReplaceADestroyedSidecarGetTheSameOne) {
  WriteFile(data_, Bytes(100));
  for (int round = 0; round < 60 && !HasFailure(); ++round) {
    WriteFile(sidecar_, Bytes(20000, 0x5a));
    LockByMany(4);
  }
}

TEST_F(LockTest, ADestroyedSidecarIsNotReplacedWithoutContents) {
  WriteFile(data_, Bytes(100));
  WriteFile(sidecar_, Bytes(20000, 0x5a));
  EXPECT_CODE(LockSidecar(fs_, sidecar_, nullptr, nullptr, 1), Code::kUnprotected);
  EXPECT_EQ(ReadFile(sidecar_), Bytes(20000, 0x5a));
  EXPECT_CODE(LockSidecar(fs_, dir_ / ".LZY.g", nullptr, nullptr, 1), Code::kNotFound);
}

TEST_F(LockTest, ATimeoutNamesTheHolderOfTheLock) {
  WriteFile(data_, Bytes(100));
  auto data = Data();
  const EmptySidecar empty = Empty();
  auto first = LockSidecar(fs_, sidecar_, data.get(), &empty, 1);
  ASSERT_OK(first);
  auto second = LockSidecar(fs_, sidecar_, data.get(), &empty, 0);
  EXPECT_CODE(second, Code::kBusy);
  EXPECT_NE(second.status().message().find(sidecar_), std::string::npos);
  const std::string self = fmt::format(", process {}, running since ", getpid());
  const std::string message = second.status().message();
  const std::size_t at = message.find(self);
  ASSERT_NE(at, std::string::npos) << message;
  EXPECT_TRUE(message.ends_with(" UTC, on this host")) << message;
  // A test does not run for a day.
  const std::string since = message.substr(at + self.size());
  const std::int64_t now = WallClockNs();
  EXPECT_LE(since, TimeText(now + 1'000'000'000)) << message;
  EXPECT_GE(since, TimeText(now - std::int64_t{86400} * 1'000'000'000)) << message;
}

/// Counts how often files are opened for writing. The first `stale` of these files were replaced by another node.
class LateFiles final : public PassingFileSystem {
 public:
  LateFiles(FileSystem& fs, int stale) : PassingFileSystem(fs), stale_(stale) {}
  int opened() const { return opened_; }
  Result<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode, bool follow, std::uint32_t create_mode) override {
    class Replaced final : public ReadOnlyFile {
     public:
      using ReadOnlyFile::ReadOnlyFile;
      Status Lock() override { return {Code::kNotFound, path() + ": lock: gone"}; }
    };
    if (mode != OpenMode::kReadWrite) return PassingFileSystem::Open(path, mode, follow, create_mode);
    if (++opened_ <= stale_) return std::unique_ptr<File>(std::make_unique<Replaced>(path));
    return PassingFileSystem::Open(path, mode, follow, create_mode);
  }

 private:
  const int stale_;
  int opened_ = 0;
};

// A server may keep the lock of a closed descriptor as long as others open the file.
TEST_F(LockTest, WhoWaitsDoesNotOpenTheSidecarAgainAndAgain) {
  WriteFile(data_, Bytes(100));
  auto data = Data();
  const EmptySidecar empty = Empty();
  const auto holder = LockSidecar(fs_, sidecar_, data.get(), &empty, 1);
  ASSERT_OK(holder);
  LateFiles files(fs_, 0);
  EXPECT_CODE(LockSidecar(files, sidecar_, nullptr, nullptr, 1), Code::kBusy);
  EXPECT_EQ(files.opened(), 1);
}

TEST_F(LockTest, AFileThatAnotherNodeReplacedIsOpenedAgain) {
  WriteFile(data_, Bytes(100));
  auto data = Data();
  const EmptySidecar empty = Empty();
  ASSERT_OK(LockSidecar(fs_, sidecar_, data.get(), &empty, 1));
  LateFiles files(fs_, 3);
  EXPECT_OK(LockSidecar(files, sidecar_, nullptr, nullptr, 0));
  EXPECT_EQ(files.opened(), 4);
}

// Parity reveals data.
TEST_F(LockTest, TheSidecarGetsTheModeOfTheFile) {
  WriteFile(data_, Bytes(100));
  ASSERT_EQ(chmod(data_.c_str(), 0664), 0);
  auto data = Data();
  const EmptySidecar empty = Empty();
  ASSERT_OK(LockSidecar(fs_, sidecar_, data.get(), &empty, 1));
  EXPECT_EQ(ModeOf(sidecar_), 0664u);
  ASSERT_EQ(chmod(data_.c_str(), 0640), 0);
  ASSERT_OK(LockSidecar(fs_, sidecar_, data.get(), nullptr, 1));
  EXPECT_EQ(ModeOf(sidecar_), 0640u);
  // The owner's own permissions for the file do not keep him from writing the sidecar.
  ASSERT_EQ(chmod(data_.c_str(), 0400), 0);
  ASSERT_OK(LockSidecar(fs_, sidecar_, data.get(), nullptr, 1));
  EXPECT_EQ(ModeOf(sidecar_), 0600u);
  ASSERT_EQ(chmod(data_.c_str(), 0666), 0);
  ASSERT_OK(LockSidecar(fs_, sidecar_, data.get(), nullptr, 1));
  EXPECT_EQ(ModeOf(sidecar_), 0600u) << "never wider again";
}

TEST_F(LockTest, VerifyAndRepairNarrowTheSidecarToo) {
  WriteFile(data_, Bytes(100000, 1));
  ASSERT_EQ(chmod(data_.c_str(), 0644), 0);
  auto comm = SelfCommunicator();
  Options options;
  const Context context{fs_, *comm, options};
  const DatasetRef ref{DatasetKind::kShared, data_, {}};
  ASSERT_OK(Protect(context, ref, {}).status);
  EXPECT_EQ(ModeOf(sidecar_), 0644u);
  ASSERT_EQ(chmod(data_.c_str(), 0600), 0);
  VerifyRequest repair;
  repair.repair = true;
  ASSERT_OK(Verify(context, ref, repair).status);
  EXPECT_EQ(ModeOf(sidecar_), 0600u);
}

// Like two runs of lzy-protect on one file: each may create the sidecar or find it.
TEST_F(LockTest, TwoThreadsProtectAFileForTheFirstTime) {
  Rng rng(1);
  WriteFile(data_, RandomBytes(rng, 1 << 20));
  Options options;
  options.threads = 1;
  const DatasetRef ref{DatasetKind::kShared, data_, {}};
  for (int round = 0; round < 50 && !HasFailure(); ++round) {
    (void)fs_.Remove(sidecar_);
    std::vector<std::thread> both;
    for (int i = 0; i < 2; ++i) {
      both.emplace_back([&] {
        auto comm = SelfCommunicator();
        const DatasetReport report = Protect({fs_, *comm, options}, ref, {});
        EXPECT_OK(report.status);
        EXPECT_EQ(ExitCodeOf(report), 0);
      });
    }
    for (std::thread& thread : both) thread.join();
    auto comm = SelfCommunicator();
    const DatasetReport found = Verify({fs_, *comm, options}, ref, {});
    EXPECT_EQ(ExitCodeOf(found), 0) << found.status.message();
    EXPECT_EQ(found.generation, 1u) << "the second found it made";
  }
}

}  // namespace
}  // namespace lzy::testing
