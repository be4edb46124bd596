// Device directories: parity in parts, of which whole devices are lost with their data; and what copies, moves and lost sidecars do to
// them.
#include "dataset/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "dataset/view.h"
#include "engine/engine.h"
#include "names/orphans.h"
#include "engine_fixture.h"
#include "memory_files.h"
#include "sidecar/names.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

namespace fs = std::filesystem;

class PartsTest : public ::testing::Test {
 protected:
  PartsTest() {
    options_.block_size = 512;
    options_.stripe = 2048;
    options_.threads = 1;
    options_.given = {"block-size", "stripe", "parity", "group", "device-dirs"};
    path_ = scratch_ / "f";
    other_.block_size = options_.block_size;
  }

  void UseDirectories(std::uint32_t count, std::uint32_t parity, std::uint32_t group = 8) {
    options_.device_dirs.clear();
    for (std::uint32_t d = 0; d < count; ++d) {
      options_.device_dirs.push_back(scratch_ / fmt::format("dev{}", d));
      fs::create_directories(options_.device_dirs.back());
    }
    options_.parity = parity;
    options_.group = group;
  }
  void MakeFile(std::uint64_t size) {
    WriteFile(path_, RandomBytes(rng_, size));
    SetMtime(path_, 1'600'000'000'000'000'000);
  }

  template <class Work>
  DatasetReport On(int ranks, const Work& work) {
    DatasetReport made;
    std::mutex mutex;
    RunRanks(ranks, [&](Communicator& comm) {
      const DatasetReport report = work(comm);
      const std::lock_guard lock(mutex);
      if (comm.rank() == 0) made = report;
    });
    return made;
  }
  DatasetReport ProtectIt(int ranks = 1, const ProtectRequest& request = {}) {
    return On(ranks, [&](Communicator& comm) { return Protect({PosixFileSystem(), comm, options_}, Ref(), request); });
  }
  DatasetReport VerifyIt(const Options& options, bool repair = false, int ranks = 1) {
    VerifyRequest request;
    request.repair = repair;
    return On(ranks, [&](Communicator& comm) { return Verify({PosixFileSystem(), comm, options}, Ref(), request); });
  }
  DatasetReport RestoreIt(const Options& options, std::vector<std::uint32_t> devices = {}, int ranks = 1) {
    RestoreRequest request;
    request.devices = std::move(devices);
    return On(ranks, [&](Communicator& comm) { return Restore({PosixFileSystem(), comm, options}, Ref(), request); });
  }
  /// A few bytes written, and committed as the hooks do.
  DatasetReport SmallEpoch() {
    WriteAt(path_, 100, Bytes(50, 7));
    IntervalSet touched;
    AddTouched(touched, 100, 50);
    ProtectRequest request;
    request.touched = Edits{{0, touched}};
    return ProtectIt(1, request);
  }
  DatasetRef Ref() const { return {DatasetKind::kShared, path_, {}}; }
  std::vector<std::string> Parts(std::uint32_t device) const {
    std::vector<std::string> parts;
    for (const auto& entry : fs::directory_iterator(options_.device_dirs[device])) parts.push_back(entry.path());
    return parts;
  }
  std::string Part(std::uint32_t device) const {
    const auto parts = Parts(device);
    EXPECT_EQ(parts.size(), 1u);
    return parts.empty() ? "" : parts[0];
  }
  std::string SidecarOf(const std::string& path) const { return *SidecarPath(path); }
  /// The device's units of the file, and its part, are gone.
  void LoseDevice(const DatasetReport& report, std::uint32_t device) {
    const std::uint64_t size = fs::file_size(path_), unit = report.unit;
    for (std::uint64_t x = device; x * unit < size; x += report.devices) {
      Rot(rng_, path_, x * unit, std::min(unit, size - x * unit));
    }
    fs::remove(Part(device));
  }
  static std::string StateOf(const DatasetReport& report) {
    return report.status.ok() ? Name(report.state) : report.status.message();
  }

  Rng rng_{SeedOf(1)};
  Scratch scratch_;
  std::string path_;
  Options options_;
  Options other_;  // who is not told of directories
};

