#include "plan/simulate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>

#include "plan/chain.h"

namespace lzy {
namespace {

struct Case {
  std::string name;
  PlanSystem system;
  std::uint32_t n, m;
  /// The allowed error of the chain, besides chance, where several failures at a time are not rare; a share.
  double allowed = 0.02;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

// Rates are so high that losses occur. Everything else is as in a real machine.
PlanSystem Base() {
  PlanSystem s;
  s.devices = 64;
  s.bytes = 1e9;
  s.read_rate = s.write_rate = s.parity_rate = s.network_rate = 1e30;  // nothing takes time
  s.replace_hours = 10;
  s.device_rate = 1e-4;
  return s;
}
PlanSystem With(void (*change)(PlanSystem&)) {
  PlanSystem s = Base();
  change(s);
  return s;
}

std::vector<Case> Cases() {
  return {
      {"Raid5", Base(), 8, 1},
      {"Raid6", With([](PlanSystem& s) { s.device_rate = 4e-4; }), 8, 2},
      {"Triple", With([](PlanSystem& s) { s.device_rate = 1e-3; }), 8, 3},
      {"UnevenGroups", With([](PlanSystem& s) { s.devices = 61; }), 8, 1},
      {"Nodes", With([](PlanSystem& s) { s.per_node = 4, s.device_rate = 2e-5, s.node_rate = 1e-4; }), 8, 1},
      {"NodesTwice", With([](PlanSystem& s) { s.per_node = 4, s.device_rate = 2e-4, s.node_rate = 4e-4; }), 8, 2},
      {"TwoOfANodeInAGroup", With([](PlanSystem& s) { s.devices = 48, s.per_node = 16, s.node_rate = 1e-3; }), 6, 3},
      {"UnalignedNodes", With([](PlanSystem& s) { s.devices = 60, s.per_node = 5, s.device_rate = 1e-5, s.node_rate = 2e-4; }), 9, 1, 0.04},
      {"Racks", With([](PlanSystem& s) { s.nodes_per_domain = 4, s.domain_rate = 1e-4; }), 8, 1},
      {"RacksOfNodes", With([](PlanSystem& s) { s.per_node = 2, s.nodes_per_domain = 4, s.node_rate = 5e-5, s.domain_rate = 5e-5; }), 4, 1},
      {"RackBeyondParity", With([](PlanSystem& s) { s.nodes_per_domain = 16, s.domain_rate = 1e-5; }), 32, 1},
      {"BadBlocks", With([](PlanSystem& s) { s.latent_rate = 1e-4, s.scrub_hours = 200, s.device_rate = 2e-5; }), 8, 1},
      {"BadBlocksOften", With([](PlanSystem& s) { s.latent_rate = 1e-3, s.scrub_hours = 200, s.device_rate = 2e-5; }), 8, 1},
      {"BadBlocksInNodes", With([](PlanSystem& s) { s.per_node = 4, s.node_rate = 2e-5, s.latent_rate = 1e-4, s.scrub_hours = 200, s.device_rate = 1e-5; }), 8, 1},
      {"BadBlocksRaid6", With([](PlanSystem& s) { s.latent_rate = 1e-4, s.scrub_hours = 200, s.device_rate = 2e-4; }), 8, 2},
      {"BadBlocksInARow", With([](PlanSystem& s) { s.latent_rate = 1e-3, s.scrub_hours = 200, s.device_rate = 1e-7, s.bytes = 1e6; }), 8, 1},
      {"ReadErrors", With([](PlanSystem& s) { s.read_error_bit = 1e-12; }), 8, 1},
      {"ReadErrorsInNodes", With([](PlanSystem& s) { s.per_node = 4, s.node_rate = 1e-4, s.read_error_bit = 1e-11; }), 8, 1},
      {"ReadErrorsRaid6", With([](PlanSystem& s) { s.device_rate = 4e-4, s.read_error_bit = 1e-11; }), 8, 2},
      {"NoParity", With([](PlanSystem& s) { s.per_node = 4, s.node_rate = 1e-4, s.latent_rate = 1e-5; }), 8, 0},
  };
}

class SimulationAndChain : public testing::TestWithParam<Case> {};

// A sanitized simulation is ten times as slow.
#ifdef __SANITIZE_ADDRESS__
constexpr std::uint64_t kWanted = 500;
#else
constexpr std::uint64_t kWanted = 2000;
#endif

// Two programs that share only the description. Losses are Poisson distributed; with 2,000 of them, the deviation is 2 %.
TEST_P(SimulationAndChain, Agree) {
  const Case& c = GetParam();
  const PlanGroups groups = DealPlanGroups(c.system, c.n, c.m);
  Company company(c.system, groups);
  const LossRates chain = ChainLosses(c.system, groups, company).value();
  const SimulatedLosses seen = Simulate(c.system, groups, 0, 1, {.seed = 7, .wanted_losses = kWanted, .most_touches = 20'000'000});
  ASSERT_GT(seen.system, 300u);
  for (const auto& [losses, rate] : {std::pair(seen.system, chain.system), std::pair(seen.group, chain.group)}) {
    const double expected = rate * seen.hours, many = static_cast<double>(losses) / static_cast<double>(seen.system);
    // Groups are lost several at a time, so their number varies more.
    EXPECT_NEAR(static_cast<double>(losses), expected, 3 * std::sqrt(expected * many) + c.allowed * expected)
        << static_cast<double>(losses) / expected << " of what the chain expects";
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, SimulationAndChain, testing::ValuesIn(Cases()), [](const auto& one) { return one.param.name; });

// Engset: the number of devices that are lost at a time depends only on the mean time of a restore, because each failure has
// its own restore.
TEST(Simulation, TheFormOfRestoreTimesHardlyMatters) {
  PlanSystem s = Base();
  s.device_rate = 4e-4;
  const PlanGroups groups = DealPlanGroups(s, 8, 2);
  const auto seen = [&](bool fixed) {
    const SimulatedLosses out =
        Simulate(s, groups, 0, 1, {.seed = 3, .wanted_losses = 2000, .most_touches = 20'000'000, .fixed_restores = fixed});
    return static_cast<double>(out.system) / out.hours;
  };
  EXPECT_NEAR(seen(true) / seen(false), 1, 0.1);
}

TEST(Simulation, FailuresBeforeTheCommitAreThoseInTheWindow) {
  PlanSystem s = Base();
  const SimulatedLosses seen = Simulate(s, DealPlanGroups(s, 8, 3), 0.25, 3, {.most_touches = 100'000});
  const double expected = 0.25 * static_cast<double>(seen.events);
  ASSERT_GT(expected, 10'000);
  EXPECT_NEAR(static_cast<double>(seen.in_window), expected, 3 * std::sqrt(expected * 0.75));
}

TEST(Simulation, TheSameSeedGivesTheSameLosses) {
  const PlanSystem s = Base();
  const PlanGroups groups = DealPlanGroups(s, 8, 1);
  const auto losses = [&](std::uint64_t seed) { return Simulate(s, groups, 0, 1, {.seed = seed}).hours; };
  EXPECT_EQ(losses(1), losses(1));
  EXPECT_NE(losses(1), losses(2));
}

TEST(Simulation, NothingFailsIfNothingCan) {
  PlanSystem s = Base();
  s.device_rate = 0;
  const SimulatedLosses seen = Simulate(s, DealPlanGroups(s, 8, 1), 0, 1, {});
  EXPECT_EQ(seen.system + seen.events, 0u);
}

}  // namespace
}  // namespace lzy
