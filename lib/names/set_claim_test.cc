#include "names/set_claim.h"

#include <gtest/gtest.h>

#include <vector>

namespace lzy {
namespace {

constexpr Uuid kOld{1}, kNew{2};

SetClaim Of(const Uuid& uuid, std::uint32_t rank, std::uint32_t members, bool same_file = false) {
  return {uuid, rank, members, 1, uuid == kNew ? 200 : 100, same_file};
}

TEST(WhichSetCounts, NothingOfNothing) { EXPECT_FALSE(WhichSetCounts({}).has_value()); }

TEST(WhichSetCounts, NewerSetCountsIfBothHaveAsMany) {
  EXPECT_EQ(WhichSetCounts(std::vector{Of(kOld, 0, 2), Of(kNew, 1, 2)}), 1);
  EXPECT_EQ(WhichSetCounts(std::vector{Of(kNew, 0, 2), Of(kOld, 1, 2)}), 0);
}

TEST(WhichSetCounts, OneSidecarThatWasMovedHereDoesNotSpeakForAll) {
  EXPECT_EQ(WhichSetCounts(std::vector{Of(kOld, 0, 3), Of(kNew, 1, 3), Of(kOld, 2, 3)}), 0);
}

TEST(WhichSetCounts, OfAsManyThoseBesideTheirFilesCount) {
  EXPECT_EQ(WhichSetCounts(std::vector{Of(kOld, 0, 2, true), Of(kNew, 1, 2, false)}), 0);
  EXPECT_EQ(WhichSetCounts(std::vector{Of(kOld, 0, 2, true), Of(kNew, 1, 2, true)}), 1);
}

TEST(WhichSetCounts, RanksThatTheNewerSetDoesNotHaveAreLeftOver) {
  EXPECT_EQ(WhichSetCounts(std::vector{Of(kNew, 0, 2), Of(kNew, 1, 2), Of(kOld, 2, 8), Of(kOld, 3, 8), Of(kOld, 4, 8)}), 0);
}

TEST(WhichSetCounts, TheNewestGenerationOfASetCountsWhateverTheClockSaid) {
  SetClaim later = Of(kOld, 1, 2);
  later.generation = 2;
  later.wall_time_ns = 50;
  EXPECT_EQ(WhichSetCounts(std::vector{Of(kOld, 0, 2), later}), 1);
}

TEST(WhichSetCounts, MembersOfAnotherSetThatWereMovedHereAreNotAsked) {
  SetClaim moved = Of(kNew, 0, 3), also = Of(kNew, 2, 3);
  moved.named = also.named = false;
  EXPECT_EQ(WhichSetCounts(std::vector{moved, Of(kOld, 1, 3), also}), 1);
}

// Lost members left sidecars of the set that had the name before.
TEST(WhichSetCounts, ARenamedSetCountsIfMoreFilesBroughtSidecarsThanLostOnesLeft) {
  SetClaim left = Of(kNew, 0, 3), first = Of(kOld, 1, 3), second = Of(kOld, 2, 3);
  left.present = false;
  first.named = second.named = false;
  EXPECT_EQ(WhichSetCounts(std::vector{left, first, second}), 1);
  EXPECT_EQ(WhichSetCounts(std::vector{left, first}), 0);
}

}  // namespace
}  // namespace lzy
