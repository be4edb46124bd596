#include "base/bytes.h"

#include <gtest/gtest.h>

#include <limits>

namespace lzy {
namespace {

TEST(LittleEndian, LowestByteFirst) {
  std::uint8_t raw[8] = {};
  StoreLe<std::uint32_t>(raw, 0x01020304);
  EXPECT_EQ((std::vector<std::uint8_t>(raw, raw + 5)), (std::vector<std::uint8_t>{4, 3, 2, 1, 0}));
  EXPECT_EQ(LoadLe<std::uint32_t>(raw), 0x01020304u);
  StoreLe<std::uint64_t>(raw, 0x8877665544332211);
  EXPECT_EQ(raw[0], 0x11);
  EXPECT_EQ(raw[7], 0x88);
}

TEST(LittleEndian, NegativeNumbersSurvive) {
  std::uint8_t raw[8];
  for (std::int64_t value : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(), std::int64_t{-123456789012}}) {
    StoreLe(raw, value);
    EXPECT_EQ(LoadLe<std::int64_t>(raw), value);
  }
  StoreLe<std::int16_t>(raw, -2);
  EXPECT_EQ(raw[0], 0xfe);
  EXPECT_EQ(raw[1], 0xff);
  EXPECT_EQ(LoadLe<std::int16_t>(raw), -2);
}

TEST(ByteReader, ReadsWhatWasWritten) {
  ByteWriter writer;
  writer.Put<std::uint8_t>(7);
  writer.Put<std::uint16_t>(0xbeef);
  writer.Put<std::int64_t>(-42);
  writer.PutString("a name");
  writer.PutString("");
  const std::uint8_t raw[] = {9, 8, 7};
  writer.PutBytes(raw);
  ASSERT_EQ(writer.size(), 1u + 2 + 8 + 4 + 6 + 4 + 3);
  writer.PadTo(64);
  writer.PadTo(10);  // never shrinks
  ASSERT_EQ(writer.size(), 64u);

  ByteReader reader(writer.bytes());
  EXPECT_EQ(reader.Get<std::uint8_t>(), 7);
  EXPECT_EQ(reader.Get<std::uint16_t>(), 0xbeef);
  EXPECT_EQ(reader.Get<std::int64_t>(), -42);
  EXPECT_EQ(reader.GetString(6), "a name");
  EXPECT_EQ(reader.GetString(6), "");
  ByteSpan bytes = reader.GetBytes(3);
  EXPECT_EQ((std::vector<std::uint8_t>(bytes.begin(), bytes.end())), (std::vector<std::uint8_t>{9, 8, 7}));
  EXPECT_EQ(reader.remaining(), 64u - 28);
  EXPECT_EQ(reader.Get<std::uint64_t>(), 0u) << "padding is zero";
  reader.Skip(28);
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.remaining(), 0u);
}

TEST(ByteReader, PastTheEndIsZeroAndRemembered) {
  const std::uint8_t raw[] = {1, 2, 3, 4, 5};
  ByteReader reader(raw);
  EXPECT_EQ(reader.Get<std::uint32_t>(), 0x04030201u);
  EXPECT_EQ(reader.Get<std::uint16_t>(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.Get<std::uint8_t>(), 0u) << "one byte is left, but the reader has failed for good";
  EXPECT_TRUE(reader.GetBytes(1).empty());
  EXPECT_FALSE(reader.ok());
}

TEST(ByteReader, HugeLengthsDoNotWrap) {
  const std::uint8_t raw[] = {1, 2, 3, 4};
  constexpr auto kHuge = std::numeric_limits<std::size_t>::max();
  ByteReader bytes(raw);
  bytes.Skip(2);
  EXPECT_TRUE(bytes.GetBytes(kHuge).empty());
  EXPECT_FALSE(bytes.ok());
  ByteReader skip(raw);
  skip.Skip(2);
  skip.Skip(kHuge - 1);
  EXPECT_FALSE(skip.ok());
}

TEST(ByteReader, StringsLongerThanTheLimitOrTheBufferAreRefused) {
  ByteWriter writer;
  writer.PutString("seven..");
  ByteReader at_limit(writer.bytes());
  EXPECT_EQ(at_limit.GetString(7), "seven..");
  EXPECT_TRUE(at_limit.ok());
  ByteReader beyond_limit(writer.bytes());
  EXPECT_EQ(beyond_limit.GetString(6), "");
  EXPECT_FALSE(beyond_limit.ok());
  writer.bytes().pop_back();
  ByteReader cut(writer.bytes());
  EXPECT_EQ(cut.GetString(100), "");
  EXPECT_FALSE(cut.ok());
}

TEST(ByteReader, EmptyBuffer) {
  ByteReader reader({});
  EXPECT_TRUE(reader.GetBytes(0).empty());
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.Get<std::uint64_t>(), 0u);
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace lzy
