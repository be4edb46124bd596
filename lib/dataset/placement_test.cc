#include "dataset/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "status_matchers.h"

namespace lzy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr std::uint64_t kMember = 100;

/// One process on each node. Each reaches the directory on its disk.
Places OnDisks(const std::vector<std::string>& nodes, std::size_t lost, const std::vector<std::uint64_t>& room) {
  Places places;
  places.nodes = nodes;
  for (std::size_t p = 0; p < nodes.size(); ++p) places.sites.emplace_back(lost, Site{true, 7, room[p]});
  return places;
}

TEST(PlaceLost, GoesToItsOwnNumber) {
  const Places places = OnDisks({"a", "b", "c", "d"}, 1, {0, 0, 0, 0});  // room is not looked at
  EXPECT_THAT(*PlaceLost(places, {{2, 0, kMember}}, Placing::kApart), ElementsAre(Pair(2, 2)));
  EXPECT_THAT(*PlaceLost(places, {{6, 0, kMember}}, Placing::kApart), ElementsAre(Pair(6, 2)));
}

TEST(PlaceLost, GoesToARankThatReachesTheDirectory) {
  Places places = OnDisks({"a", "b", "c"}, 1, {0, 0, 0});
  places.sites[1][0].reachable = false;
  EXPECT_THAT(*PlaceLost(places, {{1, 0, kMember}}, Placing::kApart), ElementsAre(Pair(1, 0)));
  for (auto& sites : places.sites) sites[0].reachable = false;
  EXPECT_THAT(*PlaceLost(places, {{1, 0, kMember}}, Placing::kApart), ElementsAre(Pair(1, 1)));  // the process that makes it
}

TEST(PlaceLost, GoesToANodeWithoutMembersOfItsGroup) {
  Places places = OnDisks({"a", "b", "c"}, 2, {0, 0, 0});
  places.residents = {{"a", {0}}, {"b", {0, 1}}};
  EXPECT_THAT(*PlaceLost(places, {{0, 0, kMember}, {1, 0, kMember}}, Placing::kApart), ElementsAre(Pair(0, 2), Pair(1, 0)));
  EXPECT_THAT(*PlaceLost(places, {{1, 2, kMember}, {3, 0, kMember}}, Placing::kApart), ElementsAre(Pair(1, 2), Pair(3, 2)));
}

// Nodes a and b are in one rack, c and d in another. The rack counts first; within a rack, the node with the fewest members.
TEST(PlaceLost, GoesToADomainWithoutMembersOfItsGroup) {
  for (const Placing placing : {Placing::kApart, Placing::kRoom}) {
    Places places = OnDisks({"a", "b", "c", "d"}, 2, {1000, 1000, 1000, 1000});
    places.residents = {{"a", {0}}, {"d", {1}}};
    places.domains = {"r", "r", "s", "s"};
    places.domain_residents = {{"r", {0}}, {"s", {1}}};
    EXPECT_THAT(*PlaceLost(places, {{1, 0, kMember}}, placing), ElementsAre(Pair(1, 2)));
    EXPECT_THAT(*PlaceLost(places, {{2, 1, kMember}}, placing), ElementsAre(Pair(2, placing == Placing::kApart ? 1 : 0)));
    EXPECT_THAT(*PlaceLost(places, {{1, 2, kMember}, {5, 2, kMember}}, placing), ElementsAre(Pair(1, 1), Pair(5, 2)));
    places.domains.clear();  // without them the nodes alone count
    EXPECT_THAT(*PlaceLost(places, {{1, 0, kMember}}, placing), ElementsAre(Pair(1, 1)));
  }
}

TEST(PlaceLost, SpreadGoesWhereFewestOfItsGroupAre) {
  Places places = OnDisks({"a", "b", "c"}, 4, {1000, 2000, 9000});
  places.residents = {{"a", {0}}, {"b", {0}}, {"c", {0, 0}}};
  EXPECT_THAT(*PlaceLost(places, {{0, 0, kMember}, {1, 0, kMember}, {2, 0, kMember}, {3, 0, kMember}}, Placing::kRoom),
              ElementsAre(Pair(0, 1), Pair(1, 0), Pair(2, 2), Pair(3, 1)));
}

TEST(PlaceLost, SpreadGoesWhereThereIsRoom) {
  Places places = OnDisks({"a", "b"}, 3, {kMember - 1, 2 * kMember});
  places.residents = {{"b", {0, 0}}};
  EXPECT_THAT(*PlaceLost(places, {{0, 0, kMember}, {1, 0, kMember}}, Placing::kRoom), ElementsAre(Pair(0, 1), Pair(1, 1)));
  const auto full = PlaceLost(places, {{0, 0, kMember}, {1, 0, kMember}, {2, 0, kMember}}, Placing::kRoom);
  EXPECT_EQ(full.status().code(), Code::kIo);
  EXPECT_THAT(full.status().message(), HasSubstr("member 2, which takes 100 bytes with its sidecar: a has 99, b has 0"));
}

TEST(PlaceLost, ProcessesOfANodeShareItsRoom) {
  const Places places = OnDisks({"a", "a", "b"}, 2, {kMember, kMember, kMember});
  EXPECT_THAT(*PlaceLost(places, {{0, 0, kMember}, {1, 1, kMember}}, Placing::kRoom), ElementsAre(Pair(0, 0), Pair(1, 2)));
}

TEST(PlaceLost, SpreadMakesNoDirectories) {
  Places places = OnDisks({"a"}, 1, {kMember});
  places.sites[0][0].reachable = false;
  EXPECT_THAT(PlaceLost(places, {{0, 0, kMember}}, Placing::kRoom).status().message(), HasSubstr("none has its directory"));
}

TEST(PlaceLost, HomeIgnoresMembersThatAreThere) {
  Places places = OnDisks({"a", "b", "c"}, 1, {0, 0, 0});
  places.residents["b"] = {0, 0};
  EXPECT_THAT(*PlaceLost(places, {{1, 0, kMember}}, Placing::kApart), ElementsAre(Pair(1, 0)));
  EXPECT_THAT(*PlaceLost(places, {{1, 0, kMember}}, Placing::kHome), ElementsAre(Pair(1, 1)));
  places.sites[1][0].reachable = false;
  EXPECT_THAT(*PlaceLost(places, {{1, 0, kMember}}, Placing::kHome), ElementsAre(Pair(1, 0)));
}

}  // namespace
}  // namespace lzy
