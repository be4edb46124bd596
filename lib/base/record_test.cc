#include "base/record.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace lzy {
namespace {

enum class Color : std::uint16_t { kRed = 1, kBlue = 515 };

struct Inner {
  std::uint64_t at = 0;
  std::array<std::uint8_t, 3> tag{};
  LZY_FIELDS(at, tag)
  friend bool operator==(const Inner&, const Inner&) = default;
};

struct Outer {
  bool yes = false;
  Color color = Color::kRed;
  double seconds = 0;
  std::string name;
  std::vector<Inner> list;
  std::map<std::string, std::uint32_t> counts;
  std::set<int> ranks;
  std::optional<Inner> maybe, none;
  std::vector<bool> flags;
  std::pair<std::int64_t, std::string> pair;
  int not_told = 0;
  LZY_FIELDS(yes, color, seconds, name, list, counts, ranks, maybe, none, flags, pair)
};

Outer Example() {
  return {true,          Color::kBlue, 1.5,         "a name",
          {{1, {1, 2, 3}}, {2, {}}},   {{"x", 7}, {"y", 8}}, {-1, 4},       Inner{9, {9, 9, 9}},
          std::nullopt,  {true, false, true}, {-5, "five"}, 12};
}

TEST(Record, KeepsEveryField) {
  const Outer given = Example();
  const auto read = DecodeRecord<Outer>(EncodeRecord(given));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->yes, given.yes);
  EXPECT_EQ(read->color, given.color);
  EXPECT_EQ(read->seconds, given.seconds);
  EXPECT_EQ(read->name, given.name);
  EXPECT_EQ(read->list, given.list);
  EXPECT_EQ(read->counts, given.counts);
  EXPECT_EQ(read->ranks, given.ranks);
  EXPECT_EQ(read->maybe, given.maybe);
  EXPECT_EQ(read->none, std::nullopt);
  EXPECT_EQ(read->flags, given.flags);
  EXPECT_EQ(read->pair, given.pair);
  EXPECT_EQ(read->not_told, 0);
}

TEST(Record, ReplacesWhatTheVariableHeld) {
  Outer value = Example();
  ASSERT_TRUE(DecodeRecord(EncodeRecord(Outer()), value).ok());
  EXPECT_TRUE(value.list.empty());
  EXPECT_TRUE(value.counts.empty());
  EXPECT_FALSE(value.maybe.has_value());
}

TEST(Record, HasTheBytesOfTheFormat) {
  const std::vector<std::uint8_t> expected = {3, 2, 1, 0, 0, 0, 0, 0, 7, 8, 9};
  EXPECT_EQ(EncodeRecord(Inner{0x010203, {7, 8, 9}}), expected);
  const std::vector<std::uint8_t> text = {2, 0, 0, 0, 'a', 'b'};
  EXPECT_EQ(EncodeRecord(std::string("ab")), text);
  const std::vector<std::uint8_t> color = {3, 2};
  EXPECT_EQ(EncodeRecord(Color::kBlue), color);
}

TEST(Record, RefusesWhatIsCutOrTooLong) {
  const auto whole = EncodeRecord(Example());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(DecodeRecord<Outer>(ByteSpan(whole).first(size)).status().code(), Code::kInternal) << size;
  }
  auto longer = whole;
  longer.push_back(0);
  EXPECT_FALSE(DecodeRecord<Outer>(longer).ok());
}

TEST(Record, ACountThatTheInputCannotHoldMakesNoItems) {
  const std::vector<std::uint8_t> hostile = {0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4};
  std::vector<std::uint32_t> value;
  EXPECT_FALSE(DecodeRecord(hostile, value).ok());
  EXPECT_EQ(value.size(), 1u);
}

TEST(Record, AStatusIsOne) {
  Status read;
  ASSERT_TRUE(DecodeRecord(EncodeRecord(Status(Code::kBusy, "why")), read).ok());
  EXPECT_EQ(read.code(), Code::kBusy);
  EXPECT_EQ(read.message(), "why");
}

}  // namespace
}  // namespace lzy
