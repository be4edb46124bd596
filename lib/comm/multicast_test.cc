#include "comm/multicast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>

namespace lzy {
namespace {

using ::testing::ElementsAre;

using Schedule = std::vector<MulticastMessage>;

int Steps(const Schedule& schedule) {
  return schedule.empty() ? 0 : schedule.back().step;
}

// The most steps for m groups of at most k ranks, by the formulas of the paper. For one group, which they do not cover,
// k.
int MostSteps(Topology shape, int m, int k) {
  if (m <= 1) return k;
  switch (shape) {
    case Topology::kPipelined:
      return m * (k + 1) - 1;
    case Topology::kDaisy:
      return 2 * k + std::max(m, k);
    case Topology::kHierarchical:
      return 2 * k * (std::bit_width(static_cast<unsigned>(m)) - 1);
    case Topology::kHypercube:
      return k * std::bit_width(static_cast<unsigned>(m - 1));
    case Topology::kAuto:
    case Topology::kBcast:
      break;
  }
  return 0;
}

// What must hold of every schedule: "" if it does.
std::string WhatIsWrong(const Schedule& schedule, int ranks, int root) {
  std::map<int, int> got = {{root, 0}};
  std::set<std::pair<int, int>> sends;
  int step = 0;
  for (const MulticastMessage& message : schedule) {
    if (message.step < step) return "steps go back";
    step = message.step;
    if (message.to < 0 || message.to >= ranks) return "there is no rank " + std::to_string(message.to);
    if (!got.contains(message.from) || got[message.from] >= step) return "sent before it was there";
    if (!got.try_emplace(message.to, step).second) return "rank " + std::to_string(message.to) + " gets two";
    if (!sends.insert({step, message.from}).second) return "two sends of one rank in a step";
  }
  return got.size() == static_cast<std::size_t>(ranks) ? "" : "not all ranks get it";
}

TEST(Schedule, ReachesEachRankOnceInTheStepsOfThePaper) {
  int schedules = 0;
  for (const Topology shape : kShapes) {
    for (int m = 1; m <= 40; ++m) {
      for (int k = 1; k <= 40; ++k) {
        const int root = (7 * m + 3 * k) % (m * k);
        const Schedule schedule = MakeSchedule(shape, EvenGroups(m, k), root);
        ASSERT_EQ(WhatIsWrong(schedule, m * k, root), "") << TopologyName(shape) << m << "x" << k << " from " << root;
        ASSERT_LE(Steps(schedule), MostSteps(shape, m, k)) << TopologyName(shape) << m << "x" << k;
        ++schedules;
      }
    }
  }
  EXPECT_EQ(schedules, 4 * 40 * 40);
}

TEST(Schedule, ReachesAllRanksOfManyUnequalGroups) {
  for (const Topology shape : kShapes) {
    for (const int m : {1, 2, 3, 100, 513}) {
      RankGroups groups;
      int ranks = 0;
      for (int g = 0; g < m; ++g) {
        auto& group = groups.emplace_back();
        for (int i = 0; i <= g % 9; ++i) group.push_back(ranks++);
      }
      for (const int root : {0, ranks / 2, ranks - 1}) {
        const Schedule schedule = MakeSchedule(shape, groups, root);
        EXPECT_EQ(WhatIsWrong(schedule, ranks, root), "") << TopologyName(shape) << m << " from " << root;
        EXPECT_LE(Steps(schedule), MostSteps(shape, m, 9));
      }
    }
  }
}

std::vector<std::pair<int, int>> AmongLeaders(Topology shape) {
  std::vector<std::pair<int, int>> out;
  for (const MulticastMessage& message : MakeSchedule(shape, EvenGroups(5, 3), 0)) {
    if (message.to % 3 == 0) out.emplace_back(message.from / 3, message.to / 3);
  }
  return out;
}

TEST(Schedule, EachTopologyConnectsLeadersInItsShape) {
  using P = std::pair<int, int>;
  EXPECT_THAT(AmongLeaders(Topology::kPipelined), ElementsAre(P{0, 1}, P{1, 2}, P{2, 3}, P{3, 4}));
  EXPECT_THAT(AmongLeaders(Topology::kDaisy), ElementsAre(P{0, 1}, P{0, 2}, P{0, 3}, P{0, 4}));
  EXPECT_THAT(AmongLeaders(Topology::kHierarchical), ElementsAre(P{0, 1}, P{0, 2}, P{1, 3}, P{1, 4}));
  EXPECT_THAT(AmongLeaders(Topology::kHypercube), ElementsAre(P{0, 1}, P{0, 2}, P{1, 3}, P{0, 4}));
}

// Rank 4 of {0 1 2} {3 4 5} {6 7 8} leads its group, and leads all.
TEST(Schedule, TheRootLeadsItsGroupAndAll) {
  const Schedule schedule = MakeSchedule(Topology::kDaisy, EvenGroups(3, 3), 4);
  std::set<int> from_root;
  for (const MulticastMessage& message : schedule) {
    if (message.from == 4) from_root.insert(message.to);
  }
  EXPECT_THAT(from_root, ElementsAre(0, 3, 5, 6));
}

TEST(Schedule, OfOneRankIsEmpty) {
  for (const Topology shape : kShapes) EXPECT_TRUE(MakeSchedule(shape, {{0}}, 0).empty());
}

TEST(CheckOfSchedules, FindsEachFaultOfASchedule) {
  EXPECT_EQ(WhatIsWrong({{1, 0, 1}, {2, 1, 2}}, 3, 0), "");
  EXPECT_EQ(WhatIsWrong({{1, 0, 1}}, 3, 0), "not all ranks get it");
  EXPECT_EQ(WhatIsWrong({{1, 0, 1}, {1, 1, 2}}, 3, 0), "sent before it was there");
  EXPECT_EQ(WhatIsWrong({{1, 0, 1}, {1, 0, 2}}, 3, 0), "two sends of one rank in a step");
  EXPECT_EQ(WhatIsWrong({{1, 0, 1}, {2, 0, 1}}, 3, 0), "rank 1 gets two");
  EXPECT_EQ(WhatIsWrong({{1, 0, 0}}, 1, 0), "rank 0 gets two");
}

TEST(GroupsByName, AreInTheOrderOfTheirFirstRanks) {
  const std::string names[] = {"b", "a", "b", "c", "a"};
  EXPECT_THAT(GroupsByName(names), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 4), ElementsAre(3)));
}

