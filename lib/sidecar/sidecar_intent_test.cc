// The intent in a sidecar: set durably, read back, void after a commit.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sidecar_fixture.h"

namespace lzy::testing {
namespace {

TEST_F(SidecarTest, IntentIsSetDurablyAndTakenBack) {
  auto sidecar = Create(MakeContents(1, 30, 10, 1));
  const std::vector<ByteRange> ranges = {{0, 512}, {4096, 1}};
  ASSERT_OK(sidecar->SetIntent(NewIntent(0, ranges)));
  EXPECT_EQ(fs_.At(kPath).durable, File());
  auto loaded = Load();
  ASSERT_OK(loaded);
  ASSERT_TRUE((*loaded)->intent());
  EXPECT_EQ((*loaded)->intent()->ranges, ranges);
  EXPECT_EQ((*loaded)->intent()->flags, 0u);
  EXPECT_TRUE((*loaded)->damage().empty());
  loaded = Load(OpenMode::kReadWrite);
  ASSERT_OK((*loaded)->ClearIntent());
  EXPECT_EQ(fs_.At(kPath).durable, File());
  loaded = Load();
  EXPECT_FALSE((*loaded)->intent());
  EXPECT_TRUE((*loaded)->damage().empty());
}

TEST_F(SidecarTest, AnIntentOfTooManyRangesCoversTheWholeFile) {
  auto sidecar = Create(MakeContents(1, 30, 10, 1));
  std::vector<ByteRange> ranges(240, {1, 1});
  ASSERT_OK(sidecar->SetIntent(NewIntent(0, ranges)));
  EXPECT_EQ((*Load())->intent()->ranges.size(), 240u);
  ranges.push_back({5, 5});
  ASSERT_OK(sidecar->SetIntent(NewIntent(0, ranges)));
  EXPECT_EQ((*Load())->intent()->flags, kIntentWholeFile);
}

TEST_F(SidecarTest, ACommitVoidsTheIntent) {
  auto sidecar = Create(MakeContents(1, 30, 10, 1));
  ASSERT_OK(sidecar->SetIntent(NewIntent(kIntentWholeFile)));
  ASSERT_OK(sidecar->WriteAll(MakeContents(2, 30, 10, 1, DatasetKind::kShared, 2)));
  EXPECT_FALSE(sidecar->intent());
  auto loaded = Load();
  ASSERT_OK(loaded);
  EXPECT_FALSE((*loaded)->intent());
  EXPECT_TRUE((*loaded)->damage().empty());
}

TEST_F(SidecarTest, OneTornIntentPageIsTolerated) {
  auto sidecar = Create(MakeContents(1, 30, 10, 1));
  ASSERT_OK(sidecar->SetIntent(NewIntent(kIntentWholeFile)));
  const std::size_t at = 2 * 8192;
  for (std::size_t page : {0u, 1u}) {
    Bytes good = File();
    for (std::size_t i = 0; i < 4096; ++i) File()[at + page * 4096 + i] ^= 0xa5;
    auto loaded = Load();
    ASSERT_OK(loaded);
    EXPECT_TRUE((*loaded)->intent()) << "page " << page << " torn";
    File() = good;
  }
}

TEST_F(SidecarTest, AnIntentThatWasReturnedAsSetSurvivesPowerLoss) {
  Create(MakeContents(1, 30, 10, 1));
  ExpectIntentsSurvivePowerLoss(MakeContents(1, 30, 10, 1));
}

TEST_F(SidecarTest, IntentOfAnotherGenerationOrDatasetIsVoid) {
  auto sidecar = Create(MakeContents(1, 30, 10, 1));
  ASSERT_OK(sidecar->SetIntent(NewIntent(kIntentWholeFile)));
  const Intent set = *(*Load())->intent();
  for (int which = 0; which < 2; ++which) {
    Intent other = set;
    if (which == 0) other.generation += 1;
    if (which == 1) other.uuid[3] ^= 1;
    for (std::uint32_t page = 0; page < 2; ++page) {
      const auto bytes = EncodeIntent(other, page);
      std::copy(bytes.begin(), bytes.end(), File().begin() + 2 * 8192 + page * 4096);
    }
    EXPECT_FALSE((*Load())->intent());
  }
}

}  // namespace
}  // namespace lzy::testing
