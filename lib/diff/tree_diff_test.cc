// Compares trees: exactly the leaves that differ, from few pages.
#include "diff/tree_diff.h"

#include <gtest/gtest.h>

#include <random>

#include "any_leaves.h"
#include "base/numbers.h"

namespace lzy {
namespace {

/// The pages of a tree in memory; counts reads.
class CountedPages : public TreePages {
 public:
  CountedPages(Tree tree, std::uint64_t& count) : tree_(std::move(tree)), count_(count) {}
  bool Read(std::size_t level, std::uint64_t page, std::size_t attempt, std::span<Hash> to) override {
    ++count_;
    std::ranges::copy(tree_.PageOf(level, page), to.begin());
    return attempt == 0;
  }
  bool IsLost(std::size_t, std::uint64_t) const override { return false; }
  Status Gone() const override { return {Code::kBusy, "gone"}; }

 private:
  const Tree tree_;
  std::uint64_t& count_;
};

class TreeDiffTest : public ::testing::Test {
 protected:
  std::vector<Hash> AnyLeaves(std::size_t count) { return testing::AnyLeaves(random_, count); }
  static Tree TreeOf(const std::vector<Hash>& leaves) { return Tree::Build(TreeKind::kData, leaves, leaves.size()); }
  Tree Paged(const Tree& tree) {
    const Hash top = tree.node(tree.counts().size() - 1, 0);
    return Tree::FromPages(TreeKind::kData, tree.leaf_count(), tree.bytes(), top, std::make_shared<CountedPages>(tree, pages_));
  }
  static std::vector<Interval> OneByOne(const std::vector<Hash>& a, const std::vector<Hash>& b) {
    std::vector<Interval> found;
    for (std::uint64_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      if (i < a.size() && i < b.size() && a[i] == b[i]) continue;
      found.push_back({i, i + 1});
    }
    if (!found.empty()) SortAndJoin(found);
    return found;
  }

  std::mt19937_64 random_{7};
  std::uint64_t pages_ = 0;
};

TEST_F(TreeDiffTest, FindsWhatALookAtEachLeafFinds) {
  for (const std::size_t count : {0, 1, 2, 255, 256, 257, 65536, 65537, 70000}) {
    const std::vector<Hash> a = AnyLeaves(count);
    for (const std::size_t other : {count, count + 1, count / 2, count / 256, count + 300}) {
      for (const int changes : {0, 1, 3, 50}) {
        std::vector<Hash> b = a;
        const std::size_t kept = std::min(count, other);
        b.resize(kept);
        const std::vector<Hash> more = AnyLeaves(other - kept);
        b.insert(b.end(), more.begin(), more.end());
        for (int i = 0; i < changes && other > 0; ++i) b[random_() % other].bytes[3] ^= 1;
        ASSERT_EQ(DifferingLeaves(TreeOf(a), TreeOf(b)), OneByOne(a, b)) << count << " " << other << " " << changes;
        ASSERT_EQ(DifferingLeaves(TreeOf(b), TreeOf(a)), OneByOne(a, b)) << count << " " << other << " " << changes;
      }
    }
  }
}

TEST_F(TreeDiffTest, ReadsOnlyPagesAboveWhatDiffers) {
  const std::vector<Hash> a = AnyLeaves(200'000);
  const Tree tree = TreeOf(a);
  EXPECT_TRUE(DifferingLeaves(Paged(tree), Paged(tree)).empty());
  EXPECT_EQ(pages_, 0U);
  // One page on each level: the top one, and two for each of three leaves that are far apart. In two trees.
  std::vector<Hash> b = a;
  for (const std::size_t leaf : {5, 100'000, 199'999}) b[leaf].bytes[0] ^= 1;
  EXPECT_EQ(DifferingLeaves(Paged(tree), Paged(TreeOf(b))), OneByOne(a, b));
  EXPECT_EQ(pages_, 2U * (1 + 3 + 3));
}

// Pages that share a slot of the cache must not be read again and again.
TEST_F(TreeDiffTest, ReadsAFewPagesMoreThanThereAreIfEverythingDiffers) {
  const std::vector<Hash> a = AnyLeaves(200'000), b = AnyLeaves(200'000);
  EXPECT_EQ(DifferingLeaves(Paged(TreeOf(a)), Paged(TreeOf(b))), (std::vector<Interval>{{0, 200'000}}));
  const std::uint64_t all = 2 * (CeilDiv(200'000, 256) + CeilDiv(CeilDiv(200'000, 256), 256) + 1);
  EXPECT_GE(pages_, all);
  EXPECT_LE(pages_, all + all / 16);
}

}  // namespace
}  // namespace lzy
