// Many threads or ranks of a tool write parity and rebuilt files of a tmpfs through mapped pages (base/many_writers.h).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "sidecar/names.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class ManyWritersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!dir_.path().starts_with("/dev/shm/")) GTEST_SKIP() << "no /dev/shm";
    ASSERT_EQ(unsetenv("LZY_PARITY_WRITES"), 0);
    sample_.options.threads = 4;
  }
  /// A file, or a set of `members`, of `size` bytes in all: random, a third of them holes, and no multiple of a block.
  void Make(std::uint32_t members, std::uint64_t size) {
    Rng rng(40);
    sample_.kind = members == 0 ? DatasetKind::kShared : DatasetKind::kSet;
    sample_.path = members == 0 ? dir_ / "file" : dir_ / "set.%r";
    sample_.files.clear();
    for (std::uint32_t i = 0; i < std::max(1u, members); ++i) {
      sample_.files.push_back(members == 0 ? sample_.path : dir_ / fmt::format("set.{}", i));
      const std::uint64_t own = size / std::max(1u, members) + 1000 * i + 77;
      WriteFile(sample_.files.back(), RandomBytes(rng, own));
      const Bytes zeros(own / 3, 0);
      WriteAt(sample_.files.back(), own / 3, zeros);
    }
  }
  Context In(FileSystem& fs, Communicator& comm) {
    Context context{fs, comm, sample_.options};
    context.progress = [this](const char*, std::uint64_t, std::uint64_t) { Look(); };
    return context;
  }
  /// Notes a file of the directory that is mapped now.
  void Look() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find(" rw-s ") != std::string::npos && line.find(dir_.path()) != std::string::npos) mapped_ = true;
    }
  }
  DatasetReport ProtectIn(FileSystem& fs) {
    mapped_ = false;
    return Protect(In(fs, *alone_), RefOf(*alone_, sample_.path, Resolve::kProtectable), {});
  }

  Scratch dir_;
  Sample sample_;
  std::unique_ptr<FileSystem> tools_ = GuardedFileSystem({dir_.path()});
  std::unique_ptr<Communicator> alone_ = SelfCommunicator();
  std::atomic<bool> mapped_ = false;
};

TEST_F(ManyWritersTest, MapParityAndMakeTheSame) {
  for (const std::uint32_t members : {0u, 5u}) {
    for (const std::uint32_t parity : {1u, 2u, 3u}) {
      sample_.options.parity = parity;
      sample_.options.group = 5;
      Make(members, 40 * kMiB);
      ASSERT_OK(ProtectIn(*tools_).status);
      EXPECT_TRUE(mapped_) << members << " " << parity;
      ExpectSame(FingerprintOf(sample_.files), FingerprintOfCopy(sample_, dir_.path()));
      for (const std::string& file : sample_.files) std::filesystem::remove(*SidecarPath(file));
    }
  }
}

TEST_F(ManyWritersTest, AreCallsForTwoThreads) {
  sample_.options.threads = 2;
  sample_.options.parity = 2;
  Make(0, 40 * kMiB);
  ASSERT_OK(ProtectIn(*tools_).status);
  EXPECT_FALSE(mapped_);
}

// The layer and the C API use this file system. They are guests in the program's memory.
TEST_F(ManyWritersTest, AreCallsInAProgram) {
  sample_.options.parity = 3;
  sample_.options.group = 5;
  for (const std::uint32_t members : {0u, 5u}) {
    Make(members, 40 * kMiB);
    ASSERT_OK(ProtectIn(PosixFileSystem()).status);
    std::filesystem::remove(sample_.files.back());
    const DatasetReport restored = Restore(In(PosixFileSystem(), *alone_), RefOf(*alone_, sample_.path), {});
    EXPECT_EQ(ExitCodeOf(restored), 0) << Text(restored);  // with as much parity as data, also a file alone
    EXPECT_FALSE(mapped_) << members;
  }
}

TEST_F(ManyWritersTest, MapFilesThatAreRebuilt) {
  for (const std::uint32_t parity : {1u, 3u}) {
    sample_.options.parity = parity;
    sample_.options.group = 5;
    Make(5, 60 * kMiB);
    ASSERT_OK(ProtectIn(*tools_).status);
    const Image before = ImageOf(dir_.path());
    for (std::uint32_t i = 0; i < parity; ++i) {
      std::filesystem::remove(sample_.files[i]);
      std::filesystem::remove(*SidecarPath(sample_.files[i]));
    }
    mapped_ = false;
    const DatasetReport restored = Restore(In(*tools_, *alone_), RefOf(*alone_, sample_.path), {});
    EXPECT_EQ(ExitCodeOf(restored), 0) << Text(restored);
    EXPECT_TRUE(mapped_) << parity;
    for (const std::string& file : sample_.files) EXPECT_TRUE(ImageOf(dir_.path()).at(file) == before.at(file)) << file;
    EXPECT_EQ(ExitCodeOf(Verify(In(PosixFileSystem(), *alone_), RefOf(*alone_, sample_.path), {})), 0);
    for (const std::string& file : sample_.files) std::filesystem::remove(*SidecarPath(file));
  }
}

// Each rank has one thread. Ranks cannot see whether another one is in a call, so all of them map the file.
TEST_F(ManyWritersTest, MayBeRanks) {
  sample_.options.threads = 1;
  sample_.options.parity = 2;
  Make(0, 40 * kMiB);
  for (const int ranks : {2, 4}) {
    mapped_ = false;
    RunRanks(ranks, [&](Communicator& comm) {
      const auto fs = GuardedFileSystem({dir_.path()});
      ASSERT_OK(Protect(In(*fs, comm), RefOf(comm, sample_.path, Resolve::kProtectable), {}).status);
    });
    EXPECT_EQ(mapped_, ranks > 2) << ranks;
    ExpectSame(FingerprintOf(sample_.files), FingerprintOfCopy(sample_, dir_.path()));
    std::filesystem::remove(*SidecarPath(sample_.path));
  }
}

}  // namespace
}  // namespace lzy::testing
