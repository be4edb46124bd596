// What a process wrote, byte by byte, against a model that knows of each byte what was written last.
#include "encode/written_bytes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "engine_fixture.h"

namespace lzy::testing {
namespace {

constexpr std::uint64_t kLength = 512;

class WrittenBytesTest : public ::testing::Test {
 protected:
  WrittenBytes Make(std::uint64_t room) {
    room_ = room;
    return WrittenBytes(kLength, nullptr, room_, [] { return false; });
  }
  // The known bytes of `written` that have a copy, by offset.
  static std::map<std::uint64_t, std::uint8_t> Copies(const WrittenBytes& written) {
    std::map<std::uint64_t, std::uint8_t> copies;
    EXPECT_TRUE(written.ForEachBlock([&](std::uint64_t, const std::vector<WrittenBytes::Fragment>& parts) {
      for (const auto& part : parts) {
        for (std::size_t i = 0; i < part.copy.size(); ++i) copies[part.bytes.begin + i] = part.copy[i];
      }
      return Status::Ok();
    }).ok());
    return copies;
  }
  // Whether a part is `there`, by its copy or by its hash.
  static bool Is(const WrittenBytes& written, std::uint64_t block, const WrittenBytes::Fragment& part, ByteSpan there) {
    if (part.hash == nullptr) return std::ranges::equal(part.copy, there);
    return std::ranges::equal(written.HashOf(block, there).bytes, std::span(part.hash, sizeof(Hash)));
  }
  std::uint64_t room_ = 0;
};

TEST_F(WrittenBytesTest, FollowsAnyNumberOfPieces) {
  WrittenBytes written = Make(1u << 20);
  Rng rng(1);
  const Bytes bytes = RandomBytes(rng, 4 * kLength);
  for (std::uint64_t at = 0; at < bytes.size(); at += 2) written.Put(at, ByteSpan(bytes).subspan(at, 1), 1);
  const auto copies = Copies(written);
  EXPECT_EQ(copies.size(), bytes.size() / 2);
  for (const auto& [at, byte] : copies) EXPECT_EQ(byte, bytes[at]) << at;
  EXPECT_EQ(written.Unknown().total(), 0u);
}

TEST_F(WrittenBytesTest, TheLastOfSeveralWritesCounts) {
  WrittenBytes written = Make(1u << 20);
  const Bytes first(100, 1), second(20, 2);
  written.Put(kLength - 50, first, 1);
  written.Put(kLength - 10, second, 2);
  const auto copies = Copies(written);
  ASSERT_EQ(copies.size(), 100u);
  for (const auto& [at, byte] : copies) EXPECT_EQ(byte, at >= kLength - 10 && at < kLength + 10 ? 2 : 1) << at;
  EXPECT_EQ(written.CopyOf({kLength - 50, kLength - 10}).size(), 40u);
  EXPECT_TRUE(written.CopyOf({kLength - 50, kLength - 9}).empty()) << "it is not in one part";
}

TEST_F(WrittenBytesTest, OfWritesThatAreUnderWayTogetherTheCommonBytesAreUnknown) {
  WrittenBytes written = Make(1u << 20);
  const Bytes first(100, 1), second(100, 2);
  written.Put(0, first, 1);
  written.Put(60, second, 0);
  EXPECT_EQ(written.Unknown()[Uncompared::kOverlap], 40u);
  EXPECT_EQ(Copies(written).size(), 120u);
  written.Put(60, second, 2);  // after both
  EXPECT_EQ(written.Unknown().total(), 0u);
}

TEST_F(WrittenBytesTest, WhatWasNotSeenStaysUnknown) {
  WrittenBytes written = Make(1u << 20);
  written.Lose({10, 20}, Uncompared::kUnseen);
  const Bytes bytes(100, 1);
  written.Put(0, bytes, 1);
  EXPECT_EQ(written.Unknown()[Uncompared::kUnseen], 10u) << "it may come after";
  EXPECT_EQ(Copies(written).size(), 90u);
}

TEST_F(WrittenBytesTest, WithoutRoomForCopiesHashesAreKept) {
  Rng rng(2);
  const Bytes bytes = RandomBytes(rng, 64 * kLength);
  WrittenBytes written = Make(64 * kLength / 2);
  for (std::uint64_t at = 0; at < bytes.size(); at += kLength) written.Put(at, ByteSpan(bytes).subspan(at, kLength), 1);
  std::uint64_t hashed = 0, copied = 0;
  EXPECT_TRUE(written.ForEachBlock([&](std::uint64_t block, const std::vector<WrittenBytes::Fragment>& parts) {
    for (const auto& part : parts) {
      const ByteSpan there = ByteSpan(bytes).subspan(part.bytes.begin, part.bytes.end - part.bytes.begin);
      (part.hash != nullptr ? hashed : copied) += there.size();
      EXPECT_TRUE(Is(written, block, part, there));
    }
    return Status::Ok();
  }).ok());
  EXPECT_EQ(hashed + copied, bytes.size()) << "all of it can be compared";
  EXPECT_GT(hashed, copied);
  EXPECT_GT(copied, 0u);
  written.Put(3, ByteSpan(bytes).first(kLength - 3), 2);
  EXPECT_EQ(written.Unknown().total(), Copies(written).contains(0) ? 0u : 3u) << "the rest of a hash is of no use";
}

TEST_F(WrittenBytesTest, WithoutAnyRoomBytesAreCounted) {
  WrittenBytes written = Make(4000);
  Rng rng(3);
  const Bytes bytes = RandomBytes(rng, 64 * kLength);
  std::uint64_t put = 0;
  for (std::uint64_t at = 0; at < bytes.size(); at += 50, put += 40) written.Put(at, ByteSpan(bytes).subspan(at, 40), 1);
  std::uint64_t known = 0;
  EXPECT_TRUE(written.ForEachBlock([&](std::uint64_t, const std::vector<WrittenBytes::Fragment>& parts) {
    for (const auto& part : parts) known += part.bytes.end - part.bytes.begin;
    return Status::Ok();
  }).ok());
  EXPECT_GT(known, 0u);
  EXPECT_EQ(known + written.Unknown()[Uncompared::kMemory], put);
  IntervalSet may;
  written.AddWritten({0, bytes.size()}, may);
  for (std::uint64_t at = 0; at < bytes.size(); at += 50) EXPECT_TRUE(may.Overlaps({at, at + 40})) << at;
}

// Of each byte: what was written last, or that it is unknown.
TEST_F(WrittenBytesTest, IsRightAboutEveryByte) {
  constexpr std::uint64_t kSize = 6 * kLength;
  for (std::uint64_t seed = SeedOf(1); seed < SeedOf(1) + RoundsOf(200); ++seed) {
    SCOPED_TRACE(fmt::format("LZY_TEST_SEED={}", seed));
    Rng rng(seed);
    WrittenBytes written = Make(OneIn(rng, 3) ? 300 + Below(rng, 6000) : 1u << 20);
    std::vector<std::uint8_t> last(kSize), state(kSize);  // 0: not written, 1: known, 2: unknown
    std::uint64_t turn = 0;
    for (std::uint64_t i = 1 + Below(rng, 40); i > 0; --i) {
      const std::uint64_t at = Below(rng, kSize);
      const std::uint64_t length = 1 + Below(rng, std::min<std::uint64_t>(kSize - at, OneIn(rng, 2) ? 20 : 3 * kLength));
      const Interval range{at, at + length};
      switch (Below(rng, 10)) {
        case 0:
          written.Lose(range, Uncompared::kUnseen);
          for (std::uint64_t b = at; b < at + length; ++b) state[b] = 3;
          break;
        case 1:
          written.Erase(range);
          for (std::uint64_t b = at; b < at + length; ++b) state[b] = 0;
          break;
        default: {
          const Bytes bytes = RandomBytes(rng, length);
          const bool ordered = !OneIn(rng, 5);
          written.Put(at, bytes, ordered ? ++turn : 0);
          for (std::uint64_t b = at; b < at + length; ++b) {
            if (state[b] == 3) continue;
            state[b] = ordered || state[b] == 0 ? 1 : 2;
            last[b] = bytes[b - at];
          }
        }
      }
    }
    std::uint64_t wrote = 0, known = 0;
    for (const std::uint8_t one : state) wrote += one != 0;
    EXPECT_TRUE(written.ForEachBlock([&](std::uint64_t block, const std::vector<WrittenBytes::Fragment>& parts) {
      for (const auto& part : parts) {
        const ByteSpan there = ByteSpan(last).subspan(part.bytes.begin, part.bytes.end - part.bytes.begin);
        known += there.size();
        for (std::uint64_t b = part.bytes.begin; b < part.bytes.end; ++b) EXPECT_EQ(state[b], 1) << b;
        EXPECT_TRUE(Is(written, block, part, there));
      }
      return Status::Ok();
    }).ok());
    const std::uint64_t unknown = written.Unknown().total();
    EXPECT_GE(known + unknown, wrote) << "every byte is known or counted";
    IntervalSet may;
    written.AddWritten({0, kSize}, may);
    for (std::uint64_t b = 0; b < kSize; ++b) {
      EXPECT_TRUE(state[b] == 0 || may.Overlaps({b, b + 1})) << b;
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace lzy::testing