// One group of four: three messages, one after another, and the last one's way.
TEST(CriticalPath, AddsUpWhatFollowsOnOneAnother) {
  const CostModel model{.latency = 100, .gap = 10, .byte_time = 1};
  EXPECT_DOUBLE_EQ(CriticalPath(MakeSchedule(Topology::kDaisy, EvenGroups(1, 4), 0), 5, model), 3 * 15 + 100);
  EXPECT_DOUBLE_EQ(CriticalPath(MakeSchedule(Topology::kPipelined, EvenGroups(4, 1), 0), 5, model), 3 * 115);
  EXPECT_DOUBLE_EQ(CriticalPath({}, 5, model), 0);
}

TEST(BcastTime, TakesTheTimeOfATreeOrARing) {
  const CostModel model{.latency = 100, .gap = 10, .byte_time = 1};
  EXPECT_DOUBLE_EQ(BcastTime(1, 1 << 20, model), 0);
  EXPECT_DOUBLE_EQ(BcastTime(8, 0, model), 3 * 110);
  EXPECT_DOUBLE_EQ(BcastTime(8, 1 << 20, model), 10 * 110 + 2.0 * (1 << 20) * 7 / 8);
}

// Where a message's way is long and sending it costs little, the root is best off to send to all leaders itself; where
// sending is what costs, many must send.
TEST(ChooseTopology, TakesTheFastest) {
  const CostModel far{.latency = 1e-3, .gap = 1e-7, .byte_time = 1e-10};
  EXPECT_EQ(ChooseTopology(EvenGroups(8, 8), 0, 8, far), Topology::kDaisy);
  const CostModel slow{.latency = 1e-6, .gap = 1e-6, .byte_time = 1e-6};
  EXPECT_EQ(ChooseTopology(EvenGroups(8, 8), 0, 1 << 20, slow), Topology::kBcast);
  EXPECT_EQ(ChooseTopology(EvenGroups(16, 1), 0, 8, slow), Topology::kBcast) << "the same as the hypercube";
  EXPECT_EQ(ChooseTopology(EvenGroups(1, 1), 0, 8, slow), Topology::kBcast);
}

TEST(ChooseTopology, IsNeverSlowerThanAnyOther) {
  for (const double latency : {1e-6, 1e-4}) {
    for (const double gap : {1e-7, 1e-5}) {
      for (const std::uint64_t bytes : {std::uint64_t{4}, std::uint64_t{40} << 10, std::uint64_t{4} << 20}) {
        for (const auto& [m, k] : {std::pair(2, 60), {8, 3}, {5, 5}, {64, 8}}) {
          const CostModel model{latency, gap, 1e-9};
          const RankGroups groups = EvenGroups(m, k);
          const auto time = [&](Topology topology) {
            return topology == Topology::kBcast ? BcastTime(m * k, bytes, model)
                                                : CriticalPath(MakeSchedule(topology, groups, 1), bytes, model);
          };
          const double chosen = time(ChooseTopology(groups, 1, bytes, model));
          EXPECT_LE(chosen, time(Topology::kBcast));
          for (const Topology shape : kShapes) EXPECT_LE(chosen, time(shape)) << TopologyName(shape);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lzy
