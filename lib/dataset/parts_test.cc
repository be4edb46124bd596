// Device directories: parity in parts. Whole devices are lost together with their data.
#include "dataset/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "dataset/view.h"
#include "engine/engine.h"
#include "memory_files.h"
#include "parts_fixture.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

TEST_F(PartsTest, AnyDevicesUpToParityAreRebuilt) {
  for (std::uint64_t round = 0; round < RoundsOf(40); ++round) {
    const auto parity = static_cast<std::uint32_t>(1 + Below(rng_, 3));
    const auto count = static_cast<std::uint32_t>(parity + 1 + Below(rng_, 7));
    SCOPED_TRACE(fmt::format("LZY_TEST_SEED round {}, {} directories, parity {}", round, count, parity));
    UseDirectories(count, parity, static_cast<std::uint32_t>(parity + 1 + Below(rng_, 6)));
    MakeFile(Below(rng_, 60000));
    const int ranks = static_cast<int>(1 + Below(rng_, 3));
    const DatasetReport made = ProtectIt(ranks);
    ASSERT_OK(made.status);
    ASSERT_EQ(made.devices, count);
    const DatasetReport intact = VerifyIt(other_, false, ranks);
    ASSERT_EQ(StateOf(intact), "intact") << Text(intact);
    EXPECT_EQ(intact.root, made.root);
    const Bytes truth = ReadFile(path_);
    std::vector<std::uint32_t> devices;
    for (std::uint32_t d = 0; d < count && devices.size() < parity; ++d) {
      if (OneIn(rng_, 2)) devices.push_back(d);
    }
    for (const std::uint32_t d : devices) LoseDevice(made, d);
    const DatasetReport found = VerifyIt(other_, false, ranks);
    EXPECT_EQ(StateOf(found), devices.empty() ? "intact" : "damaged") << Text(found);
    for (const Damage& d : found.damage) {
      EXPECT_EQ(std::count(devices.begin(), devices.end(), d.device), 1) << Text(found);
      EXPECT_FALSE(d.transient) << Text(found);
    }
    const DatasetReport restored = OneIn(rng_, 2) ? RestoreIt(other_, {}, ranks) : VerifyIt(other_, true, ranks);
    EXPECT_EQ(ExitCodeOf(restored), 0) << Text(restored);
    EXPECT_EQ(ReadFile(path_), truth);
    const DatasetReport after = VerifyIt(other_, false, ranks);
    ASSERT_EQ(StateOf(after), "intact") << Text(after);
    EXPECT_TRUE(after.damage.empty()) << Text(after);
    for (const std::string& directory : options_.device_dirs) fs::remove_all(directory);
    fs::remove(SidecarOf(path_));
    if (HasFailure()) return;
  }
}

TEST_F(PartsTest, OneDeviceMoreThanParityIsRefusedAndNothingIsWritten) {
  UseDirectories(5, 2);
  MakeFile(50000);
  const DatasetReport made = ProtectIt();
  for (const std::uint32_t d : {0u, 2u, 3u}) LoseDevice(made, d);
  const Image before = ImageOf(scratch_.path());
  const DatasetReport restored = RestoreIt(other_);
  EXPECT_EQ(ExitCodeOf(restored), 2) << Text(restored);
  EXPECT_EQ(Differences(before, ImageOf(scratch_.path())), "");
}

TEST_F(PartsTest, RootIsTheSameAsWithOneSidecarOfTheSameGeometry) {
  UseDirectories(4, 1, 4);
  MakeFile(40000);
  const DatasetReport in_parts = ProtectIt();
  Options pooled = options_;
  pooled.device_dirs.clear();
  pooled.given = {};
  options_ = pooled;
  const std::string twin = scratch_ / "twin";
  fs::copy(path_, twin);
  path_ = twin;
  const DatasetReport in_one = ProtectIt();
  ASSERT_OK(in_one.status);
  EXPECT_EQ(in_parts.root, in_one.root);
  EXPECT_EQ(in_parts.devices, in_one.devices);
}

