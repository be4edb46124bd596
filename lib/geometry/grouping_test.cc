#include "geometry/grouping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace lzy {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Nodes(std::uint32_t nodes, std::uint32_t ranks_each) {
  std::vector<std::string> domains;
  for (std::uint32_t node = 0; node < nodes; ++node) domains.insert(domains.end(), ranks_each, std::to_string(node));
  return domains;
}

TEST(DealGroups, OneDevicePerNode) {
  const Grouping dealt = DealGroups(Nodes(4, 1), 8, 1);
  EXPECT_THAT(dealt.groups, ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_EQ(dealt.parity, 1u);
  EXPECT_EQ(dealt.worst_domain_share, 1u);
  EXPECT_EQ(dealt.worst_domain_share, 1u);
  EXPECT_FALSE(dealt.groups_grown);
  EXPECT_FALSE(dealt.too_few_devices);
}

TEST(DealGroups, NeighboursOnANodeGoToDifferentGroups) {
  const Grouping dealt = DealGroups(Nodes(3, 2), 3, 1);
  EXPECT_THAT(dealt.groups, ElementsAre(ElementsAre(0, 2, 4), ElementsAre(1, 3, 5)));
  EXPECT_EQ(dealt.worst_domain_share, 1u);
}

TEST(DealGroups, CyclicPlacementOfRanksIsSpreadToo) {
  // Ranks dealt to nodes in turn: taking neighbours two by two would put both of node a's ranks into one group.
  const Grouping dealt = DealGroups({"a", "b", "a", "b", "a", "b", "a", "b"}, 2, 1);
  EXPECT_THAT(dealt.groups, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6, 7)));
  EXPECT_EQ(dealt.worst_domain_share, 1u);
}

TEST(DealGroups, ManyDevicesAreNotOneGroup) {
  const Grouping dealt = DealGroups(Nodes(16, 8), 8, 2);
  EXPECT_EQ(dealt.groups.size(), 16u);
  for (const auto& group : dealt.groups) EXPECT_EQ(group.size(), 8u);
  EXPECT_EQ(dealt.worst_domain_share, 1u);
}

TEST(DealGroups, MoreGroupsThanWishedKeepADomainApart) {
  // Two groups of five would put three of a node together; five pairs need not.
  const Grouping dealt = DealGroups(Nodes(2, 5), 5, 1);
  EXPECT_EQ(dealt.groups.size(), 5u);
  EXPECT_EQ(dealt.worst_domain_share, 1u);
}

TEST(DealGroups, ADomainLargerThanTheMostGroupsIsShared) {
  const Grouping dealt = DealGroups(Nodes(2, 5), 5, 2);  // at most three groups can have three members
  EXPECT_EQ(dealt.groups.size(), 2u);
  EXPECT_GT(dealt.worst_domain_share, 1u);
  EXPECT_EQ(dealt.worst_domain_share, 3u);  // five of one node in two groups; more than m, and the caller can tell
}

TEST(DealGroups, GroupsGrowRatherThanFallBelowMPlusOne) {
  const Grouping dealt = DealGroups(Nodes(9, 1), 8, 4);  // 5 + 4 would leave a group without its m + 1 members
  EXPECT_EQ(dealt.groups.size(), 1u);
  EXPECT_EQ(dealt.groups[0].size(), 9u);
  EXPECT_TRUE(dealt.groups_grown);
}

TEST(DealGroups, TooFewDevicesMeansHashesOnly) {
  const Grouping dealt = DealGroups(Nodes(2, 1), 8, 2);
  EXPECT_TRUE(dealt.too_few_devices);
  EXPECT_EQ(dealt.parity, 0u);
  EXPECT_THAT(dealt.groups, ElementsAre(ElementsAre(0, 1)));
  EXPECT_FALSE(DealGroups(Nodes(3, 1), 8, 2).too_few_devices);
}

TEST(DealGroups, ExtremeArguments) {
  const Grouping none = DealGroups({}, 8, 1);
  EXPECT_TRUE(none.groups.empty());
  EXPECT_TRUE(none.too_few_devices);
  EXPECT_THAT(DealGroups({"a"}, 8, 0).groups, ElementsAre(ElementsAre(0)));
  EXPECT_TRUE(DealGroups({"a"}, 8, UINT32_MAX).too_few_devices);
  EXPECT_EQ(DealGroups(Nodes(3, 1), UINT32_MAX, 1).groups.size(), 1u);
}

