#include "merkle/copy_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

namespace lzy {
namespace {

std::vector<std::uint8_t> RandomBytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

constexpr std::uint8_t kUntouched = 0xA5;
constexpr std::size_t kMargin = 80;

// Copies `from` to a place `misalignment` bytes past a line's beginning, by both kernels, and compares with what takes
// two steps; neither may touch a byte beside the copy.
void Expect(ByteSpan from, std::size_t misalignment, const CopyMethod& method) {
  SCOPED_TRACE(testing::Message() << from.size() << " bytes to +" << misalignment << ", pieces of "
                                  << method.piece_bytes << (method.non_temporal ? " past the cache" : ""));
  std::vector<std::uint8_t> room(from.size() + misalignment + 2 * kMargin + 64, kUntouched);
  const std::size_t line = (64 - reinterpret_cast<std::uintptr_t>(room.data() + kMargin) % 64) % 64;
  std::uint8_t* const to = room.data() + kMargin + line + misalignment;
  const auto check_copy = [&] {
    ASSERT_TRUE(std::equal(from.begin(), from.end(), to));
    ASSERT_TRUE(std::all_of(room.data(), to, [](std::uint8_t b) { return b == kUntouched; }));
    ASSERT_TRUE(
        std::all_of(to + from.size(), room.data() + room.size(), [](std::uint8_t b) { return b == kUntouched; }));
    std::fill(to, to + from.size(), kUntouched);
  };
  const std::uint64_t index = from.size() * 7 + misalignment;
  ASSERT_EQ(CopyAndHash(HashTag::kDataLeaf, index, from, to, method), HashBytes(HashTag::kDataLeaf, index, from));
  check_copy();
  const auto seed = static_cast<std::uint32_t>(0x9E3779B9 * from.size());
  ASSERT_EQ(CopyAndCrc32c(seed, from, to, method), Crc32c(seed, from));
  check_copy();
}

TEST(CopyHash, AllSmallSizes) {
  const auto bytes = RandomBytes(1100, 1);
  for (const bool non_temporal : {false, true}) {
    // Pieces below, at and above a line, and the lengths where XXH3 changes its ways (16, 128, 240).
    for (const std::uint32_t piece : {1, 63, 64, 100, 128, 240, 256, 4096}) {
      for (std::size_t length = 0; length <= bytes.size(); length += length < 300 ? 1 : 37) {
        Expect({bytes.data(), length}, length % 5, {piece, non_temporal});
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(CopyHash, AllAlignments) {
  const auto bytes = RandomBytes(9000 + 64, 2);
  for (const bool non_temporal : {false, true}) {
    for (std::size_t source = 0; source < 64; source += 7) {
      for (std::size_t destination = 0; destination < 64; ++destination) {
        Expect({bytes.data() + source, 9000}, destination, {2048, non_temporal});
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(CopyHash, LargeSizes) {
  const auto bytes = RandomBytes((5 << 20) + 3, 3);
  for (const bool non_temporal : {false, true}) {
    for (const std::uint32_t piece : {2u << 10, 4u << 10, 16u << 10, 64u << 10, 1u << 20, UINT32_MAX}) {
      for (const std::size_t length : {std::size_t{65535}, std::size_t{65536}, std::size_t{1} << 20, bytes.size()}) {
        Expect({bytes.data(), length}, 0, {piece, non_temporal});
        Expect({bytes.data(), length - 1}, 33, {piece, non_temporal});
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(CopyHash, NoBytesAtNoPlace) {
  EXPECT_EQ(CopyAndHash(HashTag::kIntent, 3, {}, nullptr), HashBytes(HashTag::kIntent, 3, {}));
  EXPECT_EQ(CopyAndCrc32c(5, {}, nullptr), 5u);
}

// The state that is kept belongs to a thread, and is fit for any tag and index.
TEST(CopyHash, ThreadsDoNotDisturbEachOther) {
  const auto bytes = RandomBytes(1 << 20, 4);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::uint8_t> to(bytes.size());
      for (std::uint64_t i = 0; i < 20; ++i) {
        const HashTag tag = i % 2 == 0 ? HashTag::kDataLeaf : HashTag::kParityLeaf;
        const ByteSpan from = ByteSpan(bytes).subspan(t * 1000 + i);
        wrong[t] += CopyAndHash(tag, i << t, from, to.data()) != HashBytes(tag, i << t, from);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Crc32c, MatchesPublishedVectors) {  // RFC 3720, B.4
  const auto crc = [](ByteSpan bytes) { return ~Crc32c(~0u, bytes); };
  std::vector<std::uint8_t> bytes(32, 0);
  EXPECT_EQ(crc(bytes), 0x8A9136AAu);
  std::fill(bytes.begin(), bytes.end(), std::uint8_t{0xFF});
  EXPECT_EQ(crc(bytes), 0x62A8AB43u);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::uint8_t>(i);
  EXPECT_EQ(crc(bytes), 0x46DD794Eu);
}

TEST(Crc32c, ContinuesAndIsLinearWithoutSeed) {
  const auto a = RandomBytes(10000, 5);
  const auto b = RandomBytes(10000, 6);
  const std::uint32_t first = Crc32c(17, ByteSpan(a).first(777));
  EXPECT_EQ(Crc32c(first, ByteSpan(a).subspan(777)), Crc32c(17, a));
  std::vector<std::uint8_t> sum(a);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] ^= b[i];
  EXPECT_EQ(Crc32c(0, sum), Crc32c(0, a) ^ Crc32c(0, b));
}

}  // namespace
}  // namespace lzy
