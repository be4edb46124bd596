#include "catalog/scrub_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lzy {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kADay = 86'400'000'000'000;

std::vector<std::size_t> Order(const std::vector<ScrubStep>& steps) {
  std::vector<std::size_t> out;
  for (const ScrubStep& step : steps) out.push_back(step.candidate);
  return out;
}

TEST(PlanScrub, OldestFirstAndNeverVerifiedBeforeAll) {
  const std::vector<ScrubCandidate> all = {{100, 30 * kADay}, {100, 10 * kADay}, {100, 0}, {100, 20 * kADay}, {100, 0}};
  EXPECT_THAT(Order(PlanScrub(all, {.now = 40 * kADay})), ElementsAre(2, 4, 1, 3, 0));
}

TEST(PlanScrub, OlderThanCountsFromTheAgeOn) {
  const std::vector<ScrubCandidate> all = {{100, 30 * kADay}, {100, 10 * kADay}, {100, 10 * kADay + 1}, {100, 0}};
  EXPECT_THAT(Order(PlanScrub(all, {.now = 40 * kADay, .older_than = 30 * kADay})), ElementsAre(3, 1));
}

TEST(PlanScrub, AClockThatWasSetBackMakesFutureTimesNever) {
  const std::vector<ScrubCandidate> all = {{100, 10 * kADay}, {100, 50 * kADay}};
  EXPECT_THAT(Order(PlanScrub(all, {.now = 40 * kADay, .older_than = kADay})), ElementsAre(1, 0));
}

TEST(PlanScrub, ShareIsOfAllBytesAndEndsInsideADataset) {
  const std::vector<ScrubCandidate> all = {{1000, 2}, {100, 1}, {900, 3}};
  const auto steps = PlanScrub(all, {.now = kADay, .share = 0.25});
  ASSERT_THAT(Order(steps), ElementsAre(1, 0));
  EXPECT_EQ(steps[0].most_bytes, 0u);
  EXPECT_EQ(steps[1].most_bytes, 400u);
}

TEST(PlanScrub, GoesOnWhereItStoppedAndCountsOnlyTheRest) {
  const std::vector<ScrubCandidate> all = {{1000, 1, 75, 100}, {1000, 2}};
  const auto steps = PlanScrub(all, {.now = kADay, .share = 0.5});
  ASSERT_THAT(Order(steps), ElementsAre(0, 1));
  EXPECT_EQ(steps[0].first_row, 75u);
  EXPECT_EQ(steps[0].most_bytes, 0u);
  EXPECT_EQ(steps[1].most_bytes, 750u);
}

TEST(PlanScrub, TheWholeShareReadsEmptyDatasetsToo) {
  const std::vector<ScrubCandidate> all = {{0, 0}, {0, 0}};
  EXPECT_THAT(Order(PlanScrub(all, {.now = kADay})), ElementsAre(0, 1));
}

TEST(ParseShare, TakesPercentages) {
  EXPECT_EQ(ParseShare("12%"), 0.12);
  EXPECT_EQ(ParseShare("0.5"), 0.005);
  EXPECT_EQ(ParseShare("100%"), 1.0);
  for (const char* bad : {"", "%", "-1", "101", "1e2", "5 %", "nan", "inf", "5%%"}) EXPECT_FALSE(ParseShare(bad)) << bad;
}

TEST(ParseDuration, TakesUnits) {
  EXPECT_EQ(ParseDuration("90"), 90'000'000'000);
  EXPECT_EQ(ParseDuration("1.5m"), 90'000'000'000);
  EXPECT_EQ(ParseDuration("30d"), 30 * kADay);
  EXPECT_EQ(ParseDuration("2w"), 14 * kADay);
  EXPECT_EQ(ParseDuration("1y"), 365 * kADay + kADay / 4);
  for (const char* bad : {"", "d", "-1d", "1 d", "1D", "300y", "1mm"}) EXPECT_FALSE(ParseDuration(bad)) << bad;
}

// Without a catalogue, no earlier reads are known.
TEST(PlanScrub, ARunEachDayComesRound) {
  const std::vector<ScrubCandidate> all = {{100}, {300}, {200}, {400}};
  std::vector<std::size_t> first;
  for (int day = 0; day < 10; ++day) {
    const auto steps = PlanScrub(all, {.now = kADay, .share = 0.1, .begin = TurnOfDay(day * kADay + 5, 0.1)});
    ASSERT_FALSE(steps.empty());
    first.push_back(steps[0].candidate);
  }
  EXPECT_THAT(first, ElementsAre(0, 1, 1, 1, 2, 2, 3, 3, 3, 3));
}

TEST(PlanScrub, APlaceInsideOfACandidate) {
  const std::vector<ScrubCandidate> all = {{100}, {300}, {600}};
  EXPECT_EQ(PlaceOfShare(all, 0), std::pair(std::size_t{0}, 0.0));
  EXPECT_EQ(PlaceOfShare(all, 0.25), std::pair(std::size_t{1}, 0.5));
  EXPECT_EQ(PlaceOfShare(all, 1), std::pair(std::size_t{0}, 0.0));
  EXPECT_EQ(PlaceOfShare({}, 0.5), std::pair(std::size_t{0}, 0.0));
  EXPECT_EQ(PlaceOfShare(std::vector<ScrubCandidate>{{0}, {0}}, 0.5), std::pair(std::size_t{0}, 0.0));
}

}  // namespace
}  // namespace lzy
