#include "merkle/hash.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <random>
#include <vector>

namespace lzy {
namespace {

constexpr std::uint64_t kPrime32 = 2654435761U;
constexpr std::uint64_t kPrime64 = 11400714785074694797U;

// HashBytes takes its seed in two parts; any 64-bit seed can be given that way.
Hash HashWithSeed(std::uint64_t seed, ByteSpan bytes) {
  return HashBytes(static_cast<HashTag>(seed >> 56), seed & ((std::uint64_t{1} << 56) - 1), bytes);
}

Hash FromWords(std::uint64_t low, std::uint64_t high) {
  Hash hash;
  StoreLe(hash.bytes.data(), low);
  StoreLe(hash.bytes.data() + 8, high);
  return hash;
}

// Published vectors: xxHash, cli/xsum_sanity_check.c, XSUM_XXH128_testdata, over the buffer that
// XSUM_fillTestBuffer there makes.
TEST(Hash, MatchesPublishedVectors) {
  std::vector<std::uint8_t> buffer(2367);
  std::uint64_t state = kPrime32;
  for (std::uint8_t& byte : buffer) {
    byte = static_cast<std::uint8_t>(state >> 56);
    state *= kPrime64;
  }
  struct Vector {
    std::size_t length;
    std::uint64_t seed, low, high;
  };
  const std::vector<Vector> vectors = {
      {0, 0, 0x6001C324468D497F, 0x99AA06D3014798D8},    {0, kPrime32, 0x5444F7869C671AB0, 0x92220AE55E14AB50},
      {1, 0, 0xC44BDFF4074EECDB, 0xA6CD5E9392000F6A},    {1, kPrime32, 0xB53D5557E7F76F8D, 0x89B99554BA22467C},
      {6, 0, 0x3E7039BDDA43CFC6, 0x082AFE0B8162D12A},    {6, kPrime32, 0x269D8F70BE98856E, 0x5A865B5389ABD2B1},
      {12, 0, 0x061A192713F69AD9, 0x6E3EFD8FC7802B18},   {12, kPrime32, 0x9BE9F9A67F3C7DFB, 0xD7E09D518A3405D3},
      {24, 0, 0x1E7044D28B1B901D, 0x0CE966E4678D3761},   {24, kPrime32, 0xD7304C54EBAD40A9, 0x3162026714A6A243},
      {48, 0, 0xF942219AED80F67B, 0xA002AC4E5478227E},   {48, kPrime32, 0x7BA3C3E453A1934E, 0x163ADDE36C072295},
      {81, 0, 0x5E8BAFB9F95FB803, 0x4952F58181AB0042},   {81, kPrime32, 0x703FBB3D7A5F755C, 0x2724EC7ADC750FB6},
      {222, 0, 0xF1AEBD597CEC6B3A, 0x337E09641B948717},  {222, kPrime32, 0xAE995BB8AF917A8D, 0x91820016621E97F1},
      {403, 0, 0xCDEB804D65C6DEA4, 0x1B6DE21E332DD73D},  {403, kPrime64, 0x6259F6ECFD6443FD, 0xBED311971E0BE8F2},
      {512, 0, 0x617E49599013CB6B, 0x18D2D110DCC9BCA1},  {512, kPrime64, 0x3CE457DE14C27708, 0x925D06B8EC5B8040},
      {2048, 0, 0xDD59E2C3A5F038E0, 0xF736557FD47073A5}, {2048, kPrime32, 0x230D43F30206260B, 0x7FB03F7E7186C3EA},
      {2240, 0, 0x6E73A90539CF2948, 0xCCB134FBFA7CE49D}, {2240, kPrime32, 0xED385111126FBA6F, 0x50A1FE17B338995F},
      {2367, 0, 0xCB37AEB9E5D361ED, 0xE89C0F6FF369B427}, {2367, kPrime32, 0x6F5360AE69C2F406, 0xD23AAE4B76C31ECB},
  };
  for (const Vector& vector : vectors) {
    EXPECT_EQ(HashWithSeed(vector.seed, {buffer.data(), vector.length}), FromWords(vector.low, vector.high))
        << "length " << vector.length << " seed " << vector.seed;
  }
}

TEST(Hash, DispatchedCodeAgreesWithPlainCode) {
  std::mt19937_64 random(1);
  std::vector<std::uint8_t> buffer((1 << 20) + 77);
  for (std::uint8_t& byte : buffer) byte = static_cast<std::uint8_t>(random());
  std::vector<std::size_t> lengths;
  for (std::size_t length = 0; length <= 1024; ++length) lengths.push_back(length);
  for (const std::size_t length : {4095, 4096, 65535, 65536, 65537, 1 << 20, (1 << 20) + 76}) lengths.push_back(length);
  for (const std::size_t length : lengths) {
    for (const std::size_t misalignment : {0, 1}) {
      const std::uint64_t seed = random();
      const ByteSpan bytes(buffer.data() + misalignment, length);
      const XXH128_hash_t plain = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
      ASSERT_EQ(HashWithSeed(seed, bytes), FromWords(plain.low64, plain.high64)) << "length " << length;
    }
  }
}

TEST(Hash, SeedIsTagThenIndex) {
  const std::vector<std::uint8_t> bytes(500, 7);
  const std::uint64_t index = 0x0123456789ABCD;
  const XXH128_hash_t plain = XXH3_128bits_withSeed(bytes.data(), bytes.size(), (std::uint64_t{0x12} << 56) | index);
  EXPECT_EQ(HashBytes(HashTag::kIntent, index, bytes), FromWords(plain.low64, plain.high64));
}

TEST(Hash, BindsTagIndexAndLength) {
  const std::vector<std::uint8_t> zeros(65536);
  const Hash hash = HashBytes(HashTag::kDataLeaf, 5, zeros);
  EXPECT_NE(hash, HashBytes(HashTag::kParityLeaf, 5, zeros));
  EXPECT_NE(hash, HashBytes(HashTag::kDataLeaf, 6, zeros));
  EXPECT_NE(hash, HashBytes(HashTag::kDataLeaf, 5, {zeros.data(), 65535}));
}

TEST(Hash, HexShowsStoredBytesInOrder) {
  EXPECT_EQ(FromWords(0xC44BDFF4074EECDB, 0xA6CD5E9392000F6A).Hex(), "dbec4e07f4df4bc46a0f0092935ecda6");
}

TEST(Hash, IsZero) {
  Hash hash;
  EXPECT_TRUE(hash.IsZero());
  hash.bytes[15] = 1;
  EXPECT_FALSE(hash.IsZero());
}

}  // namespace
}  // namespace lzy
