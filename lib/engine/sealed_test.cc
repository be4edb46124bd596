// Sealed datasets, and a forger without the key who can write every file. Whatever he changes, the dataset is not called
// intact, and no repair writes his data into a file.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "dataset/view.h"
#include "engine/engine.h"
#include "repair/heal.h"
#include "sidecar/contents.h"
#include "engine_fixture.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

std::shared_ptr<const LeafKey> ForgersKey() {
  return *LeafKey::Make(Bytes(32, 0x5a));
}

/// Gives a sidecar that was sealed with another key the id of the right key and this seal, and corrects all hashes.
void PassOff(const std::string& sidecar_path, const Superblock& as) {
  Bytes file = ReadFile(sidecar_path);
  const auto first = DecodeSuperblock(file, 0);
  ASSERT_OK(first);
  for (std::uint32_t c = 0; c < first->copies; ++c) {
    const std::uint64_t at = first->PlaceOf(c);
    auto sb = DecodeSuperblock(ByteSpan(file).subspan(at), c);
    ASSERT_OK(sb);
    sb->key_id = as.key_id;
    sb->seal = as.seal;
    const auto page = EncodeSuperblock(*sb);
    std::copy(page.begin(), page.end(), file.begin() + static_cast<std::ptrdiff_t>(at));
  }
  WriteFile(sidecar_path, file);
}

