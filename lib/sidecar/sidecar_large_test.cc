// Sidecars with trees that are too large for memory: their pages are read from the file when they are needed.
#include <gtest/gtest.h>

#include <string>

#include "sidecar_fixture.h"

namespace lzy::testing {
namespace {

// 12 pages of leaves, and a tree keeps four pages in memory.
constexpr std::uint64_t kBlocks = 3000;

class LargeSidecarTest : public SidecarTest {
 protected:
  void SetUp() override { SetMostLeavesInMemory(1); }
  void TearDown() override { SetMostLeavesInMemory(kMostLeavesInMemory); }

  static SidecarContents Contents(std::uint64_t seed = 1, std::uint64_t generation = 1) {
    return MakeContents(seed, kBlocks, kBlocks / 3, 1, DatasetKind::kShared, generation);
  }
  static const Extent& LevelOf(const Sidecar& sidecar, std::uint64_t copy) {
    const Extent* level = FindExtent(sidecar.contents().superblock.extents, ExtentKind::kDataLevel, 0);
    static Extent moved;
    moved = *level;
    moved.offset += copy * sidecar.contents().superblock.spacing;
    return moved;
  }
};

TEST_F(LargeSidecarTest, PagesAreReadFromAnyCopyThatIsStillRight) {
  const SidecarContents contents = Contents();
  Create(contents);
  const auto loaded = Load().value();
  ASSERT_TRUE(loaded->contents().data_tree.is_large());
  File()[LevelOf(*loaded, 0).offset + 100] ^= 1;
  EXPECT_TRUE(SameTree(loaded->contents().data_tree, contents.data_tree));
  File()[LevelOf(*loaded, 1).offset + 200] ^= 1;
  const Status gone = NoThrow([&] { (void)loaded->contents().data_tree.leaf(0); });
  EXPECT_CODE(gone, Code::kBusy);
  EXPECT_EQ(loaded->contents().data_tree.leaf(256), contents.data_tree.leaf(256));
}

TEST_F(LargeSidecarTest, LostPagesAreUnknown) {
  const SidecarContents contents = Contents();
  Create(contents);
  for (const std::uint64_t copy : {0, 1}) File()[LevelOf(*Load().value(), copy).offset + 300 * sizeof(Hash)] ^= 1;
  const auto loaded = Load().value();
  EXPECT_EQ(loaded->unknown_data_leaves().size(), 256U);
  EXPECT_EQ(loaded->unknown_data_leaves()[0], 256U);
  EXPECT_TRUE(loaded->contents().data_tree.leaf(256).IsZero());
  EXPECT_EQ(loaded->contents().data_tree.leaf(512), contents.data_tree.leaf(512));
}

TEST_F(LargeSidecarTest, InPagesTheTreesAreTheSameWhateverTheirSize) {
  for (const std::uint64_t in_memory : {std::uint64_t{1}, kMostLeavesInMemory}) {
    SetMostLeavesInMemory(in_memory);
    const SidecarContents contents = Contents();
    Create(contents);
    const auto paged = Sidecar::LoadPaged(fs_, kPath).value();
    EXPECT_TRUE(paged->contents().data_tree.is_large());
    EXPECT_TRUE(Same(paged->contents(), contents));
    // The same if the top hash is lost in one copy.
    const Extent top = *FindExtent(paged->contents().superblock.extents, ExtentKind::kDataLevel, 2);
    File()[top.offset] ^= 1;
    EXPECT_TRUE(Same(Sidecar::LoadPaged(fs_, kPath).value()->contents(), contents));
    // Without it, nothing is proven: no hash is known, as Load says.
    File()[top.offset + paged->contents().superblock.spacing] ^= 1;
    EXPECT_EQ(Sidecar::LoadPaged(fs_, kPath).value()->unknown_data_leaves().size(), kBlocks);
  }
}

// Levels lie behind the info record, so they move if it changes its length.
TEST_F(LargeSidecarTest, CopiesAreHealedAtOtherPlaces) {
  for (const bool longer : {true, false}) {
    for (const bool damaged : {true, false}) {
      SidecarContents before = Contents();
      before.info.members[0].domain = std::string(50, 'x');
      Create(before);
      if (damaged) File()[LevelOf(*Load().value(), 0).offset + 100] ^= 1;
      auto sidecar = Load(OpenMode::kReadWrite).value();
      SidecarContents after = sidecar->contents();
      after.info.members[0].domain = std::string(longer ? 90 : 10, 'y');
      ASSERT_OK(sidecar->WriteAll(after));
      EXPECT_TRUE(SameTree(sidecar->contents().data_tree, before.data_tree));
      const auto again = Load().value();
      EXPECT_TRUE(again->damage().empty());
      EXPECT_TRUE(SameTree(again->contents().data_tree, before.data_tree));
      EXPECT_TRUE(SameTree(again->contents().parity_tree, before.parity_tree));
      EXPECT_EQ(again->contents().info.members[0].domain, after.info.members[0].domain);
    }
  }
}

// The same sidecar is the source of the pages that are written to its copies.
TEST_F(LargeSidecarTest, ALoadedSidecarIsHealedAtEveryCrash) {
  const SidecarContents contents = Contents();
  Create(contents);
  File()[LevelOf(*Load().value(), 1).offset + 5000] ^= 1;
  AtEveryCrash(
      fs_,
      [&] {
        auto sidecar = Load(OpenMode::kReadWrite);
        return sidecar.ok() ? (*sidecar)->WriteAll((*sidecar)->contents()) : sidecar.status();
      },
      [&](bool done) {
        const auto left = Load();
        ASSERT_OK(left);
        EXPECT_TRUE(Same((*left)->contents(), contents));
        EXPECT_EQ(done && (*left)->damage().empty(), done);
      });
}

TEST_F(LargeSidecarTest, ACommitInPlaceCountsOrDoesNotAtEveryCrash) {
  const SidecarContents before = Contents(), after = Contents(2, 2);
  Create(before);
  AtEveryCrash(
      fs_,
      [&] {
        auto sidecar = Load(OpenMode::kReadWrite);
        return sidecar.ok() ? (*sidecar)->WriteAll(after) : sidecar.status();
      },
      [&](bool done) {
        const auto left = Load();
        ASSERT_OK(left);
        EXPECT_TRUE(Same((*left)->contents(), after) || (!done && Same((*left)->contents(), before)));
      });
}

// What counts by then does not fail any more.
TEST_F(LargeSidecarTest, PagesThatAreGoneAfterTheDecisionAreNoFailure) {
  Create(Contents());
  const auto other = Sidecar::Create(fs_, "d/.LZY.g", Contents(2, 2), **fs_.Open("d/f", OpenMode::kRead)).value();
  ASSERT_OK(other->WriteAll(Contents(2, 2)));
  const SidecarContents after = Sidecar::Load(fs_, "d/.LZY.g", OpenMode::kRead).value()->contents();
  ASSERT_TRUE(after.data_tree.is_large());
  auto sidecar = Load(OpenMode::kReadWrite).value();
  ASSERT_OK(sidecar->Prepare(after));
  // The pages of what was prepared are read from copy 1 now.
  File()[LevelOf(*sidecar, 1).offset + 100] ^= 1;
  EXPECT_OK(sidecar->FinishPrepared());
  EXPECT_EQ(sidecar->generation(), 2U);
  const auto left = Load();
  ASSERT_OK(left);
  EXPECT_EQ((*left)->generation(), 2U);
  EXPECT_EQ((*left)->unknown_data_leaves().size(), 256U);
}

}  // namespace
}  // namespace lzy::testing
