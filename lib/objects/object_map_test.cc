#include "objects/object_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lzy {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Indices = std::vector<std::uint64_t>;
using Range = std::optional<std::pair<Indices, Indices>>;

constexpr std::uint64_t kHuge = ~std::uint64_t{0};

// A map of one dataset.
ObjectMap MapOf(const RawLayout& layout, const std::vector<ObjectExtent>& extents, bool complete = true) {
  ObjectMap map;
  map.AddObject("/T");
  map.SetLayout(0, layout);
  for (const ObjectExtent& extent : extents) map.AddExtent(extent);
  map.Seal(complete);
  return map;
}

Range ElementsIn(const ObjectMap& map, std::uint64_t begin, std::uint64_t end) {
  const FoundObjects found = map.Find({begin, end});
  EXPECT_THAT(found.objects, SizeIs(1));
  return found.objects.empty() ? Range() : found.objects[0].elements;
}

Range Elements(Indices first, Indices last) {
  return std::pair(std::move(first), std::move(last));
}

TEST(ObjectMap, NamesElementsOfContiguousData) {
  const ObjectMap map = MapOf({8, {4, 5}, {}, false}, {{.begin = 1000, .length = 160, .raw = true}});
  EXPECT_EQ(ElementsIn(map, 1000, 1160), Elements({0, 0}, {3, 4}));
  EXPECT_EQ(ElementsIn(map, 1000, 1001), Elements({0, 0}, {0, 0}));
  EXPECT_EQ(ElementsIn(map, 1007, 1009), Elements({0, 0}, {0, 1}));
  EXPECT_EQ(ElementsIn(map, 1159, 1600), Elements({3, 4}, {3, 4}));
  EXPECT_THAT(map.Find({1160, 1170}).objects, SizeIs(1));  // unused
}

TEST(ObjectMap, NamesElementsOfAChunkWithinTheShape) {
  // 5 x 7 in chunks of 4 x 4: the last one has one row and three columns of the dataset.
  const RawLayout layout{1, {5, 7}, {4, 4}, false};
  const ObjectMap map = MapOf(layout, {{.begin = 0, .length = 16, .raw = true, .first = 3}});
  EXPECT_EQ(map.Find({0, 16}).objects[0].chunk, (Indices{1, 1}));
  EXPECT_EQ(ElementsIn(map, 0, 16), Elements({4, 4}, {4, 6}));
  EXPECT_EQ(ElementsIn(map, 1, 2), Elements({4, 5}, {4, 5}));
  EXPECT_EQ(ElementsIn(map, 3, 4), std::nullopt);  // beyond the columns
  EXPECT_EQ(ElementsIn(map, 3, 16), std::nullopt);
  EXPECT_EQ(ElementsIn(map, 2, 16), Elements({4, 6}, {4, 6}));
}

TEST(ObjectMap, NamesElementsBetweenPaddingOfAChunk) {
  // Columns 4 to 6 of the rows of a chunk; from the padding of one row to that of the next but one.
  const ObjectMap map = MapOf({1, {8, 7}, {4, 4}, false}, {{.begin = 0, .length = 16, .raw = true, .first = 1}});
  EXPECT_EQ(ElementsIn(map, 3, 12), Elements({1, 4}, {2, 6}));
}

TEST(ObjectMap, AFilteredChunkIsUnreadableAsAWhole) {
  const ObjectMap map = MapOf({8, {100, 70}, {40, 32}, true}, {{.begin = 50, .length = 13, .raw = true, .first = 8}});
  const DamagedObject found = map.Find({60, 61}).objects.at(0);
  EXPECT_EQ(found.chunk, (Indices{2, 2}));
  EXPECT_TRUE(found.filtered);
  EXPECT_EQ(found.elements, Elements({80, 64}, {99, 69}));
}

TEST(ObjectMap, RecordsAreOneRange) {
  // Ten records of three elements, 100 bytes apart.
  const RawLayout layout{4, {10, 3}, {}, false};
  const ObjectMap map = MapOf(layout, {{.begin = 1000, .length = 12, .raw = true, .stride = 100, .count = 10}});
  EXPECT_EQ(ElementsIn(map, 900, 2000), Elements({0, 0}, {9, 2}));
  EXPECT_EQ(ElementsIn(map, 1104, 1305), Elements({1, 1}, {3, 1}));
  EXPECT_EQ(ElementsIn(map, 1012, 1101), Elements({1, 0}, {1, 0}));
  EXPECT_THAT(map.Find({1012, 1100}).objects, SizeIs(1));
  EXPECT_EQ(map.Find({1012, 1100}).objects[0].kind, "unused");
  EXPECT_EQ(map.Find({1912, 1950}).objects[0].kind, "unused");
}

