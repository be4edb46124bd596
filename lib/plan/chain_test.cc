#include "plan/chain.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plan/plan.h"
#include "plan/simulate.h"

namespace lzy {
namespace {

constexpr double kNoTime = 1e30;  // a rate at which nothing takes time

/// Devices alone on their nodes, with a restore that takes `repair` hours.
PlanSystem Simple(std::uint32_t devices, double mttf, double repair) {
  PlanSystem s;
  s.devices = devices;
  s.device_rate = 1 / mttf;
  s.bytes = 1 << 30;
  s.read_rate = s.write_rate = s.parity_rate = s.network_rate = kNoTime;
  s.replace_hours = repair;
  return s;
}

LossRates Losses(const PlanSystem& s, std::uint32_t n, std::uint32_t m) {
  const PlanGroups groups = DealPlanGroups(s, n, m);
  Company company(s, groups);
  return ChainLosses(s, groups, company).value();
}

// The chain 0 -> 1 -> loss has the mean time to absorption ((2n-1) l + u) / (n (n-1) l^2).
TEST(Chain, Raid5IsTheClosedForm) {
  for (const double n : {2.0, 5.0, 11.0}) {
    for (const double repair : {1.0, 100.0, 1000.0}) {
      const double l = 1 / 30000.0, u = 1 / repair;
      const double mttdl = ((2 * n - 1) * l + u) / (n * (n - 1) * l * l);
      EXPECT_NEAR(Losses(Simple(static_cast<std::uint32_t>(n), 30000, repair), static_cast<std::uint32_t>(n), 1).system * mttdl, 1, 1e-9);
    }
  }
}

// 0 -> 1 -> 2 -> loss, restores at rates u and 2u. Mean times from each state: T2 = 1/(c+2u) + 2u/(c+2u) T1 and so on.
TEST(Chain, Raid6IsTheClosedForm) {
  const double n = 10, l = 1 / 5000.0, u = 1 / 300.0;
  const double a = n * l, b = (n - 1) * l, c = (n - 2) * l;
  // Solved by hand for T0: T0 = 1/a + T1; T1 (b + u) = 1 + b T2 + u T0; T2 (c + 2u) = 1 + 2u T1.
  const double t1 = ((1 + u / a) + b / (c + 2 * u)) / (b - b * 2 * u / (c + 2 * u));
  EXPECT_NEAR(Losses(Simple(10, 5000, 300), 10, 2).system * (1 / a + t1), 1, 1e-9);
}

// Patterson, Gibson, Katz, "A Case for Redundant Arrays of Inexpensive Disks (RAID)", SIGMOD 1988, level 3: 100 data disks,
// MTTF 30,000 h, MTTR 1 h. 820,000 h with groups of 10 data disks, 346,000 h with groups of 25.
TEST(Chain, FiguresOfPattersonGibsonAndKatz) {
  EXPECT_NEAR(1 / Losses(Simple(110, 30000, 1), 11, 1).system, 820000, 3000);
  EXPECT_NEAR(1 / Losses(Simple(104, 30000, 1), 26, 1).system, 346000, 1000);
}

// Chen et al., "RAID: High-Performance, Reliable Secondary Storage", 1994: MTTF^2 / (N (G-1) MTTR) for N disks in groups
// of G, and with P+Q MTTF^3 / (N (G-1) (G-2) MTTR^2). The second has one restore at a time. Here both run at once, so
// the state with two losses is left twice as fast.
TEST(Chain, FormulasOfChenAndOthers) {
  const double mttf = 200000, mttr = 1, disks = 96, g = 16;
  const PlanSystem s = Simple(96, mttf, mttr);
  EXPECT_NEAR(1 / Losses(s, 16, 1).system / (mttf * mttf / (disks * (g - 1) * mttr)), 1, 1e-3);
  EXPECT_NEAR(1 / Losses(s, 16, 2).system / (mttf * mttf * mttf / (disks * (g - 1) * (g - 2) * mttr * mttr)), 2, 1e-3);
}

// The elimination never subtracts: the smallest rates keep their digits. m losses in the time of one restore each:
// n!/(n-m-1)! l^(m+1) / (m! u^m).
TEST(Chain, RareLossesKeepTheirDigits) {
  for (const std::uint32_t m : {1u, 2u, 3u, 4u, 6u}) {
    double expected = 1;
    for (std::uint32_t i = 0; i <= m; ++i) expected *= (12.0 - i) * 1e-9;
    for (std::uint32_t i = 1; i <= m; ++i) expected /= i;
    EXPECT_NEAR(Losses(Simple(12, 1e9, 1), 12, m).system / expected, 1, 1e-6) << m;
  }
}

TEST(Chain, WithoutParityEveryFailureIsALoss) {
  PlanSystem s = Simple(10, 1000, 1);
  s.latent_rate = 1e-4;
  EXPECT_NEAR(Losses(s, 5, 0).system, 10 * 1e-3 + 10 * 1e-4, 1e-12);
}

TEST(Chain, BadBlocksThatAScrubHasNotFound) {
  // Of a uniform age: 1 - (1 - e^-x)/x.
  EXPECT_NEAR(LatentProbability(0.02, 100, 0), 1 - (1 - std::exp(-2)) / 2, 1e-12);
  EXPECT_NEAR(LatentProbability(1e-9, 100, 0), 1e-9 * 50, 1e-14);
  // A restore a second reads everything all the time.
  EXPECT_LT(LatentProbability(0.02, 100, 3600), 1e-5);
  // For a group: each failure meets a bad block of the others with this probability.
  PlanSystem s = Simple(8, 1e6, 1e-3);
  s.latent_rate = 1e-5;
  s.scrub_hours = 720;
  const double p = LatentProbability(7e-5, 720, 8e-6);
  EXPECT_NEAR(Losses(s, 8, 1).system / (8e-6 * p), 1, 0.01);
}

// Elerath and others call it the dominant cause for RAID 5: the restore reads all other devices, and one bit is bad.
TEST(Chain, UnrecoverableReadErrors) {
  PlanSystem s = Simple(8, 1e6, 1e-3);
  s.bytes = 4e12;
  s.read_error_bit = 1e-15;
  const double p = 1 - std::exp(-7 * 8 * 4e12 * 1e-15);
  EXPECT_NEAR(Losses(s, 8, 1).system / (8e-6 * p), 1, 1e-3);
  EXPECT_LT(Losses(s, 8, 2).system / Losses(s, 8, 1).system, 1e-4);
}

TEST(Chain, NodesTakeAllTheirDevicesWithThem) {
  // 4 nodes of 2 devices, in two groups of one device of each node. Both groups are lost together.
  PlanSystem s = Simple(8, 1e6, 1);
  s.per_node = 2;
  s.device_rate = 0;
  s.node_rate = 1e-5;
  const LossRates one = Losses(s, 4, 1);
  EXPECT_NEAR(one.system / (4 * 3 * 1e-10), 1, 1e-3);
  EXPECT_NEAR(one.group / one.system, 2, 1e-9);
}

TEST(Chain, ANodeWithMoreMembersThanParityIsALoss) {
  PlanSystem s = Simple(16, 1e9, 1);
  s.per_node = 8;
  s.node_rate = 1e-5;
  const PlanGroups groups = DealPlanGroups(s, 8, 2);
  ASSERT_GT(groups.worst_share, 2u);
  EXPECT_NEAR(Losses(s, 8, 2).system / 2e-5, 1, 1e-3);  // each node once, not once for each group
}

TEST(Chain, DomainsAreSpreadAsTheCommitSpreadsThem) {
  // 8 racks of 2 nodes: with parity 1 and groups of 8, each group has one member of each rack.
  PlanSystem s = Simple(16, 1e9, 1);
  s.nodes_per_domain = 2;
  s.domain_rate = 1e-5;
  EXPECT_EQ(DealPlanGroups(s, 8, 1).worst_share, 1u);
  // Two racks fail within an hour.
  EXPECT_NEAR(Losses(s, 8, 1).system / (8 * 7 * 1e-10), 1, 1e-2);
  s.nodes_per_domain = 8;  // two racks only: groups of two keep them apart, but not with two parities
  EXPECT_EQ(DealPlanGroups(s, 8, 1).largest, 2u);
  EXPECT_EQ(DealPlanGroups(s, 8, 2).worst_share, 4u);
  EXPECT_NEAR(Losses(s, 8, 2).system / 2e-5, 1, 1e-2);
}

TEST(Chain, TooManyStatesAreRefused) {
  PlanSystem s = Simple(250, 1e5, 100);
  s.per_node = 25;
  s.node_rate = 1e-6;
  const PlanGroups groups = DealPlanGroups(s, 250, 40);
  Company company(s, groups);
  const auto refused = ChainLosses(s, groups, company);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("use smaller groups"), std::string::npos);
}

}  // namespace
}  // namespace lzy
