#include "merkle/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "status_matchers.h"

namespace lzy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Indexes = std::vector<std::uint64_t>;

const std::vector<TreeKind> kKinds = {TreeKind::kData, TreeKind::kParity, TreeKind::kDataset};

Hash RandomHash(std::mt19937_64& random) {
  Hash hash;
  StoreLe(hash.bytes.data(), random());
  StoreLe(hash.bytes.data() + 8, random());
  return hash;
}

std::vector<Hash> RandomLeaves(std::size_t count, std::mt19937_64& random) {
  std::vector<Hash> leaves(count);
  for (Hash& leaf : leaves) leaf = RandomHash(random);
  return leaves;
}

/// Whether `proof` proves that `leaf` is in the tree with this root.
bool Leads(TreeKind kind, const Tree::Proof& proof, const Hash& leaf, const Hash& root) {
  return Tree::RootFrom(kind, proof, leaf) == root;
}

// docs/format.md "Trees" word by word, with the tags' numbers written out.
Hash ReferenceRoot(TreeKind kind, std::vector<Hash> nodes, std::uint64_t bytes) {
  const std::uint64_t leaf_count = nodes.size();
  const std::size_t fanout = kind == TreeKind::kDataset ? 2 : 256;
  const int node_base = kind == TreeKind::kData ? 0x40 : kind == TreeKind::kParity ? 0x50 : 0x60;
  const int root_tag = kind == TreeKind::kData ? 0x05 : kind == TreeKind::kParity ? 0x06 : 0x07;
  for (int level = 1; nodes.size() > 1; ++level) {
    std::vector<Hash> parents;
    for (std::size_t first = 0; first < nodes.size(); first += fanout) {
      ByteWriter children;
      for (std::size_t i = first; i < std::min(first + fanout, nodes.size()); ++i) children.PutBytes(nodes[i].bytes);
      parents.push_back(HashBytes(static_cast<HashTag>(node_base + level), first / fanout, children.bytes()));
    }
    nodes = parents;
  }
  ByteWriter root;
  root.Put(leaf_count);
  root.Put(bytes);
  root.PutBytes(nodes.empty() ? Hash{}.bytes : nodes[0].bytes);
  return HashBytes(static_cast<HashTag>(root_tag), 0, root.bytes());
}

void ExpectSameTree(const Tree& tree, const Tree& expected) {
  ASSERT_EQ(tree.counts(), expected.counts());
  for (std::size_t level = 0; level < tree.counts().size(); ++level) {
    ASSERT_EQ(tree.NodesOf(level), expected.NodesOf(level)) << "level " << level;
  }
  ASSERT_EQ(tree.Root(), expected.Root());
}

TEST(Tree, LevelCounts) {
  EXPECT_THAT(Tree::LevelCounts(TreeKind::kData, 0), IsEmpty());
  EXPECT_THAT(Tree::LevelCounts(TreeKind::kData, 1), ElementsAre(1));
  EXPECT_THAT(Tree::LevelCounts(TreeKind::kData, 2), ElementsAre(2, 1));
  EXPECT_THAT(Tree::LevelCounts(TreeKind::kData, 256), ElementsAre(256, 1));
  EXPECT_THAT(Tree::LevelCounts(TreeKind::kParity, 257), ElementsAre(257, 2, 1));
  EXPECT_THAT(Tree::LevelCounts(TreeKind::kData, 65537), ElementsAre(65537, 257, 2, 1));
  EXPECT_THAT(Tree::LevelCounts(TreeKind::kDataset, 5), ElementsAre(5, 3, 2, 1));
  EXPECT_EQ(Tree::LevelCounts(TreeKind::kDataset, ~std::uint64_t{0}).size(), 65U);
}

TEST(Tree, RootMatchesTheFormat) {
  std::mt19937_64 random(1);
  for (const TreeKind kind : kKinds) {
    for (const std::size_t count : {0, 1, 2, 3, 5, 8, 255, 256, 257, 512, 65536, 65537}) {
      const std::vector<Hash> leaves = RandomLeaves(count, random);
      const Tree tree = Tree::Build(kind, leaves, count * 1000 + 7);
      EXPECT_EQ(tree.leaf_count(), count);
      EXPECT_EQ(tree.bytes(), count * 1000 + 7);
      EXPECT_EQ(tree.Root(), ReferenceRoot(kind, leaves, count * 1000 + 7)) << count;
    }
  }
}

// Frozen: a change here is a change of the on-disk format. Computed with python3-xxhash 3.2.0 (libxxhash 0.8.1), e.g.
// three leaves of 16 equal bytes 1, 2, 3: top = xxh3_128(leaves, seed 0x41 << 56), then
// xxh3_128(le64(3) + le64(200000) + top as stored, seed 5 << 56).
TEST(Tree, RootsAreFrozen) {
  std::vector<Hash> leaves(3);
  for (std::uint8_t i = 0; i < 3; ++i) leaves[i].bytes.fill(static_cast<std::uint8_t>(i + 1));
  EXPECT_EQ(Tree::Build(TreeKind::kData, {}, 0).Root().Hex(), "2cfe5cfaf65528210cac35145f08aed7");
  EXPECT_EQ(Tree::Build(TreeKind::kData, leaves, 200000).Root().Hex(), "e996ef92def5c870a5ff566b2c4effbc");
  EXPECT_EQ(Tree::Build(TreeKind::kDataset, leaves, 200000).Root().Hex(), "38760075e6d7341b4fd5ffd32d55bfb9");
}

