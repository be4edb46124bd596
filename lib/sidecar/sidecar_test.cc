// What is written is what is loaded, in a new file or in place.
#include "sidecar/sidecar.h"

#include <gtest/gtest.h>

#include "sidecar_fixture.h"

namespace lzy::testing {
namespace {

TEST_F(SidecarTest, RoundTrip) {
  for (const auto kind : {DatasetKind::kShared, DatasetKind::kSet}) {
    for (std::uint64_t blocks : {0u, 1u, 2u, 256u, 257u, 1000u}) {
      for (std::uint32_t parity : {0u, 1u, 3u}) {
        const SidecarContents contents = MakeContents(blocks, blocks, parity * blocks / 3, parity, kind);
        Create(contents);
        auto loaded = Load();
        ASSERT_OK(loaded);
        ExpectSame((*loaded)->contents(), contents);
        EXPECT_TRUE((*loaded)->damage().empty());
        EXPECT_TRUE(Whole(**loaded));
        EXPECT_FALSE((*loaded)->intent());
        EXPECT_EQ((*loaded)->contents().superblock.copies, kind == DatasetKind::kSet ? 2 : std::max(2u, parity + 1));
        EXPECT_EQ((*loaded)->file_size(), File().size());
        EXPECT_EQ(fs_.At(kPath).durable, File()) << "durable when written";
      }
    }
  }
}

TEST_F(SidecarTest, WritingInPlaceEqualsWritingAfresh) {
  for (std::uint64_t blocks : {1u, 255u, 256u, 257u, 300u}) {
    SidecarContents first = MakeContents(1, 280, 100, 1);
    SidecarContents second = MakeContents(2, blocks, blocks / 3, 1, DatasetKind::kShared, 2);
    auto sidecar = Create(first);
    ASSERT_TRUE(sidecar->Fits(second));
    ASSERT_OK(sidecar->WriteAll(second));
    auto loaded = Load();
    ASSERT_OK(loaded);
    ExpectSame((*loaded)->contents(), second);
    EXPECT_TRUE((*loaded)->damage().empty());
    EXPECT_EQ(sidecar->file_size(), File().size());
    EXPECT_EQ((*loaded)->ParityFileOffset(0) + second.superblock.parity_size, File().size());
  }
}

TEST_F(SidecarTest, FitsOnlyWhatHasTheSameGeometryAndRoom) {
  auto sidecar = Create(MakeContents(1, 100, 30, 1));
  EXPECT_TRUE(sidecar->Fits(MakeContents(1, 110, 30, 1)));
  EXPECT_FALSE(sidecar->Fits(MakeContents(1, 10000, 30, 1))) << "no room";
  EXPECT_FALSE(sidecar->Fits(MakeContents(1, 100, 30, 2))) << "other parity";
  EXPECT_FALSE(sidecar->Fits(MakeContents(1, 100, 30, 1, DatasetKind::kSet))) << "other kind";
  SidecarContents other = MakeContents(1, 100, 30, 1);
  other.superblock.unit = 1024;
  EXPECT_FALSE(sidecar->Fits(other));
  other = MakeContents(1, 100, 30, 1);
  other.info.groups = {{0, 1}, {2, 3}};
  EXPECT_FALSE(sidecar->Fits(other));
}

TEST_F(SidecarTest, NeverCommittedHoldsOnlyItsIntent) {
  SidecarContents empty;
  empty.superblock.state = SidecarState::kNeverCommitted;
  empty.superblock.generation = 0;
  empty.superblock.block_size = kBlock;
  empty.superblock.unit = kBlock;
  empty.superblock.members = empty.superblock.largest_group = 1;
  empty.info.name = "f";
  auto sidecar = Create(empty);
  EXPECT_FALSE(sidecar->committed());
  ASSERT_OK(sidecar->SetIntent(NewIntent(kIntentWholeFile)));
  auto loaded = Load();
  ASSERT_OK(loaded);
  EXPECT_FALSE((*loaded)->committed());
  EXPECT_TRUE((*loaded)->intent());
  EXPECT_FALSE((*loaded)->Fits(MakeContents(1, 1, 0, 0)));
}

}  // namespace
}  // namespace lzy::testing