class Sealed : public ::testing::Test {
 protected:
  Sealed() {
    rng_.seed(SeedOf(91));
    options_.block_size = 4096;
    options_.stripe = 4096;
    options_.group = 4;
    options_.parity = 1;
    options_.key = TestKey();
  }
  void MakeShared() {
    path_ = scratch_ / "f";
    files_ = {path_};
    FillAndProtect();
  }
  void MakeSet() {
    options_.parity = 2;
    path_ = scratch_ / "s.%r";
    for (int r = 0; r < 4; ++r) files_.push_back(scratch_ / fmt::format("s.{}", r));
    FillAndProtect();
  }
  void FillAndProtect() {
    for (const std::string& file : files_) {
      std::filesystem::remove(*SidecarPath(file));
      WriteFile(file, RandomBytes(rng_, 50'000));
      SetMtime(file, 1'700'000'000'000'000'000);
    }
    ASSERT_OK(ProtectAs(options_).status);
    ASSERT_EQ(VerifyAs(options_).state, DatasetState::kIntact);
    truth_ = ImageOf(scratch_.path());
  }

  DatasetReport ProtectAs(const Options& options, bool force = false) {
    ProtectRequest request;
    request.force = force;
    return Protect({PosixFileSystem(), *self_, options}, RefOf(*self_, path_, Resolve::kProtectable), request);
  }
  DatasetReport VerifyAs(const Options& options, bool repair = false) {
    return Verify({PosixFileSystem(), *self_, options}, RefOf(*self_, path_), {.repair = repair});
  }
  DatasetReport RestoreAs(const Options& options) {
    return Restore({PosixFileSystem(), *self_, options}, RefOf(*self_, path_), {});
  }
  Options With(std::shared_ptr<const LeafKey> key) const {
    Options options = options_;
    options.key = std::move(key);
    return options;
  }
  std::string SidecarOf(std::size_t file) const { return *SidecarPath(files_[file]); }
  SidecarContents ContentsOf(std::size_t file) const {
    auto sidecar = Sidecar::Load(PosixFileSystem(), SidecarOf(file), OpenMode::kRead);
    EXPECT_OK(sidecar);
    return (*sidecar)->contents();
  }
  /// The forger's best use of lzy itself: he protects his files with a key of his own.
  void ProtectAsForger(std::shared_ptr<const LeafKey> key) {
    const Superblock before = ContentsOf(0).superblock;
    for (const std::string& file : files_) {
      std::filesystem::remove(*SidecarPath(file));
      Rot(rng_, file, 8192, 100);
    }
    ASSERT_OK(ProtectAs(With(key)).status);
    if (!key) return;
    for (std::size_t f = 0; f < files_.size(); ++f) PassOff(SidecarOf(f), before);
  }
  void ExpectNothingIsBelieved() {
    const Image forged = ImageOf(scratch_.path());
    for (const bool repair : {false, true}) {
      const DatasetReport report = VerifyAs(options_, repair);
      EXPECT_NE(report.state, DatasetState::kIntact) << Text(report);
      EXPECT_EQ(ExitCodeOf(report), 4) << Text(report);
      EXPECT_TRUE(report.unsealed);
    }
    EXPECT_EQ(ExitCodeOf(RestoreAs(options_)), 4);
    EXPECT_EQ(ExitCodeOf(ProtectAs(options_)), 4);
    EXPECT_EQ(Differences(forged, ImageOf(scratch_.path())), "");
    const HealRequest heal{.path = files_[0], .blocks = {2}, .write = true};
    EXPECT_FALSE(HealBlocks(PosixFileSystem(), options_, heal).ok());
    EXPECT_FALSE(BeginEpoch(PosixFileSystem(), options_, files_[0], files_.size() > 1 ? path_ : "").ok());
    EXPECT_EQ(Differences(forged, ImageOf(scratch_.path())), "");
    // The owner says with force that the content is right.
    EXPECT_OK(ProtectAs(options_, /*force=*/true).status);
    EXPECT_EQ(VerifyAs(options_).state, DatasetState::kIntact);
  }

  Rng rng_;
  Scratch scratch_;
  Options options_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
  std::string path_;
  std::vector<std::string> files_;
  Image truth_;
};

TEST_F(Sealed, NothingWorksWithoutTheKey) {
  for (const bool set : {false, true}) {
    files_.clear();
    set ? MakeSet() : MakeShared();
    for (const auto& key : {std::shared_ptr<const LeafKey>(), ForgersKey()}) {
      for (const DatasetReport& report : {VerifyAs(With(key)), VerifyAs(With(key), true), RestoreAs(With(key)),
                                          ProtectAs(With(key)), ProtectAs(With(key), true)}) {
        EXPECT_EQ(ExitCodeOf(report), 3) << Text(report);
        EXPECT_NE(report.status.message().find("it is sealed with key " + KeyText(options_.key->id())), std::string::npos)
            << report.status.message();
      }
      const auto begun = BeginEpoch(PosixFileSystem(), With(key), files_[0], set ? path_ : "");
      EXPECT_CODE(begun, Code::kInvalidArgument);
    }
    EXPECT_EQ(Differences(truth_, ImageOf(scratch_.path())), "");
    EXPECT_EQ(VerifyAs(options_).key, KeyText(options_.key->id()));
  }
}

TEST_F(Sealed, RanksWithDifferentKeysCommitNothing) {
  path_ = scratch_ / "f";
  files_ = {path_};
  WriteFile(path_, RandomBytes(rng_, 50'000));
  const Image before = ImageOf(scratch_.path());
  for (const auto& other : {std::shared_ptr<const LeafKey>(), ForgersKey()}) {
    for (const int odd : {0, 1}) {
      RunRanks(2, [&](Communicator& comm) {
        const Options options = With(comm.rank() == odd ? other : options_.key);
        const DatasetReport report =
            Protect({PosixFileSystem(), comm, options}, RefOf(comm, path_, Resolve::kProtectable), {});
        EXPECT_EQ(ExitCodeOf(report), 3) << Text(report);
        EXPECT_NE(report.status.message().find("ranks 0 and 1 were given different keys"), std::string::npos);
      });
      EXPECT_EQ(Differences(before, ImageOf(scratch_.path())), "");
    }
  }
}

// A leftover or a forged file: the seals of the other members still count.
TEST_F(Sealed, AForeignKeyInOneMemberDoesNotHarmTheSet) {
  MakeSet();
  const Image whole = truth_;
  {
    const auto sealed = ContentsOf(1).superblock;
    Superblock other = sealed;
    other.key_id[0] ^= 1;
    PassOff(SidecarOf(1), other);
  }
  EXPECT_EQ(ExitCodeOf(VerifyAs(options_)), 1);
  EXPECT_EQ(ExitCodeOf(RestoreAs(options_)), 0);
  EXPECT_EQ(VerifyAs(options_).state, DatasetState::kIntact);
  for (const std::string& file : files_) EXPECT_EQ(ReadFile(file), whole.at(file).bytes) << file;
}

TEST_F(Sealed, DamageInASealedSetIsFoundAndRepaired) {
  MakeSet();
  Rot(rng_, files_[1], 20'000, 3);
  Rot(rng_, SidecarOf(2), ContentsOf(2).superblock.spacing * 2 + 10, 1);
  std::filesystem::remove(files_[3]);
  EXPECT_EQ(ExitCodeOf(VerifyAs(options_)), 1);
  EXPECT_EQ(ExitCodeOf(RestoreAs(options_)), 0);
  EXPECT_EQ(VerifyAs(options_).state, DatasetState::kIntact);
  for (const std::string& file : files_) EXPECT_EQ(ReadFile(file), truth_.at(file).bytes);
}

TEST_F(Sealed, WhatWasProtectedWithoutTheKeyIsNotBelieved) {
  MakeShared();
  ProtectAsForger(nullptr);
  ExpectNothingIsBelieved();
}

TEST_F(Sealed, WhatWasSealedWithAnotherKeyIsNotBelieved) {
  MakeShared();
  ProtectAsForger(ForgersKey());
  ExpectNothingIsBelieved();
}

TEST_F(Sealed, ADestroyedSidecarIsNotSealedAnew) {
  for (const int how : {0, 1, 2}) {
    MakeShared();
    Rot(rng_, path_, 8192, 100);
    const std::uint64_t spacing = ContentsOf(0).superblock.spacing;
    if (how == 0) WriteFile(SidecarOf(0), Bytes(20'000, 0x5a));
    if (how == 1) Truncate(SidecarOf(0), 0);
    if (how == 2) {  // a whole copy that contradicts itself
      Bytes file = ReadFile(SidecarOf(0));
      auto sb = DecodeSuperblock(file, 0);
      ASSERT_OK(sb);
      for (Extent& e : sb->extents) {
        if (e.kind == ExtentKind::kParityLevel && e.level == 0) e.level = 1;
      }
      const auto page = EncodeSuperblock(*sb);
      std::copy(page.begin(), page.end(), file.begin());
      std::fill_n(file.begin() + static_cast<std::ptrdiff_t>(spacing), sb->bytes(), std::uint8_t{0});
      WriteFile(SidecarOf(0), file);
    }
    SCOPED_TRACE(how);
    ExpectNothingIsBelieved();
  }
}

TEST_F(Sealed, AForgedSetIsNotBelieved) {
  MakeSet();
  ProtectAsForger(nullptr);
  ExpectNothingIsBelieved();
  truth_.clear();
  ProtectAsForger(ForgersKey());
  ExpectNothingIsBelieved();
}

// Leaves of the right key at wrong places: two blocks of the file change places together with their leaves.
TEST_F(Sealed, SwappedBlocksAndLeavesAreFound) {
  MakeShared();
  Bytes data = ReadFile(path_);
  std::swap_ranges(data.begin(), data.begin() + 4096, data.begin() + 3 * 4096);
  const auto mtime = MtimeOf(path_);
  WriteFile(path_, data);
  SetMtime(path_, mtime);
  SidecarContents contents = ContentsOf(0);
  const Superblock as = contents.superblock;
  std::vector<Hash> leaves = contents.data_tree.NodesOf(0);
  std::swap(leaves[0], leaves[3]);
  contents.data_tree = Tree::Build(TreeKind::kData, leaves, data.size());
  contents.superblock.data_root = contents.info.members[0].data_root = contents.data_tree.Root();
  contents.superblock.parity_root = contents.parity_tree.Root();
  const Tree members = Tree::Build(TreeKind::kDataset, {contents.data_tree.Root()}, data.size());
  contents.superblock.dataset_root = DatasetRootOf(contents.superblock, members.Root());
  contents.key = ForgersKey();
  {
    const auto like = PosixFileSystem().Open(path_, OpenMode::kRead);
    const Bytes before = ReadFile(SidecarOf(0));
    auto forged = Sidecar::Load(PosixFileSystem(), SidecarOf(0), OpenMode::kReadWrite);
    ASSERT_OK(forged);
    ASSERT_OK((*forged)->WriteAll(contents));
    ASSERT_NE(before, ReadFile(SidecarOf(0)));
  }
  PassOff(SidecarOf(0), as);
  // Only the seal shows it.
  const auto loaded = Sidecar::Load(PosixFileSystem(), SidecarOf(0), OpenMode::kRead);
  ASSERT_OK(loaded);
  EXPECT_OK(CheckContents((*loaded)->contents()));
  EXPECT_TRUE((*loaded)->damage().empty());
  ExpectNothingIsBelieved();
}

TEST_F(Sealed, AMemberWhoseSidecarIsForgedGetsItBack) {
  for (const bool own_key : {false, true}) {
    files_.clear();
    MakeSet();
    // A file of the forger, protected as if it had always been that member.
    const Superblock as = ContentsOf(2).superblock;
    Rot(rng_, files_[2], 4096, 10);
    SidecarContents contents = ContentsOf(2);
    std::vector<Hash> leaves = contents.data_tree.NodesOf(0);
    const Bytes data = ReadFile(files_[2]);
    leaves[1] = LeafHash(own_key ? ForgersKey().get() : nullptr, HashTag::kDataLeaf, 1, ByteSpan(data).subspan(4096, 4096));
    contents.data_tree = Tree::Build(TreeKind::kData, leaves, data.size());
    contents.key = own_key ? ForgersKey() : nullptr;
    contents.superblock.key_id = {};
    {
      auto forged = Sidecar::Load(PosixFileSystem(), SidecarOf(2), OpenMode::kReadWrite);
      ASSERT_OK(forged);
      ASSERT_OK((*forged)->WriteAll(contents));
    }
    if (own_key) PassOff(SidecarOf(2), as);
    EXPECT_EQ(ExitCodeOf(VerifyAs(options_)), 1);
    EXPECT_EQ(ExitCodeOf(RestoreAs(options_)), 0);
    EXPECT_EQ(VerifyAs(options_).state, DatasetState::kIntact);
    for (const std::string& file : files_) EXPECT_EQ(ReadFile(file), truth_.at(file).bytes) << file;
  }
}

// Parity is made from forged data, and the data themselves are damaged. The rebuilt blocks do not have their leaves.
TEST_F(Sealed, NothingIsRebuiltFromForgedParity) {
  MakeShared();
  const SidecarContents contents = ContentsOf(0);
  const auto sidecar = Sidecar::Load(PosixFileSystem(), SidecarOf(0), OpenMode::kRead);
  ASSERT_OK(sidecar);
  Rot(rng_, path_, 0, 4096);
  Rot(rng_, SidecarOf(0), (*sidecar)->ParityFileOffset(0), contents.superblock.parity_size);
  const Image before = ImageOf(scratch_.path());
  EXPECT_EQ(ExitCodeOf(VerifyAs(options_, true)), 2);
  EXPECT_EQ(Differences(before, ImageOf(scratch_.path())), "");
}

}  // namespace
}  // namespace lzy::testing
