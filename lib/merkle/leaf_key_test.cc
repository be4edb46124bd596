#include "merkle/leaf_key.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

namespace lzy {
namespace {

ByteSpan Bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::shared_ptr<const LeafKey> KeyOf(std::string_view secret) {
  return LeafKey::Make(Bytes(secret)).value();
}

std::string Hex(ByteSpan bytes) {
  std::string out;
  for (const std::uint8_t byte : bytes) {
    for (const int digit : {byte >> 4, byte & 15}) out += "0123456789abcdef"[digit];
  }
  return out;
}

// By Python's hashlib, from docs/format.md §12:
//   K = blake2b(secret, digest_size=32, person=b"lzy key"), and so on.
TEST(LeafKey, IsBlake2bAsTheFormatSays) {
  const auto key = KeyOf("0123456789abcdef");
  EXPECT_EQ(KeyText(key->id()), "87ccf0989746ff79a8afc681e6563d5e");
  EXPECT_EQ(key->Leaf(HashTag::kDataLeaf, 7, Bytes("block")).Hex(), "91c2116443954f92ae671e21b5b4efb6");
  const auto parts = [](const auto& put) {
    for (const char* part : {"part", "", "part two"}) put(Bytes(part));
    return Status::Ok();
  };
  EXPECT_EQ(Hex(key->SealOf(parts).value()), "ceabbb7e873dc7286a90c2b72dda8fdbb03574ab059a4561e30904a8890850a5");
}

TEST(LeafKey, EverythingThatIsHashedCounts) {
  const auto key = KeyOf("0123456789abcdef"), other = KeyOf("0123456789abcdeg"), longer = KeyOf("0123456789abcdef\n");
  std::set<std::string> leaves;
  for (const auto& one : {key, other, longer}) {
    for (const HashTag tag : {HashTag::kDataLeaf, HashTag::kParityLeaf}) {
      for (const std::uint64_t index : {0, 1, 256}) {
        for (const std::string_view text : {"", "a", "b", "aa"}) leaves.insert(one->Leaf(tag, index, Bytes(text)).Hex());
      }
    }
  }
  EXPECT_EQ(leaves.size(), 3u * 2 * 3 * 4);
  EXPECT_NE(key->id(), other->id());
  EXPECT_NE(key->id(), longer->id());
}

TEST(LeafKey, WithoutAKeyLeavesAreHashes) {
  EXPECT_EQ(LeafHash(nullptr, HashTag::kParityLeaf, 5, Bytes("x")), HashBytes(HashTag::kParityLeaf, 5, Bytes("x")));
  const auto key = KeyOf("0123456789abcdef");
  EXPECT_EQ(LeafHash(key.get(), HashTag::kParityLeaf, 5, Bytes("x")), key->Leaf(HashTag::kParityLeaf, 5, Bytes("x")));
}

TEST(LeafKey, SecretsOfOtherSizesAreRefused) {
  for (const std::size_t size : {0, 15, 65537}) {
    const auto made = LeafKey::Make(Bytes(std::string(size, 'x')));
    ASSERT_FALSE(made.ok()) << size;
    EXPECT_EQ(made.status().code(), Code::kInvalidArgument);
    EXPECT_NE(made.status().message().find(std::to_string(size) + " bytes is not accepted: 16 to 65536"), std::string::npos);
  }
  EXPECT_TRUE(LeafKey::Make(Bytes(std::string(65536, 'x'))).ok());
}

}  // namespace
}  // namespace lzy