TEST_F(PartsTest, AnyDevicesOfAsManyAsParityAreMended) {
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

TEST_F(PartsTest, OneDeviceMoreIsRefusedAndNothingIsWritten) {
  UseDirectories(5, 2);
  MakeFile(50000);
  const DatasetReport made = ProtectIt();
  for (const std::uint32_t d : {0u, 2u, 3u}) LoseDevice(made, d);
  const Image before = ImageOf(scratch_.path());
  const DatasetReport restored = RestoreIt(other_);
  EXPECT_EQ(ExitCodeOf(restored), 2) << Text(restored);
  EXPECT_EQ(Differences(before, ImageOf(scratch_.path())), "");
}

TEST_F(PartsTest, RootAndParityAreThoseOfOneSidecarOfTheSameGeometry) {
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

TEST_F(PartsTest, LostSidecarIsReadAndMadeAgainFromASpare) {
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

TEST_F(PartsTest, ProtectDoesNotBlessDamageOfAFileWhoseSidecarIsLost) {
  UseDirectories(4, 1);
  MakeFile(30000);
  ASSERT_OK(ProtectIt().status);
  fs::remove(SidecarOf(path_));
  Rot(rng_, path_, 1000, 10);
  const DatasetReport again = ProtectIt();
  EXPECT_EQ(ExitCodeOf(again), 1) << Text(again);
  EXPECT_EQ(ExitCodeOf(VerifyIt(other_, true)), 0);
}

TEST_F(PartsTest, DirectoryThatIsElsewhereNow) {
  UseDirectories(4, 1);
  MakeFile(30000);
  ASSERT_OK(ProtectIt().status);
  fs::remove_all(options_.device_dirs[2]);
  // The data are mended all the same.
  const Bytes truth = ReadFile(path_);
  Rot(rng_, path_, 600, 10);
  const DatasetReport partly = RestoreIt(other_);
  EXPECT_EQ(ExitCodeOf(partly), 1) << Text(partly);
  EXPECT_THAT(partly.warnings, ::testing::Contains(::testing::HasSubstr("device directory 2 is not there")));
  EXPECT_EQ(ReadFile(path_), truth);
  options_.device_dirs[2] = scratch_ / "new";
  fs::create_directory(options_.device_dirs[2]);
  EXPECT_EQ(ExitCodeOf(RestoreIt(options_)), 0);
  EXPECT_EQ(Parts(2).size(), 1u);
  const DatasetReport after = VerifyIt(other_);
  EXPECT_EQ(StateOf(after), "intact") << Text(after);
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

TEST_F(PartsTest, CopyOfAFileAndItsSidecarDoesNotWriteToTheOriginalsParts) {
  UseDirectories(4, 1);
  MakeFile(30000);
  const DatasetReport made = ProtectIt();
  const std::string original = path_;
  fs::create_directory(scratch_ / "copy");
  fs::copy(original, scratch_ / "copy/f");
  SetMtime(scratch_ / "copy/f", MtimeOf(original));
  fs::copy(SidecarOf(original), scratch_ / "copy/.LZY.f");
  path_ = scratch_ / "copy/f";
  EXPECT_EQ(StateOf(VerifyIt(other_)), "intact");
  // It can be mended from the parity of both, but makes none there.
  Rot(rng_, path_, 600, 10);
  EXPECT_EQ(ExitCodeOf(VerifyIt(other_, true)), 0);
  Rot(rng_, Part(1), fs::file_size(Part(1)) - 200, 10);
  const Image parts = ImageOf(options_.device_dirs[1]);
  Rot(rng_, path_, 600, 10);
  const DatasetReport partly = VerifyIt(other_, true);
  EXPECT_EQ(ExitCodeOf(partly), 1) << Text(partly);
  EXPECT_THAT(partly.warnings, ::testing::Contains(::testing::HasSubstr("of which it is a copy")));
  EXPECT_EQ(Differences(parts, ImageOf(options_.device_dirs[1])), "");
  EXPECT_EQ(ReadFile(path_), ReadFile(original));
  // An epoch of its own: parity of its own.
  ASSERT_OK(SmallEpoch().status);
  EXPECT_EQ(Parts(1).size(), 2u);
  EXPECT_EQ(StateOf(VerifyIt(other_)), "intact");
  path_ = original;
  EXPECT_EQ(ExitCodeOf(VerifyIt(other_, true)), 0);
  const DatasetReport of_original = VerifyIt(other_);
  EXPECT_EQ(StateOf(of_original), "intact");
  EXPECT_EQ(of_original.root, made.root);
}

TEST_F(PartsTest, TouchedRowsAloneAreWritten) {
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
  // Lost between two epochs: all is made anew.
  fs::remove(Part(3));
  ASSERT_OK(SmallEpoch().status);
  EXPECT_EQ(StateOf(VerifyIt(other_)), "intact");
  for (std::uint32_t d = 0; d < 5; ++d) EXPECT_EQ(Parts(d).size(), 1u);
}

TEST_F(PartsTest, OlderSidecarBesideTheFileIsReplacedByTheNewestSpare) {
  for (const bool named : {false, true}) {
    UseDirectories(4, 1);
    MakeFile(60000);
    ASSERT_OK(ProtectIt().status);
    const Bytes older = ReadFile(SidecarOf(path_));
    ASSERT_OK(SmallEpoch().status);  // in place
    WriteFile(SidecarOf(path_), older);  // from a backup
    const Options& options = named ? options_ : other_;
    const DatasetReport seen = VerifyIt(options);
    EXPECT_EQ(StateOf(seen), "damaged");
    for (const Damage& d : seen.damage) EXPECT_EQ(d.part, DamagePart::kMetadata) << Text(seen);
    const DatasetReport repaired = VerifyIt(options, /*repair=*/true);
    EXPECT_EQ(ExitCodeOf(repaired), 0) << Text(repaired);
    EXPECT_NE(ReadFile(SidecarOf(path_)), older);
    const DatasetReport found = VerifyIt(options);
    EXPECT_EQ(StateOf(found), "intact");
    EXPECT_TRUE(found.damage.empty()) << Text(found);
    LoseDevice(found, 2);
    EXPECT_EQ(ExitCodeOf(RestoreIt(options)), 0);
    for (std::uint32_t d = 0; d < 4; ++d) fs::remove(Part(d));
    fs::remove(SidecarOf(path_));
  }
}

TEST_F(PartsTest, PartOfAnOlderCommitIsFoundAndMadeAgain) {
  UseDirectories(4, 1);
  MakeFile(60000);
  const DatasetReport first = ProtectIt();
  const std::string part = Part(1);
  const Bytes older = ReadFile(part);
  WriteAt(path_, 0, RandomBytes(rng_, 60000));
  SetMtime(path_, 1'600'000'001'000'000'000);
  IntervalSet touched;
  AddTouched(touched, 0, 60000);
  ProtectRequest request;
  request.touched = Edits{{0, touched}};
  ASSERT_OK(ProtectIt(1, request).status);
  ASSERT_EQ(Part(1), part);
  WriteFile(part, older);  // the disk of a node that was away
  const DatasetReport found = VerifyIt(other_);
  EXPECT_EQ(StateOf(found), "damaged") << Text(found);
  for (const Damage& d : found.damage) EXPECT_EQ(d.device, 1u) << Text(found);
  const Bytes truth = ReadFile(path_);
  EXPECT_EQ(ExitCodeOf(RestoreIt(other_)), 0);
  EXPECT_EQ(ReadFile(path_), truth);
  EXPECT_EQ(StateOf(VerifyIt(other_)), "intact");
  EXPECT_NE(ReadFile(part), older);
}

TEST_F(PartsTest, RefusedDirectoriesAreNamed) {
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
  EXPECT_EQ(message({d, d + "/../dev0"}), fmt::format("device-dirs: '{}' is named twice: one a device is accepted", d));
  EXPECT_EQ(message({d}), "device-dirs: 1 named, and parity is 1: 2 to 4096 directories are accepted");
}

TEST_F(PartsTest, PartsAreRemovedOrOrphanedWithTheirFile) {
  UseDirectories(3, 1);
  MakeFile(20000);
  ASSERT_OK(ProtectIt().status);
  const auto orphans = [&] {
    const auto found = FindOrphans(PosixFileSystem(), scratch_.path());
    EXPECT_OK(found);
    return found.ok() ? *found : std::vector<Orphan>();
  };
  EXPECT_TRUE(orphans().empty());
  // Renamed, with the sidecar or without.
  fs::rename(path_, scratch_ / "g");
  EXPECT_TRUE(orphans().empty());
  fs::rename(SidecarOf(path_), SidecarOf(scratch_ / "g"));
  EXPECT_TRUE(orphans().empty());
  path_ = scratch_ / "g";
  EXPECT_EQ(StateOf(VerifyIt(other_)), "intact");
  ASSERT_OK(Forget(PosixFileSystem(), path_));
  for (const auto& directory : options_.device_dirs) EXPECT_TRUE(fs::is_empty(directory));
  // Whose sidecar was removed by hand, nobody knows of.
  ASSERT_OK(ProtectIt().status);
  fs::remove(path_);
  fs::remove(SidecarOf(path_));
  const auto left = orphans();
  ASSERT_EQ(left.size(), 3u);
  for (const Orphan& orphan : left) EXPECT_NE(orphan.kept, "") << "it may have moved";
}

TEST_F(PartsTest, CopyWhoseOriginalWasMovedOwnsNothing) {
  UseDirectories(4, 1);
  fs::create_directory(scratch_ / "run1");
  path_ = scratch_ / "run1/f";
  MakeFile(30000);
  const DatasetReport made = ProtectIt();
  fs::create_directory(scratch_ / "copy");
  fs::copy(path_, scratch_ / "copy/f");
  fs::copy(SidecarOf(path_), scratch_ / "copy/.LZY.f");
  fs::rename(scratch_ / "run1", scratch_ / "run2");
  path_ = scratch_ / "copy/f";
  // As a program under the layer comes to it, which makes the sidecar its own.
  ASSERT_OK(BeginEpoch(PosixFileSystem(), options_, path_, ""));
  ASSERT_OK(SmallEpoch().status);
  EXPECT_EQ(StateOf(VerifyIt(other_)), "intact");
  EXPECT_EQ(Parts(0).size(), 2u);
  ASSERT_OK(Forget(PosixFileSystem(), path_));
  EXPECT_EQ(Parts(0).size(), 1u);
  path_ = scratch_ / "run2/f";
  const DatasetReport moved = VerifyIt(other_);
  EXPECT_EQ(StateOf(moved), "intact") << Text(moved);
  EXPECT_EQ(moved.root, made.root);
  // The original itself owns its parts wherever it is.
  fs::remove(Part(2));
  EXPECT_EQ(ExitCodeOf(VerifyIt(other_, true)), 0);
}

TEST_F(PartsTest, OtherFilesPartsAreNotWrittenToWhateverASidecarSays) {
  UseDirectories(3, 1);
  MakeFile(30000);
  ASSERT_OK(ProtectIt().status);
  const std::string part = Part(1);
  const std::string victim = path_;
  path_ = scratch_ / "g";
  MakeFile(20000);
  options_.device_dirs = {scratch_ / "e0", scratch_ / "e1", scratch_ / "e2"};
  for (const auto& directory : options_.device_dirs) fs::create_directory(directory);
  ASSERT_OK(ProtectIt().status);
  // One of its parts is another file's now.
  fs::copy_file(part, Part(1), fs::copy_options::overwrite_existing);
  const Image before = ImageOf(options_.device_dirs[1]);
  const DatasetReport repaired = VerifyIt(other_, true);
  EXPECT_EQ(ExitCodeOf(repaired), 1) << Text(repaired);
  EXPECT_THAT(repaired.warnings, ::testing::Contains(::testing::HasSubstr("is not of the encoding")));
  EXPECT_EQ(Differences(before, ImageOf(options_.device_dirs[1])), "");
}

TEST_F(PartsTest, DirectoriesThatMovedAsAWholeAreRecordedByARestore) {
  UseDirectories(3, 1);
  MakeFile(30000);
  ASSERT_OK(ProtectIt().status);
  for (auto& directory : options_.device_dirs) {
    fs::rename(directory, directory + "-and-a-longer-name");
    directory += "-and-a-longer-name";
  }
  EXPECT_EQ(StateOf(VerifyIt(other_)), "damaged");
  EXPECT_EQ(StateOf(VerifyIt(options_)), "intact");
  EXPECT_EQ(ExitCodeOf(RestoreIt(options_)), 0);
  EXPECT_EQ(StateOf(VerifyIt(other_)), "intact");
}

// The copies of the metadata must not grow into the parity behind them.
TEST_F(PartsTest, NamesForWhichThereIsNoRoomAreRefused) {
  UseDirectories(3, 1);
  MakeFile(3000);
  ASSERT_OK(ProtectIt().status);
  const Image before = ImageOf(scratch_.path());
  for (auto& directory : options_.device_dirs) {
    const std::string far = directory + std::string("/") + std::string(200, 'x') + "/" + std::string(200, 'y') + "/" + std::string(200, 'z') +
                            "/" + std::string(200, 'u') + "/" + std::string(200, 'v') + "/" + std::string(200, 'w') + "/" + std::string(200, 't');
    fs::create_directories(far);
    for (const auto& entry : fs::directory_iterator(directory)) {
      if (entry.is_regular_file()) fs::rename(entry.path(), far + "/" + entry.path().filename().string());
    }
    directory = far;
  }
  const DatasetReport refused = RestoreIt(options_);
  EXPECT_EQ(refused.status.code(), Code::kIo) << Text(refused);
  EXPECT_NE(refused.status.message().find("no room in its sidecar"), std::string::npos) << refused.status.message();
  EXPECT_EQ(StateOf(VerifyIt(options_)), "intact");
  ASSERT_OK(ProtectIt().status);
  EXPECT_EQ(StateOf(VerifyIt(other_)), "intact");
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
  // At each operation that concerns what is new, until there is none left.
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