TEST_F(PartsTest, OnlyTouchedRowsAreWritten) {
  UseDirectories(5, 2);
  MakeFile(100000);
  ASSERT_OK(ProtectIt().status);
  const std::string part = Part(0);
  for (int epoch = 0; epoch < 10; ++epoch) {
    IntervalSet touched;
    EditFile(rng_, path_, options_.block_size, touched);
    ProtectRequest request;
    request.touched = Edits{{0, touched}};
    const DatasetReport report = ProtectIt(static_cast<int>(1 + Below(rng_, 3)), request);
    ASSERT_OK(report.status);
    const DatasetReport found = VerifyIt(other_);
    ASSERT_EQ(StateOf(found), "intact") << Text(found);
    ASSERT_TRUE(found.damage.empty()) << Text(found);
    if (epoch == 0) {
      EXPECT_EQ(Part(0), part) << "in place";
    }
  }
  // The directory is lost between two epochs, so all parity is made again.
  fs::remove(Part(3));
  ASSERT_OK(SmallEpoch().status);
  EXPECT_EQ(StateOf(VerifyIt(other_)), "intact");
  for (std::uint32_t d = 0; d < 5; ++d) EXPECT_EQ(Parts(d).size(), 1u);
}

TEST_F(PartsTest, OtherDirectoriesAreAnotherGeometry) {
  UseDirectories(4, 1);
  MakeFile(30000);
  ASSERT_OK(ProtectIt().status);
  const auto before = options_.device_dirs;
  EXPECT_FALSE(ProtectIt().committed) << "up to date";
  options_.device_dirs = {scratch_ / "x", scratch_ / "y"};
  for (const auto& directory : options_.device_dirs) fs::create_directory(directory);
  const DatasetReport again = ProtectIt();
  ASSERT_OK(again.status);
  EXPECT_TRUE(again.committed);
  EXPECT_EQ(again.devices, 2u);
  for (const auto& directory : before) EXPECT_TRUE(fs::is_empty(directory)) << "parts of the encoding before";
  EXPECT_EQ(StateOf(VerifyIt(other_)), "intact");
  options_.device_dirs.clear();  // given, and none
  EXPECT_TRUE(ProtectIt().committed);
  EXPECT_TRUE(fs::is_empty(scratch_ / "x"));
  EXPECT_EQ(StateOf(VerifyIt(other_)), "intact");
}

TEST_F(PartsTest, WrongDirectoriesAreRefusedWithTheReason) {
  MakeFile(1000);
  UseDirectories(3, 1);
  const auto message = [&](std::vector<std::string> directories) {
    options_.device_dirs = std::move(directories);
    EXPECT_EQ(ProtectIt(2).status.code(), Code::kInvalidArgument);
    const DatasetReport report = ProtectIt();
    EXPECT_FALSE(Exists(SidecarOf(path_)));
    return report.status.message();
  };
  const std::string d = scratch_ / "dev0";
  EXPECT_EQ(message({d, scratch_ / "none"}), fmt::format("device-dirs: '{}/none' does not exist: an existing directory is accepted", scratch_.path()));
  EXPECT_EQ(message({d, path_}), fmt::format("device-dirs: '{}' is no directory", path_));
  EXPECT_EQ(message({d, d + "/../dev0"}), fmt::format("device-dirs: '{}' is named twice: give each device a directory of its own", d));
  EXPECT_EQ(message({d}), "device-dirs: 1 named, and parity is 1: 2 to 4096 directories are accepted");
}

TEST_F(PartsTest, LostSidecarIsReadAndRebuiltFromASpare) {
  UseDirectories(4, 2);
  MakeFile(30000);
  const DatasetReport made = ProtectIt();
  for (const bool ruined : {false, true}) {
    SCOPED_TRACE(ruined);
    if (ruined) {
      fs::resize_file(SidecarOf(path_), 0);
    } else {
      fs::remove(SidecarOf(path_));
    }
    fs::remove(Part(0));
    fs::resize_file(Part(1), 100);
    EXPECT_EQ(VerifyIt(other_).status.code(), Code::kUnprotected);
    const Image before = ImageOf(scratch_.path());
    const DatasetReport found = VerifyIt(options_, false, 2);
    EXPECT_EQ(StateOf(found), "damaged") << Text(found);
    EXPECT_EQ(found.root, made.root);
    EXPECT_EQ(Differences(before, ImageOf(scratch_.path())), "");
    const DatasetReport restored = RestoreIt(options_, {}, 2);
    EXPECT_EQ(ExitCodeOf(restored), 0) << Text(restored);
    EXPECT_THAT(restored.warnings, ::testing::Contains(std::string(kRecovered)));
    EXPECT_EQ(StateOf(VerifyIt(other_)), "intact");
  }
}

