#include "merkle/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace lzy {
namespace {

std::vector<std::uint8_t> RandomBytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
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
