#include "validated/transfer_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace lzy::validated {
namespace {

std::vector<std::uint8_t> SomeBytes(std::size_t size, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::vector<std::uint8_t> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

TransferTree TreeOf(const std::vector<std::uint8_t>& bytes, std::uint64_t leaf) {
  TransferTree tree(bytes.size(), leaf);
  tree.HashLeaves(0, bytes);
  tree.Build();
  return tree;
}

/// What a sender would do: gives the children of all nodes that differ. Returns how many hashes that took.
std::size_t Descend(Descent& descent, const TransferTree& theirs, std::size_t batch) {
  std::size_t hashes = 0;
  while (!descent.done()) {
    const std::size_t level = descent.level(), nodes = descent.differing().size();
    for (std::size_t from = 0; from < nodes; from += batch) {
      const std::size_t count = std::min(batch, nodes - from);
      std::vector<Hash> children;
      for (std::size_t i = from; i < from + count; ++i) {
        const auto of = theirs.Children(level, descent.differing()[i].index);
        children.insert(children.end(), of.begin(), of.end());
      }
      EXPECT_EQ(children.size(), descent.ChildCount(from, count));
      EXPECT_TRUE(descent.Take(from, count, children));
      hashes += children.size();
    }
  }
  return hashes;
}

std::vector<std::uint32_t> IndicesOf(const Descent& descent) {
  std::vector<std::uint32_t> indices;
  for (const auto& node : descent.differing()) indices.push_back(node.index);
  return indices;
}

TEST(TransferTree, LevelsAndRanges) {
  EXPECT_EQ(TransferTree(0, 16).levels(), 0u);
  EXPECT_EQ(TransferTree(1, 16).levels(), 1u);
  EXPECT_EQ(TransferTree(16, 16).Count(0), 1u);
  EXPECT_EQ(TransferTree(17, 16).levels(), 2u);
  const TransferTree tree(16 * 16 * 16 * 16 + 1, 16);  // 4097 leaves
  ASSERT_EQ(tree.levels(), 5u);
  EXPECT_EQ(tree.Count(0), 4097u);
  EXPECT_EQ(tree.Count(1), 257u);
  EXPECT_EQ(tree.Count(4), 1u);
  EXPECT_EQ(tree.LeafRange(4096), (Interval{65536, 65537}));
  EXPECT_EQ(tree.Children(1, 256).size(), 1u);
}

TEST(TransferTree, TheRootDependsOnEveryByteItsPlaceAndTheLength) {
  const auto bytes = SomeBytes(1000);
  const Hash root = TreeOf(bytes, 16).Root();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto other = bytes;
    other[i] ^= 0x40;
    EXPECT_NE(TreeOf(other, 16).Root(), root) << i;
  }
  auto swapped = bytes;
  std::swap_ranges(swapped.begin(), swapped.begin() + 16, swapped.begin() + 320);
  EXPECT_NE(TreeOf(swapped, 16).Root(), root) << "leaves in each other's places";
  auto padded = bytes;
  padded.push_back(0);
  EXPECT_NE(TreeOf(padded, 16).Root(), root);
}

TEST(TransferTree, HashesInPiecesAreTheSame) {
  const auto bytes = SomeBytes(1000);
  TransferTree tree(bytes.size(), 16);
  tree.HashLeaves(512, ByteSpan(bytes).subspan(512));
  tree.HashLeaves(0, ByteSpan(bytes).first(512));
  tree.Build();
  EXPECT_EQ(tree.Root(), TreeOf(bytes, 16).Root());
}

TEST(Descent, FindsExactlyWhatDiffersWithFewHashes) {
  const auto theirs = SomeBytes(16 * 5000 - 3);
  const TransferTree their_tree = TreeOf(theirs, 16);
  std::mt19937_64 random(7);
  for (const std::size_t faults : {0, 1, 2, 50, 4000}) {
    auto mine = theirs;
    std::set<std::uint32_t> expected;
    for (std::size_t i = 0; i < faults; ++i) {
      const std::size_t at = random() % mine.size();
      mine[at] = static_cast<std::uint8_t>(theirs[at] + 1);
      expected.insert(static_cast<std::uint32_t>(at / 16));
    }
    const TransferTree my_tree = TreeOf(mine, 16);
    for (const std::size_t batch : {1, 7, 4096}) {
      Descent descent(my_tree, their_tree.Root());
      const std::size_t hashes = Descend(descent, their_tree, batch);
      EXPECT_EQ(IndicesOf(descent), std::vector<std::uint32_t>(expected.begin(), expected.end()));
      EXPECT_LE(hashes, expected.size() * 16 * 4);
      for (const auto& node : descent.differing()) EXPECT_EQ(node.expected, their_tree.node(0, node.index));
    }
  }
}

TEST(Descent, OneLeafNeedsNoHashes) {
  const TransferTree mine = TreeOf(SomeBytes(10), 16), theirs = TreeOf(SomeBytes(10, 2), 16);
  const Descent descent(mine, theirs.Root());
  EXPECT_TRUE(descent.done());
  EXPECT_EQ(IndicesOf(descent), std::vector<std::uint32_t>{0});
  EXPECT_TRUE(Descent(mine, mine.Root()).differing().empty());
  EXPECT_TRUE(Descent(TransferTree(0, 16), Hash{}).done());
}

TEST(Descent, TakesNoHashesThatAreNotTheirParents) {
  const auto theirs = SomeBytes(16 * 300);
  auto mine = theirs;
  mine[17] ^= 1;
  const TransferTree my_tree = TreeOf(mine, 16), their_tree = TreeOf(theirs, 16);
  Descent descent(my_tree, their_tree.Root());
  const auto children = their_tree.Children(descent.level(), 0);
  std::vector<Hash> wrong(children.begin(), children.end());
  wrong[1].bytes[3] ^= 1;
  const std::size_t level = descent.level();
  EXPECT_FALSE(descent.Take(0, 1, wrong));
  EXPECT_EQ(descent.level(), level) << "nothing was taken";
  Descend(descent, their_tree, 4096);
  EXPECT_EQ(IndicesOf(descent), std::vector<std::uint32_t>{1});
}

TEST(RangesText, NamesTheFirstOfMany) {
  EXPECT_EQ(RangesText({}), "no bytes");
  EXPECT_EQ(RangesText({{8, 12}, {0, 4}, {4, 8}}), "bytes 0..11");
  EXPECT_EQ(RangesText({{0, 1}, {4, 8}}), "bytes 0..0, 4..7");
  std::vector<Interval> many;
  for (std::uint64_t i = 0; i < 20; ++i) many.push_back({10 * i, 10 * i + 1});
  EXPECT_NE(RangesText(many).find("70..70 and 12 more ranges"), std::string::npos);
}

}  // namespace
}  // namespace lzy::validated
