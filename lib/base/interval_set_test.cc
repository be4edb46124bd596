#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/interval_set.h"

namespace lzy {
namespace {

using Intervals = std::vector<Interval>;

TEST(IntervalSet, StartsEmpty) {
  IntervalSet set;
  EXPECT_TRUE(set.empty());
  EXPECT_FALSE(set.whole());
  set.Add({5, 5});
  EXPECT_TRUE(set.empty());
}

TEST(IntervalSet, JoinsAdjacentIntervals) {
  IntervalSet set;
  set.Add({10, 20});
  set.Add({30, 40});
  EXPECT_EQ(set.intervals(), (Intervals{{10, 20}, {30, 40}}));
  set.Add({20, 25});
  EXPECT_EQ(set.intervals(), (Intervals{{10, 25}, {30, 40}}));
  set.Add({25, 30});
  EXPECT_EQ(set.intervals(), (Intervals{{10, 40}}));
  set.Add({0, 100});
  EXPECT_EQ(set.intervals(), (Intervals{{0, 100}}));
  set.Add({50, 60});
  EXPECT_EQ(set.intervals(), (Intervals{{0, 100}}));
}

TEST(IntervalSet, AddsManyAtOnce) {
  IntervalSet set;
  set.Add(Intervals{});
  EXPECT_TRUE(set.empty());
  set.Add(Intervals{{10, 20}, {30, 40}, {60, 70}});
  EXPECT_EQ(set.intervals(), (Intervals{{10, 20}, {30, 40}, {60, 70}}));
  set.Add(Intervals{{0, 5}, {20, 30}, {50, 51}, {65, 80}, {90, 91}});
  EXPECT_EQ(set.intervals(), (Intervals{{0, 5}, {10, 40}, {50, 51}, {60, 80}, {90, 91}}));
  set.Add(Intervals{{1, 2}, {45, 85}});
  EXPECT_EQ(set.intervals(), (Intervals{{0, 5}, {10, 40}, {45, 85}, {90, 91}}));
  set.AddWhole();
  set.Add(Intervals{{1, 2}, {3, 4}});
  EXPECT_TRUE(set.whole() && set.intervals().empty());
}

TEST(SortAndJoin, JoinsAdjacentAndOverlappingIntervals) {
  Intervals intervals = {{50, 60}, {0, 10}, {10, 20}, {55, 58}, {30, 31}};
  SortAndJoin(intervals);
  EXPECT_EQ(intervals, (Intervals{{0, 20}, {30, 31}, {50, 60}}));
}

TEST(IntervalSet, AddWholeCoversAllIntervals) {
  IntervalSet set;
  set.Add({1, 2});
  set.AddWhole();
  set.Add({5, 6});
  EXPECT_TRUE(set.whole());
  EXPECT_FALSE(set.empty());
  EXPECT_TRUE(set.intervals().empty());
  set.Clear();
  EXPECT_TRUE(set.empty());
}

TEST(IntervalSet, CoarsenJoinsTheNearest) {
  IntervalSet set;
  for (std::uint64_t begin : {0u, 10u, 100u, 112u, 1000u}) set.Add({begin, begin + 5});
  set.Coarsen(3);
  EXPECT_EQ(set.intervals(), (Intervals{{0, 15}, {100, 117}, {1000, 1005}}));
  set.Coarsen(1);
  EXPECT_EQ(set.intervals(), (Intervals{{0, 1005}}));
}

TEST(IntervalSet, CoarsenWithEqualGapsKeepsTheFirst) {
  IntervalSet set;
  for (std::uint64_t i = 0; i < 6; ++i) set.Add({i * 10, i * 10 + 1});
  set.Coarsen(3);
  EXPECT_EQ(set.intervals(), (Intervals{{0, 1}, {10, 11}, {20, 51}}));
}

TEST(IntervalSet, ClipDropsTheEnd) {
  IntervalSet set;
  set.Add({0, 10});
  set.Add({20, 30});
  set.Add({40, 50});
  set.Clip(25);
  EXPECT_EQ(set.intervals(), (Intervals{{0, 10}, {20, 25}}));
  set.Clip(20);
  EXPECT_EQ(set.intervals(), (Intervals{{0, 10}}));
  set.Clip(0);
  EXPECT_TRUE(set.empty());
}

bool Holds(const IntervalSet& set, std::uint64_t byte) {
  for (const Interval& interval : set.intervals()) {
    if (interval.begin <= byte && byte < interval.end) return true;
  }
  return set.whole();
}

void CheckForm(const IntervalSet& set, std::size_t limit) {
  ASSERT_LE(set.intervals().size(), limit);
  for (std::size_t i = 0; i < set.intervals().size(); ++i) {
    ASSERT_LT(set.intervals()[i].begin, set.intervals()[i].end);
    if (i == 0) continue;
    ASSERT_LT(set.intervals()[i - 1].end, set.intervals()[i].begin);
  }
}

// Against a map of bytes: exactly what was added while it fits, never less when it does not.
TEST(IntervalSet, AgreesWithAByteMap) {
  constexpr std::uint64_t kBytes = 3000;
  for (const std::size_t limit : {1u, 4u, 64u, 100000u}) {
    std::mt19937 random(7);
    IntervalSet set(limit);
    std::vector<bool> touched(kBytes, false);
    for (int i = 0; i < 400; ++i) {
      // One, or a list.
      Intervals list;
      std::uint64_t begin = random() % kBytes;
      for (std::size_t n = 1 + random() % 4; n > 0 && begin < kBytes; --n) {
        const std::uint64_t end = std::min<std::uint64_t>(kBytes, begin + 1 + random() % 8);
        list.push_back({begin, end});
        for (std::uint64_t at = begin; at < end; ++at) touched[at] = true;
        begin = end + 1 + random() % 20;
      }
      if (i % 2 == 0) {
        set.Add(list);
      } else {
        for (const Interval& interval : list) set.Add(interval);
      }
      CheckForm(set, limit);
    }
    for (std::uint64_t at = 0; at < kBytes; ++at) {
      const bool exact = limit == 100000u;
      ASSERT_TRUE(Holds(set, at) == touched[at] || (!exact && !touched[at])) << "limit " << limit << ", byte " << at;
    }
  }
}

}  // namespace
}  // namespace lzy
