#include "names/set_names.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace lzy {
namespace {

std::string Match(const std::string& pattern, const std::string& name, std::optional<std::uint32_t> rank = std::nullopt) {
  const auto match = MatchComponent(pattern, name, rank);
  if (!match) return "no";
  return match->resolved + (match->rank ? " " + std::to_string(*match->rank) : "");
}

TEST(MatchComponent, ReturnsTheTextThatStarsStandFor) {
  EXPECT_EQ(Match("a*c", "abbc"), "abbc");
  EXPECT_EQ(Match("*", ""), "");
  EXPECT_EQ(Match("a*c", "abb"), "no");
  EXPECT_EQ(Match("*.%r", "x.y.7"), "x.y.%r 7");
  EXPECT_EQ(Match("*", "50%"), "50%%");
  EXPECT_EQ(Match("*", ".hidden"), "no");
  EXPECT_EQ(Match(".*", ".hidden"), ".hidden");
}

TEST(MatchComponent, RanksAreNumbers) {
  EXPECT_EQ(Match("s.%r", "s.12"), "s.%r 12");
  EXPECT_EQ(Match("s.%r", "s.012"), "no");
  EXPECT_EQ(Match("s.%04r", "s.0012"), "s.%04r 12");
  EXPECT_EQ(Match("%r-%r", "3-3"), "%r-%r 3");
  EXPECT_EQ(Match("%r-%r", "3-4"), "no");
  EXPECT_EQ(Match("s.%r", "s.7", 7), "s.%r 7");
  EXPECT_EQ(Match("s.%r", "s.7", 8), "no");
  EXPECT_EQ(Match("s.%r", "s.4294967296"), "no");
  EXPECT_EQ(Match("*%r", "a12"), "a%r 12");
}

// Some names make a matcher try every way. libFuzzer found one.
TEST(MatchComponent, ManyStarsAreMatchedInLittleTime) {
  EXPECT_EQ(Match(std::string(100, '*') + "x", std::string(250, 'y')), "no");
  EXPECT_EQ(Match("*a*a*a*a*a*a*a*a*a*a*a*a*b", std::string(255, 'a')), "no");
  EXPECT_EQ(Match("*%r*%r*%r*x", std::string(250, '1')), "no");
  EXPECT_EQ(Match("*%r*" + std::string(20, '*') + "x", std::string(120, '1')), "no");
}

TEST(GuessPatterns, LeadToThePath) {
  EXPECT_EQ(GuessPatterns("d3/s.3", 3), (std::vector<std::string>{"d3/s.%r", "d3/s.%01r"}));
  EXPECT_EQ(GuessPatterns("7/x7-07", 7), (std::vector<std::string>{"7/x7-%02r", "7/x%r-07", "7/x%01r-07"}));
  EXPECT_EQ(GuessPatterns("50%/7", 7), (std::vector<std::string>{"50%%/%r", "50%%/%01r"}));
  EXPECT_EQ(GuessPatterns("a//7", 7), (std::vector<std::string>{"a//%r", "a//%01r"}));
  EXPECT_TRUE(GuessPatterns("7/", 7).empty());
}

std::string Sets(const std::vector<std::string>& paths, const std::vector<std::string>& others = {}) {
  std::string out;
  for (const GuessedSet& set : GuessSets(paths, others)) out += set.pattern + "(" + std::to_string(set.members.size()) + ") ";
  return out;
}

TEST(GuessSets, NumbersFromZeroWithoutAGap) {
  EXPECT_EQ(Sets({"d/s.0", "d/s.1", "d/s.2", "d/log"}), "d/s.%r(3) ");
  EXPECT_EQ(Sets({"s.0", "s.2"}), "");
  EXPECT_EQ(Sets({"s.1", "s.2"}), "");
  EXPECT_EQ(Sets({"s.0"}), "");
  EXPECT_EQ(Sets({"s.00", "s.01"}), "s.%02r(2) ");
  EXPECT_EQ(Sets({"a/s.0", "b/s.1"}), "");
  EXPECT_EQ(Sets({"50%.0", "50%.1"}), "50%%.%r(2) ");
  std::vector<std::string> many;
  for (int rank = 0; rank < 12; ++rank) many.push_back("s" + std::to_string(rank) + ".h5");
  EXPECT_EQ(Sets(many), "s%r.h5(12) ");
  EXPECT_EQ(Sets({"s.0", "s.1", "s.4294967296"}), "s.%r(2) ");
}

TEST(GuessSets, TheLastNumberThatFitsIsTheRank) {
  EXPECT_EQ(Sets({"s.0.0", "s.0.1", "s.1.0", "s.1.1", "s.2.0", "s.2.1"}), "s.0.%r(2) s.1.%r(2) s.2.%r(2) ");
  EXPECT_EQ(Sets({"s0-100", "s1-100", "s0-200", "s1-200"}), "s%r-100(2) s%r-200(2) ");
}

TEST(GuessSets, NoOtherFileMatches) {
  EXPECT_EQ(Sets({"s.0", "s.1"}, {"s.7"}), "");
  EXPECT_EQ(Sets({"s.0", "s.1"}, {"s.07", "t.7"}), "s.%r(2) ");
}

}  // namespace
}  // namespace lzy
