// Device directories, files and sidecars that were moved, copied, or put back from a backup.
#include "dataset/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/engine.h"
#include "names/orphans.h"
#include "parts_fixture.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

TEST_F(PartsTest, AMovedDirectoryIsFoundThroughTheOption) {
  UseDirectories(4, 1);
  MakeFile(30000);
  ASSERT_OK(ProtectIt().status);
  fs::remove_all(options_.device_dirs[2]);
  // The data are repaired all the same.
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

TEST_F(PartsTest, ARestoreRecordsDirectoriesThatMoved) {
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
TEST_F(PartsTest, DirectoryNamesTooLongForTheSidecarAreRefused) {
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
  EXPECT_NE(refused.status.message().find("its sidecar has no room"), std::string::npos) << refused.status.message();
  EXPECT_EQ(StateOf(VerifyIt(options_)), "intact");
  ASSERT_OK(ProtectIt().status);
  EXPECT_EQ(StateOf(VerifyIt(other_)), "intact");
}

TEST_F(PartsTest, PartsFollowARenameAndAreRemovedWithTheirFile) {
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
  WriteFile(IndexPath(path_), RandomBytes(rng_, 10));
  ASSERT_OK(Forget(PosixFileSystem(), path_));
  EXPECT_FALSE(fs::exists(IndexPath(path_)));
  for (const auto& directory : options_.device_dirs) EXPECT_TRUE(fs::is_empty(directory));
  // If the sidecar was removed by hand, nothing refers to the parts.
  ASSERT_OK(ProtectIt().status);
  fs::remove(path_);
  fs::remove(SidecarOf(path_));
  const auto left = orphans();
  ASSERT_EQ(left.size(), 3u);
  for (const Orphan& orphan : left) EXPECT_NE(orphan.kept, "") << "it may have moved";
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
  // The copy can be repaired from the parity of the original, but writes none there.
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
  // After an epoch of its own, it has parity of its own.
  ASSERT_OK(SmallEpoch().status);
  EXPECT_EQ(Parts(1).size(), 2u);
  EXPECT_EQ(StateOf(VerifyIt(other_)), "intact");
  path_ = original;
  EXPECT_EQ(ExitCodeOf(VerifyIt(other_, true)), 0);
  const DatasetReport of_original = VerifyIt(other_);
  EXPECT_EQ(StateOf(of_original), "intact");
  EXPECT_EQ(of_original.root, made.root);
}

TEST_F(PartsTest, CopyWhoseOriginalWasMovedOwnsNoParts) {
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
  // As if a program under the layer had committed the file, which takes over the sidecar.
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
  // The original owns its parts under any path.
  fs::remove(Part(2));
  EXPECT_EQ(ExitCodeOf(VerifyIt(other_, true)), 0);
}

TEST_F(PartsTest, PartsOfAnotherFileAreNotWritten) {
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
  // One of its parts now belongs to another file.
  fs::copy_file(part, Part(1), fs::copy_options::overwrite_existing);
  const Image before = ImageOf(options_.device_dirs[1]);
  const DatasetReport repaired = VerifyIt(other_, true);
  EXPECT_EQ(ExitCodeOf(repaired), 1) << Text(repaired);
  EXPECT_THAT(repaired.warnings, ::testing::Contains(::testing::HasSubstr("is not of the encoding")));
  EXPECT_EQ(Differences(before, ImageOf(options_.device_dirs[1])), "");
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

TEST_F(PartsTest, PartOfAnOlderCommitIsFoundAndRebuilt) {
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

}  // namespace
}  // namespace lzy::testing