// Sizes of `devices` dealt evenly to `count` groups.
std::uint32_t Smallest(std::uint32_t devices, std::uint32_t count) {
  return devices / count;
}
std::uint32_t Largest(std::uint32_t devices, std::uint32_t count) {
  return (devices + count - 1) / count;
}

void CheckDealt(const std::vector<std::string>& domains, std::uint32_t max_group, std::uint32_t parity) {
  const auto devices = static_cast<std::uint32_t>(domains.size());
  const Grouping dealt = DealGroups(domains, max_group, parity);
  const std::size_t count = dealt.groups.size();
  ASSERT_EQ(dealt.too_few_devices, devices <= parity);
  ASSERT_EQ(dealt.parity, devices <= parity ? 0 : parity);

  // A partition, balanced, ascending.
  std::vector<int> times(devices, 0);
  std::size_t smallest = devices;
  std::size_t largest = 0;
  for (const auto& group : dealt.groups) {
    for (std::uint32_t device : group) ++times.at(device);
    ASSERT_TRUE(std::is_sorted(group.begin(), group.end()));
    smallest = std::min(smallest, group.size());
    largest = std::max(largest, group.size());
  }
  ASSERT_EQ(times, std::vector<int>(devices, 1));
  ASSERT_LE(largest - smallest, 1u);
  ASSERT_GE(smallest, dealt.parity + 1);
  ASSERT_EQ(dealt.groups_grown, largest > max_group);

  std::map<std::string, std::size_t> members;
  std::size_t largest_domain = 0;
  for (const std::string& domain : domains) largest_domain = std::max(largest_domain, ++members[domain]);

  // The fewest groups within the wished size that keep domains apart if any number does; if those are too small for the
  // parity, the most that are not.
  std::uint32_t expected = 1;
  while (Largest(devices, expected) > max_group) ++expected;
  while (Smallest(devices, expected) < dealt.parity + 1) --expected;
  for (std::uint32_t more = expected; more <= devices && Smallest(devices, more) >= dealt.parity + 1; ++more) {
    if (largest_domain <= more) {
      expected = more;
      break;
    }
  }
  ASSERT_EQ(count, expected);

  std::map<std::string, std::map<std::size_t, std::uint32_t>> shares;  // members of a domain in a group
  for (std::size_t g = 0; g < count; ++g) {
    for (std::uint32_t device : dealt.groups[g]) ++shares[domains[device]][g];
  }
  std::uint32_t worst = 0;
  for (const auto& [domain, by_group] : shares) {
    std::uint32_t most = 0;
    for (const auto& [g, share] : by_group) most = std::max(most, share);
    ASSERT_EQ(most > 1, members[domain] > count) << "domain " << domain;
    ASSERT_LE((most - 1) * count, members[domain] - 1) << "domain " << domain << " could be spread more evenly";
    worst = std::max(worst, most);
  }
  ASSERT_EQ(dealt.worst_domain_share, worst);
}

TEST(DealGroups, RandomDealsKeepTheirPromises) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 5000; ++i) {
    const auto devices = static_cast<std::uint32_t>(1 + random() % 70);
    const auto nodes = static_cast<std::uint32_t>(1 + random() % devices);
    const auto max_group = static_cast<std::uint32_t>(1 + random() % 12);
    const auto parity = static_cast<std::uint32_t>(random() % 6);
    std::vector<std::string> domains(devices);
    for (std::string& domain : domains) {
      // Every other layout has most of its devices on one node.
      domain = "node" + std::to_string(i % 2 == 0 && random() % 2 == 0 ? 0 : random() % nodes);
    }
    SCOPED_TRACE(::testing::Message() << "deal " << i << ": " << devices << " devices on " << nodes
                                    << " nodes, groups of " << max_group << ", parity " << parity);
    ASSERT_NO_FATAL_FAILURE(CheckDealt(domains, max_group, parity));
  }
}

}  // namespace
}  // namespace lzy
