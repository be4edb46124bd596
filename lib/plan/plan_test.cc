#include "plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "plan/checkpoint.h"
#include "plan/page.h"
#include "plan/parse.h"

namespace lzy {
namespace {

using ::testing::HasSubstr;

PlanRequest Cluster(std::uint32_t devices) {
  PlanRequest request;
  PlanSystem& s = request.system;
  s.devices = devices;
  s.per_node = 4;
  s.device_rate = 0.02 / kHoursAYear;
  s.node_rate = 0.05 / kHoursAYear;
  s.crash_rate = 1 / kHoursAYear;
  s.latent_rate = 1e-6;
  s.bytes = 64e9;
  s.read_rate = s.write_rate = 2e9 * 3600;
  s.parity_rate = 4e9 * 3600;
  s.network_rate = 10e9 * 3600;
  s.replace_hours = 1;
  return request;
}

TEST(Plan, MoreParityLosesLessAndCostsMore) {
  PlanRequest request = Cluster(256);
  request.limits.most_touches = 20000;
  const PlanTable table = MakePlanTable(request).value();
  ASSERT_EQ(table.rows.size(), 12u);
  for (std::size_t i = 4; i < table.rows.size(); ++i) {
    const PlanRow &less = table.rows[i - 4], &more = table.rows[i];
    ASSERT_EQ(less.n, more.n);
    EXPECT_LT(more.loss_year, less.loss_year);
    EXPECT_GT(more.overhead, less.overhead);
    EXPECT_GT(more.run_overhead, less.run_overhead);
  }
  for (const PlanRow& row : table.rows) {
    EXPECT_TRUE(row.comparison.agrees()) << row.n << " " << row.m << ": " << row.comparison.losses << " of " << row.comparison.expected;
  }
}

TEST(Plan, TakesTheLeastSpaceThatReachesTheTarget) {
  PlanRequest request = Cluster(256);
  request.simulate = false;
  for (const double target : {1e-2, 1e-4, 1e-8}) {
    request.target = target;
    const PlanTable table = MakePlanTable(request).value();
    ASSERT_TRUE(table.reaches_target);
    const PlanRow& best = table.rows[table.recommended.value()];
    EXPECT_LE(best.loss_year, target);
    for (const PlanRow& row : table.rows) {
      EXPECT_TRUE(row.loss_year > target || row.overhead >= best.overhead);
    }
  }
  request.target = 1e-60;
  const PlanTable table = MakePlanTable(request).value();
  EXPECT_FALSE(table.reaches_target);
  EXPECT_THAT(table.recommendation, HasSubstr("no row reaches it"));
  for (const PlanRow& row : table.rows) EXPECT_GE(row.loss_year, table.rows[table.recommended.value()].loss_year);
}

TEST(Plan, SaysWhatItLeavesOut) {
  PlanRequest request = Cluster(6);
  request.simulate = false;
  request.groups = {2, 4, 16};
  request.parities = {2};
  const PlanTable table = MakePlanTable(request).value();
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[1].n, 6u);  // a group of all
  EXPECT_THAT(table.left_out, testing::ElementsAre(HasSubstr("n = 2, m = 2: a group needs more than m devices")));
  request.groups = {2};
  EXPECT_EQ(MakePlanTable(request).status().code(), Code::kInvalidArgument);
}

// Lazy Redundancy, section 2: parity is 1/p of what p devices store, so 1/(p-1) of their data.
TEST(Plan, SpaceIsThatOfLazyRedundancy) {
  PlanRequest request = Cluster(16);
  request.system.per_node = 1;
  for (const std::uint32_t p : {2u, 4u, 8u, 16u}) {
    const double parity = DealPlanGroups(request.system, p, 1).overhead();
    EXPECT_NEAR(parity / (1 + parity), 1.0 / p, 1e-12);
  }
}

TEST(Plan, OverwritingInPlaceIsALossInTheWindow) {
  PlanRequest request = Cluster(256);
  request.groups = {8};
  request.parities = {3};
  request.simulate = false;
  const PlanRow apart = MakePlanTable(request).value().rows[0];
  request.system.in_place = true;
  const PlanRow in_place = MakePlanTable(request).value().rows[0];
  EXPECT_EQ(apart.window_year, in_place.window_year);
  EXPECT_NEAR(in_place.loss_year, 1 - std::exp(-apart.window_year), 1e-6);
  EXPECT_LT(apart.loss_year, in_place.loss_year / 1000);
}

TEST(Plan, ManyDevicesTakeSeconds) {
  PlanRequest request = Cluster(100'000);
  const PlanTable table = MakePlanTable(request).value();
  EXPECT_EQ(table.rows.size(), 12u);
}

TEST(Checkpoint, DalyAndYoung) {
  EXPECT_NEAR(YoungInterval(0.1, 20), 2, 1e-12);
  // Daly 2006, equation 37.
  EXPECT_NEAR(BestInterval(0.1, 20), 2 * (1 + std::sqrt(0.0025) / 3 + 0.0025 / 9) - 0.1, 1e-12);
  EXPECT_EQ(BestInterval(50, 20), 20);
  // The estimate is near the true minimum of the complete model.
  const double best = CheckpointOverhead(BestInterval(0.1, 20), 0.1, 0.5, 20);
  for (double interval = 0.2; interval < 20; interval *= 1.05) EXPECT_GE(CheckpointOverhead(interval, 0.1, 0.5, 20), best * 0.999);
  EXPECT_EQ(CheckpointOverhead(10, 0.1, 1, INFINITY), 0.01);
  EXPECT_NEAR(StartAgainOverhead(10, 0.1), std::exp(1) - 2, 1e-12);
}

TEST(Parse, UnitsAreRequired) {
  EXPECT_DOUBLE_EQ(ParseHours("90s").value(), 0.025);
  EXPECT_DOUBLE_EQ(ParseHours("1.2Mh").value(), 1.2e6);
  EXPECT_DOUBLE_EQ(ParseHours("2y").value(), 2 * kHoursAYear);
  EXPECT_DOUBLE_EQ(ParseFailureRate("2%/y").value(), 0.02 / kHoursAYear);
  EXPECT_DOUBLE_EQ(ParseFailureRate("1000h").value(), 1e-3);
  EXPECT_EQ(ParseFailureRate("never"), 0.0);
  EXPECT_DOUBLE_EQ(ParseBitErrors("8e-15/byte").value(), 1e-15);
  EXPECT_DOUBLE_EQ(ParseRot("0.5/T/y").value(), 0.5 / 0x1p40 / kHoursAYear);
  EXPECT_DOUBLE_EQ(ParseBytes("1.5K").value(), 1536);
  EXPECT_DOUBLE_EQ(ParseSpeed("1M/s").value(), 0x1p20 * 3600);
  EXPECT_DOUBLE_EQ(ParseProbability("0.01%").value(), 1e-4);
  EXPECT_THAT(ParseNumbers("8,4,8", 2, 255).value(), testing::ElementsAre(4, 8));
  for (const char* bad : {"", "20", "-1h", "h", "0h", "1 h", "nan h", "infh", "1e400h", "1hh", "1Mm", "1x"}) EXPECT_FALSE(ParseHours(bad)) << bad;
  for (const char* bad : {"2%", "2", "-2%/y", "0h", "1s", "1e300y", "1001%/y"}) EXPECT_FALSE(ParseFailureRate(bad)) << bad;
  for (const char* bad : {"1e-15", "1e-3/bit", "-1e-15/bit", "1e-15/B"}) EXPECT_FALSE(ParseBitErrors(bad)) << bad;
  for (const char* bad : {"1", "1/T", "1/y", "1/X/y", "1/T/x", "-1/T/y", "1/T/yy"}) EXPECT_FALSE(ParseRot(bad)) << bad;
  for (const char* bad : {"", "0", "-1G", "1GG", "1P", "1e30"}) EXPECT_FALSE(ParseBytes(bad)) << bad;
  for (const char* bad : {"500M", "0/s", "M/s", "500M/h"}) EXPECT_FALSE(ParseSpeed(bad)) << bad;
  for (const char* bad : {"0", "1", "100%", "-1%", "1e-4x"}) EXPECT_FALSE(ParseProbability(bad)) << bad;
  for (const char* bad : {"", ",", "1", "4,", "4;8", "256", "4,-8"}) EXPECT_FALSE(ParseNumbers(bad, 2, 255)) << bad;
}

TEST(Page, IsOneFileThatNeedsNoNetwork) {
  PlanRequest request = Cluster(64);
  request.limits.most_touches = 1000;
  const std::string page = PlanPage(request, MakePlanTable(request).value(), "lzy-plan <&\"");
  EXPECT_THAT(page, HasSubstr("lzy-plan &lt;&amp;&quot;"));
  EXPECT_THAT(page, HasSubstr("<polyline"));
  for (const char* no : {"http", "src=", "<script", "nan", "inf,"}) EXPECT_EQ(page.find(no), std::string::npos) << no;
}

}  // namespace
}  // namespace lzy