TEST(ObjectMap, GapsAreUnusedOnlyInACompleteMap) {
  const std::vector<ObjectExtent> extents = {{.begin = 0, .length = 100}, {.begin = 612, .length = 10}};
  EXPECT_THAT(MapOf({}, extents).Find({0, 622}).objects, SizeIs(2));
  EXPECT_THAT(MapOf({}, extents).Find({0, 611}).objects, SizeIs(1));  // less than 512 bytes
  EXPECT_THAT(MapOf({}, extents, false).Find({0, 622}).objects, SizeIs(1));
  EXPECT_THAT(MapOf({}, extents, false).Find({200, 300}).objects, IsEmpty());
}

TEST(ObjectMap, ManyChunksAndManyObjectsAreCounted) {
  std::vector<ObjectExtent> chunks;
  for (std::uint64_t i = 0; i < 20; ++i) chunks.push_back({.begin = i * 10, .length = 10, .raw = true, .first = i});
  const ObjectMap map = MapOf({1, {200}, {10}, false}, chunks);
  EXPECT_THAT(map.Find({0, 80}).objects, SizeIs(8));
  const FoundObjects many = map.Find({0, 90});
  EXPECT_THAT(many.objects, SizeIs(1));
  EXPECT_EQ(many.objects[0].chunks, 9u);
  EXPECT_FALSE(many.objects[0].chunk || many.objects[0].elements);
  ObjectMap groups;
  for (std::uint32_t i = 0; i < 100; ++i) {
    groups.AddObject("/" + std::to_string(i));
    for (std::uint64_t j = 0; j < 3; ++j) groups.AddExtent({.begin = i * 30 + j * 10, .length = 10, .object = i});
  }
  groups.Seal(true);
  EXPECT_THAT(groups.Find({0, 3000}).objects, SizeIs(64));
  EXPECT_EQ(groups.Find({0, 3000}).left_off, 36u);
}

TEST(ObjectMap, CompactDataAreNamedAlone) {
  const ObjectMap map = MapOf({1, {100}, {}, false}, {{.begin = 0, .length = 300}, {.begin = 150, .length = 100, .raw = true}});
  EXPECT_THAT(map.Find({160, 170}).objects, SizeIs(1));
  EXPECT_EQ(map.Find({160, 170}).objects[0].kind, "raw");
  EXPECT_THAT(map.Find({140, 170}).objects, SizeIs(2));
}

TEST(ObjectMap, SurvivesNumbersThatMakeNoSense) {
  EXPECT_FALSE(IsSound(ObjectExtent{.begin = kHuge, .length = 2}));
  EXPECT_FALSE(IsSound(ObjectExtent{.begin = 5, .length = kHuge}));
  EXPECT_FALSE(IsSound(ObjectExtent{.begin = 5, .length = 0}));
  EXPECT_FALSE(IsSound(ObjectExtent{.begin = 0, .length = 8, .stride = 4, .count = 2}));
  EXPECT_FALSE(IsSound(ObjectExtent{.begin = 0, .length = 8, .stride = kHuge / 2, .count = kHuge}));
  EXPECT_FALSE(IsSound(RawLayout{1, {5}, {0}, false}));
  EXPECT_FALSE(IsSound(RawLayout{1, {5}, {1, 1}, false}));
  EXPECT_FALSE(IsSound(RawLayout{1, Indices(33, 1), {}, false}));
  // Elements that cannot be: too large a number, an empty shape, more bytes than elements.
  for (const RawLayout& layout : {RawLayout{kHuge, {kHuge, kHuge}, {}, false}, RawLayout{1, {0, 5}, {}, false}, RawLayout{3, {2}, {}, false},
                                  RawLayout{8, {kHuge, kHuge}, {kHuge, 1}, false}, RawLayout{8, {0}, {4}, true}}) {
    for (const std::uint64_t first : {std::uint64_t{0}, kHuge}) {
      const ObjectMap map = MapOf(layout, {{.begin = 10, .length = 1000, .raw = true, .first = first}});
      EXPECT_THAT(map.Find({0, kHuge}).objects, SizeIs(::testing::Ge(1u)));
      EXPECT_THAT(map.Find({500, 501}).objects, SizeIs(1));
    }
  }
  // Extents on top of each other.
  ObjectMap map;
  map.AddObject("/a");
  for (int i = 0; i < 1000; ++i) map.AddExtent({.begin = 0, .length = 1000});
  map.AddExtent({.begin = 0, .length = 1, .object = 7});  // of no object
  map.Seal(true);
  EXPECT_THAT(map.Find({999, 1000}).objects, SizeIs(1));
}

}  // namespace
}  // namespace lzy
