// Files and sidecars that were moved to another directory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "memory_files.h"
#include "names/former_names.h"
#include "names/holders.h"
#include "names/lookup.h"
#include "names/reach.h"
#include "sidecar/names.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kFirstMtime = 1'600'000'000'000'000'000;

class ElsewhereTest : public ::testing::Test {
 protected:
  ElsewhereTest() {
    options_.block_size = 512;
    options_.threads = 1;
    Make("a", 3);
    Make("b", 2);
  }
  // A set of files with times of their own.
  void Make(const std::string& directory, std::uint32_t members) {
    DatasetRef set{DatasetKind::kSet, directory + "/s.%r", {}};
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      set.members[rank] = ExpandPattern(set.path, rank);
      fs_.Put(set.members[rank], RandomBytes(rng_, 1400), kFirstMtime + ++made_ * 1'000'000'000);
    }
    ASSERT_OK(Protect(Context{fs_, *self_, options_}, set, {}).status);
    AddToReach(fs_, directory);
  }
  void Move(const std::string& from, const std::string& to, bool also_sidecar) {
    ASSERT_OK(fs_.Rename(from, to));
    if (also_sidecar) ASSERT_OK(fs_.Rename(*SidecarPath(from), *SidecarPath(to)));
  }
  std::vector<std::string> FormerNames(const std::string& path, Within within) {
    std::vector<std::string> names;
    for (const FormerName& one : CommittedAs(fs_, path, *fs_.Stat(path), "", within)) names.push_back(one.name);
    return names;
  }

  Rng rng_{39};
  MemoryFileSystem fs_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
  Options options_;
  std::int64_t made_ = 0;
};

TEST_F(ElsewhereTest, AFileIsKnownByTheSidecarThatItLeftInAnotherDirectory) {
  Move("a/s.1", "b/f", /*also_sidecar=*/false);
  EXPECT_THAT(FormerNames("b/f", Within::kDirectory), IsEmpty());
  EXPECT_THAT(FormerNames("b/f", Within::kReach), ElementsAre("a/s.1"));
  // On another file system the number of an inode says nothing.
  fs_.At("b/f").stat.file_system = 8;
  EXPECT_THAT(FormerNames("b/f", Within::kReach), IsEmpty());
}

// A member of three blocks moves to another directory, without its sidecar, and rots in one block.
class RottenElsewhereTest : public ElsewhereTest {
 protected:
  RottenElsewhereTest() : good_(fs_.At("a/s.1").bytes) {
    Move("a/s.1", "b/f", /*also_sidecar=*/false);
    fs_.At("b/f").bytes[700] ^= 1;
  }
  std::optional<Holder> WhoNeeds() { return FindHolder(fs_, "a/.LZY.s.1", "a/s.1", nullptr, Holders::kAll); }
  void Commit(const std::string& path) {
    ProtectRequest request;
    request.force = true;
    ASSERT_OK(Protect(Context{fs_, *self_, options_}, {DatasetKind::kShared, path, {}}, request).status);
  }

  const std::vector<std::uint8_t> good_;
};

TEST_F(RottenElsewhereTest, AMovedFileIsKnownByItsInodeOrByHalfOfItsBlocks) {
  EXPECT_EQ(RottenAs(fs_, "b/f", nullptr), "a/s.1");
  fs_.At("b/f").stat.file_system = 8;
  EXPECT_EQ(RottenAs(fs_, "b/f", nullptr), "a/s.1");
  fs_.At("b/f").bytes[100] ^= 1;
  EXPECT_EQ(RottenAs(fs_, "b/f", nullptr), std::nullopt);
}

TEST_F(RottenElsewhereTest, AWholeOrEditedFileIsNoRottenOne) {
  fs_.At("b/f").bytes = good_;
  EXPECT_EQ(RottenAs(fs_, "b/f", nullptr), std::nullopt);
  fs_.At("b/f").bytes[700] ^= 1;
  fs_.At("b/f").stat.mtime_ns += 1;
  EXPECT_EQ(RottenAs(fs_, "b/f", nullptr), std::nullopt);
}

TEST_F(RottenElsewhereTest, TheSidecarIsNeededAfterTheRotWasCommitted) {
  Commit("b/f");
  const auto needs = WhoNeeds();
  ASSERT_TRUE(needs.has_value());
  EXPECT_EQ(needs->path, "b/f");
  EXPECT_TRUE(needs->committed);
  EXPECT_FALSE(IsHeldByAnother(fs_, "a/.LZY.s.1", "a/s.1", nullptr));
  // Not if the content is elsewhere, with a proof.
  fs_.Put("a/copy", good_, kFirstMtime);
  Commit("a/copy");
  EXPECT_TRUE(IsHeldByAnother(fs_, "a/.LZY.s.1", "a/s.1", nullptr));
  EXPECT_FALSE(WhoNeeds().has_value());
}

TEST_F(RottenElsewhereTest, TheSidecarIsNotNeededForOtherFilesOfEqualSizeAndTime) {
  auto& other = fs_.At("b/f");
  other.bytes = RandomBytes(rng_, 1400);
  other.stat.inode += 1000;
  Commit("b/f");
  EXPECT_FALSE(WhoNeeds().has_value());
}

}  // namespace
}  // namespace lzy::testing