TEST_F(PartsTest, ProtectDoesNotCommitDamageOfAFileWhoseSidecarIsLost) {
  UseDirectories(4, 1);
  MakeFile(30000);
  ASSERT_OK(ProtectIt().status);
  fs::remove(SidecarOf(path_));
  Rot(rng_, path_, 1000, 10);
  const DatasetReport again = ProtectIt();
  EXPECT_EQ(ExitCodeOf(again), 1) << Text(again);
  EXPECT_EQ(ExitCodeOf(VerifyIt(other_, true)), 0);
}

TEST_F(PartsTest, DataAreNotTakenForTrueWhereTheSidecarIsDestroyed) {
  UseDirectories(4, 1);
  MakeFile(30000);
  const DatasetReport made = ProtectIt();
  ASSERT_OK(made.status);
  const Bytes truth = ReadFile(path_);
  LoseDevice(made, 2);
  fs::resize_file(SidecarOf(path_), 0);
  const Image before = ImageOf(scratch_.path());
  for (const int ranks : {1, 2}) {
    // Without the option, lzy does not know where the spares are.
    const DatasetReport refused = On(ranks, [&](Communicator& comm) { return Protect({PosixFileSystem(), comm, other_}, Ref(), {}); });
    EXPECT_EQ(ExitCodeOf(refused), 4) << Text(refused);
    const DatasetReport found = ProtectIt(ranks);
    EXPECT_EQ(ExitCodeOf(found), 1) << Text(found);
    EXPECT_EQ(ReadFile(path_), before.at(path_).bytes);
    EXPECT_EQ(ExitCodeOf(RestoreIt(options_, {}, ranks)), 0);
    EXPECT_EQ(ReadFile(path_), truth);
    EXPECT_EQ(StateOf(VerifyIt(other_)), "intact");
    PutBack(scratch_.path(), before);
  }
  ProtectRequest force;
  force.force = true;
  const DatasetReport forced = On(1, [&](Communicator& comm) { return Protect({PosixFileSystem(), comm, other_}, Ref(), force); });
  EXPECT_TRUE(forced.committed) << Text(forced);
  EXPECT_THAT(forced.warnings, ::testing::Contains(::testing::HasSubstr("for the data as they are now")));
}

TEST_F(PartsTest, CommitThatFailsLeavesNothing) {
  MemoryFileSystem files;
  options_.parity = 1;
  options_.device_dirs = {"/p0", "/p1", "/p2"};
  for (const auto& directory : options_.device_dirs) files.Put(directory + "/lost+found", {});
  files.Put("d/f", RandomBytes(rng_, 20000), 1'600'000'000'000'000'000);
  const auto self = SelfCommunicator();
  const DatasetRef ref{DatasetKind::kShared, "d/f", {}};
  const auto protect = [&] { return Protect({files, *self, options_}, ref, {}); };
  const auto names = [&] {
    std::vector<std::string> all;
    for (const auto& [path, node] : files.nodes()) all.push_back(path);
    return all;
  };
  ASSERT_OK(protect().status);
  const auto before = names();
  options_.block_size = 1024;
  // Fails each operation on new files in turn, until none is left.
  for (int fate = 0;; ++fate) {
    int operation = 0;
    files.fault = [&](MemoryFileSystem::Op, const std::string& path, std::uint64_t, std::uint64_t) {
      const bool is_new = std::ranges::find(before, path) == before.end() && path.find("/.LZY") != std::string::npos;
      return is_new && operation++ == fate ? Status(Code::kIo, path + ": no more") : Status::Ok();
    };
    const DatasetReport failed = protect();
    files.fault = nullptr;
    if (failed.status.ok()) {
      EXPECT_GT(fate, 20);
      break;
    }
    const DatasetReport found = Verify({files, *self, other_}, ref, {});
    ASSERT_EQ(StateOf(found), "intact") << fate << Text(found);
    if (found.block_size != 512) break;  // it counts, whatever came after that
    ASSERT_EQ(names(), before) << fate;
  }
}

}  // namespace
}  // namespace lzy::testing
