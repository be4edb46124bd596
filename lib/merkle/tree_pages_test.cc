// Large trees, of which only some pages are in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "any_leaves.h"
#include "memory_files.h"
#include "merkle/tree.h"
#include "status_matchers.h"

namespace lzy {
namespace {

class TreePagesTest : public ::testing::Test {
 protected:
  void SetUp() override { SetMostLeavesInMemory(256); }
  void TearDown() override { SetMostLeavesInMemory(kMostLeavesInMemory); }

  std::vector<Hash> AnyLeaves(std::size_t count) { return testing::AnyLeaves(random_, count); }

  ScratchMaker Scratch() {
    return [this] {
      ++files_made_;
      return files_.Open("scratch", OpenMode::kCreate).value();
    };
  }

  Tree Built(const std::vector<Hash>& leaves) {
    TreeBuilder builder(TreeKind::kData, leaves.size(), 12345, Scratch());
    for (std::size_t at = 0; at < leaves.size();) {
      const std::size_t count = std::min<std::size_t>(leaves.size() - at, 1 + random_() % 1000);
      builder.Add(std::span(leaves).subspan(at, count));
      at += count;
    }
    return builder.Finish();
  }

  std::mt19937_64 random_{1};
  testing::MemoryFileSystem files_;
  int files_made_ = 0;
};

TEST_F(TreePagesTest, ALargeTreeIsTheSameAsInMemory) {
  for (const std::size_t count : {1, 256, 257, 511, 512, 513, 65536, 65537, 70000, 200000}) {
    const std::vector<Hash> leaves = AnyLeaves(count);
    files_made_ = 0;
    const Tree large = Built(leaves), small = Tree::Build(TreeKind::kData, leaves, 12345);
    EXPECT_EQ(files_made_, count > 256);
    ASSERT_EQ(large.counts(), small.counts());
    EXPECT_EQ(large.Root(), small.Root());
    for (std::size_t level = 0; level < small.counts().size(); ++level) {
      ASSERT_EQ(large.NodesOf(level), small.NodesOf(level)) << count << " level " << level;
    }
    for (int i = 0; i < 1000; ++i) {
      const std::uint64_t index = random_() % count;
      ASSERT_EQ(large.leaf(index), leaves[index]);
      ASSERT_EQ(large.Prove(index).pages, small.Prove(index).pages);
    }
  }
}

TEST_F(TreePagesTest, APageThatIsNoLongerRightIsAnError) {
  const std::vector<Hash> leaves = AnyLeaves(70000);
  const Tree tree = Built(leaves);
  files_.At("scratch").bytes[300 * sizeof(Hash)] ^= 1;
  EXPECT_EQ(tree.leaf(255), leaves[255]);
  const Status failed = NoThrow([&] { (void)tree.leaf(300); });
  EXPECT_CODE(failed, Code::kIo);
  EXPECT_THAT(failed.message(), ::testing::HasSubstr("scratch"));
  EXPECT_EQ(tree.leaf(512), leaves[512]);
}

TEST_F(TreePagesTest, IfTheFileCannotBeWrittenTheTreeIsTakenIntoMemory) {
  const std::vector<Hash> leaves = AnyLeaves(70000);
  const Tree small = Tree::Build(TreeKind::kData, leaves, 12345);
  for (const std::uint64_t limit : {1000, 4096, 8192, 300'000, 1'000'000, 1'120'000, 1'121'000}) {
    files_.largest_file = limit;
    files_.Put("scratch", {});
    const Tree tree = Built(leaves);
    EXPECT_FALSE(tree.is_large());
    EXPECT_EQ(tree.Root(), small.Root());
    EXPECT_EQ(tree.NodesOf(0), leaves);
    EXPECT_EQ(tree.NodesOf(1), small.NodesOf(1));
  }
}

TEST_F(TreePagesTest, WhatIsTakenIntoMemoryIsProven) {
  files_.largest_file = 300'000;
  const std::vector<Hash> leaves = AnyLeaves(70000);
  TreeBuilder builder(TreeKind::kData, leaves.size(), 1, Scratch());
  builder.Add(std::span(leaves).first(10'000));
  files_.At("scratch").bytes[5000] ^= 1;
  EXPECT_CODE(NoThrow([&] { builder.Add(std::span(leaves).subspan(10'000)); }), Code::kIo);
}

TEST_F(TreePagesTest, WithoutAPlaceForAFileItStaysInMemory) {
  const std::vector<Hash> leaves = AnyLeaves(70000);
  for (const ScratchMaker& none : {ScratchMaker(), ScratchMaker([] { return std::unique_ptr<File>(); })}) {
    TreeBuilder builder(TreeKind::kParity, leaves.size(), 1, none);
    builder.Add(leaves);
    EXPECT_EQ(builder.Finish().Root(), Tree::Build(TreeKind::kParity, leaves, 1).Root());
  }
}

TEST_F(TreePagesTest, LostPagesAreZeroUntilTheyAreGiven) {
  const std::vector<Hash> leaves = AnyLeaves(1000);
  class Pages : public TreePages {
   public:
    explicit Pages(Tree tree) : tree_(std::move(tree)) {}
    bool Read(std::size_t level, std::uint64_t page, std::size_t attempt, std::span<Hash> to) override {
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = tree_.node(level, page * kPageFanout + i);
      return attempt == 0;
    }
    bool IsLost(std::size_t level, std::uint64_t page) const override { return level == 0 && page == 2; }
    Status Gone() const override { return {Code::kBusy, "pages"}; }

   private:
    Tree tree_;
  };
  const Tree whole = Tree::Build(TreeKind::kData, leaves, 9);
  const Tree tree = Tree::FromPages(TreeKind::kData, 1000, 9, whole.node(2, 0), std::make_shared<Pages>(whole));
  EXPECT_EQ(tree.leaf(511), leaves[511]);
  EXPECT_TRUE(tree.leaf(512).IsZero());
  EXPECT_EQ(tree.Root(), whole.Root());
  const Tree known = tree.WithPages({{2, {leaves.begin() + 512, leaves.begin() + 768}}});
  EXPECT_EQ(known.NodesOf(0), leaves);
  EXPECT_TRUE(tree.leaf(512).IsZero());
  // What is given must be the children of the node above.
  const Tree wrong = tree.WithPages({{2, std::vector<Hash>(256)}});
  EXPECT_CODE(NoThrow([&] { (void)wrong.leaf(512); }), Code::kBusy);
}

}  // namespace
}  // namespace lzy