TEST(Tree, RootBindsKindLeavesAndBytes) {
  std::mt19937_64 random(2);
  const std::vector<Hash> leaves = RandomLeaves(2, random);
  const Hash root = Tree::Build(TreeKind::kData, leaves, 100).Root();
  EXPECT_NE(root, Tree::Build(TreeKind::kParity, leaves, 100).Root());
  EXPECT_NE(root, Tree::Build(TreeKind::kDataset, leaves, 100).Root());
  EXPECT_NE(root, Tree::Build(TreeKind::kData, leaves, 101).Root());
  EXPECT_NE(root, Tree::Build(TreeKind::kData, {leaves[1], leaves[0]}, 100).Root());
  // The top node taken for the only leaf.
  EXPECT_NE(root, Tree::Build(TreeKind::kData, {Tree::Build(TreeKind::kData, leaves, 100).node(1, 0)}, 100).Root());
}

TEST(Tree, ProvesEveryLeaf) {
  std::mt19937_64 random(6);
  for (const TreeKind kind : kKinds) {
    for (const std::size_t count : {1, 2, 3, 7, 255, 256, 257, 700}) {
      const Tree tree = Tree::Build(kind, RandomLeaves(count, random), count * 10);
      for (std::size_t index = 0; index < count; ++index) {
        const Tree::Proof proof = tree.Prove(index);
        ASSERT_TRUE(Leads(kind, proof, tree.leaf(index), tree.Root())) << count << " " << index;
        ASSERT_FALSE(Leads(kind, proof, RandomHash(random), tree.Root()));
        ASSERT_FALSE(Leads(kind, proof, tree.leaf(index), RandomHash(random)));
      }
    }
  }
}

TEST(Tree, AProofIsShort) {
  std::mt19937_64 random(7);
  const Tree tree = Tree::Build(TreeKind::kData, RandomLeaves(66000, random), 0);
  const Tree::Proof proof = tree.Prove(65999);
  ASSERT_EQ(proof.pages.size(), 3U);
  EXPECT_EQ(proof.pages[0].size(), 66000U % 256);
  EXPECT_EQ(proof.pages[1].size(), 258U % 256);
  EXPECT_EQ(proof.pages[2].size(), 2U);
}

TEST(Tree, HostileProofsAreFalse) {
  std::mt19937_64 random(8);
  for (const TreeKind kind : kKinds) {
    for (const std::size_t count : {1, 2, 6, 256, 300, 66000}) {
      const Tree tree = Tree::Build(kind, RandomLeaves(count, random), 12345);
      const Hash root = tree.Root();
      const auto odd_number = [&]() -> std::uint64_t {
        const Indexes numbers = {0,     1,          count - 1,        count, count + 1, 255, 256,
                                 65536, 1ULL << 56, (1ULL << 56) + 1, ~0ULL};
        return random() % 3 == 0 ? random() : numbers[random() % numbers.size()];
      };
      for (int round = 0; round < 500; ++round) {
        const Tree::Proof good = tree.Prove(random() % count);
        Tree::Proof bad = good;
        for (std::size_t damage = 1 + random() % 2; damage > 0; --damage) {
          const std::size_t page = bad.pages.empty() ? 0 : random() % bad.pages.size();
          switch (random() % 8) {
            case 0:
              bad.index = odd_number();
              break;
            case 1:
              bad.leaf_count = odd_number();
              break;
            case 2:
              bad.bytes = odd_number();
              break;
            case 3:
              bad.pages.resize(random() % 5);
              break;
            case 4:
              bad.pages.emplace_back(random() % 300);
              break;
            case 5:
              if (!bad.pages.empty()) bad.pages[page].resize(random() % 300);
              break;
            case 6:
              if (!bad.pages.empty()) bad.pages[page].clear();
              break;
            default:
              if (!bad.pages.empty() && !bad.pages[page].empty()) {
                bad.pages[page][random() % bad.pages[page].size()].bytes[random() % 16] ^= 1;
              }
              break;
          }
        }
        const bool unharmed = bad.index == good.index && bad.leaf_count == good.leaf_count && bad.bytes == good.bytes &&
                              bad.pages == good.pages;
        ASSERT_EQ(Leads(kind, bad, tree.leaf(good.index), root), unharmed) << count << " round " << round;
      }
      EXPECT_FALSE(Leads(kind, {}, Hash{}, root));
    }
  }
}

TEST(Tree, FromLevelsKeepsWhatBuildMade) {
  std::mt19937_64 random(10);
  for (const std::size_t count : {0, 1, 257}) {
    const Tree built = Tree::Build(TreeKind::kParity, RandomLeaves(count, random), 99);
    std::vector<std::vector<Hash>> levels;
    for (std::size_t level = 0; level < built.counts().size(); ++level) levels.push_back(built.NodesOf(level));
    auto tree = Tree::FromLevels(TreeKind::kParity, levels, 99);
    ASSERT_OK(tree);
    ExpectSameTree(*tree, built);
  }
}

TEST(Tree, FromLevelsRefusesCountsThatDoNotFit) {
  const auto levels = [](const std::vector<std::size_t>& counts) {
    std::vector<std::vector<Hash>> made;
    for (const std::size_t count : counts) made.emplace_back(count);
    return made;
  };
  for (const auto& counts : std::vector<std::vector<std::size_t>>{
           {0}, {1, 1}, {2}, {2, 2}, {257, 1}, {257, 2}, {257, 2, 1, 1}, {257, 3, 1}, {256, 2, 1}, {0, 1}}) {
    const auto tree = Tree::FromLevels(TreeKind::kData, levels(counts), 0);
    EXPECT_CODE(tree, Code::kCorrupt);
    EXPECT_THAT(tree.status().message(), HasSubstr("leaves"));
  }
}

}  // namespace
}  // namespace lzy
