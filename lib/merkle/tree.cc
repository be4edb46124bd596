#include "merkle/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/numbers.h"

namespace lzy {
namespace {

constexpr std::uint64_t kMaxLeaves = std::uint64_t{1} << 56;  // an index shares the 64-bit seed with the tag

/// By TreeKind: the tag of the root, and the one to which the level of a node is added.
struct Tags {
  HashTag root, node;
};
constexpr Tags kTags[] = {{HashTag::kDataRoot, HashTag::kDataNode},
                          {HashTag::kParityRoot, HashTag::kParityNode},
                          {HashTag::kDatasetTreeRoot, HashTag::kDatasetNode}};

const Tags& TagsOf(TreeKind kind) {
  return kTags[static_cast<std::size_t>(kind)];
}

// The children of node `index` among the nodes of the level below.
std::span<const Hash> PageOf(std::span<const Hash> below, std::uint64_t index, std::size_t fanout) {
  const std::size_t first = index * fanout;
  return below.subspan(first, std::min(fanout, below.size() - first));
}

ByteSpan BytesOf(std::span<const Hash> hashes) {
  return {reinterpret_cast<const std::uint8_t*>(hashes.data()), hashes.size_bytes()};
}

void SortUnique(std::vector<std::uint64_t>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

// Nodes of the next level that must be computed again, ascending: parents of `changed` children, parents of new
// children, and the parent whose page got shorter. The last one matters because a hash binds the number of children.
std::vector<std::uint64_t> StaleParents(std::span<const std::uint64_t> changed, std::uint64_t old_count,
                                        std::uint64_t new_count, std::uint64_t fanout) {
  std::vector<std::uint64_t> parents;
  for (const std::uint64_t child : changed) {
    if (child < new_count && (parents.empty() || parents.back() != child / fanout)) parents.push_back(child / fanout);
  }
  if (old_count < new_count) {
    for (std::uint64_t p = old_count / fanout; p < CeilDiv(new_count, fanout); ++p) parents.push_back(p);
  } else if (new_count < old_count && new_count % fanout != 0) {
    parents.push_back(new_count / fanout);
  }
  SortUnique(parents);
  return parents;
}

}  // namespace

Hash Tree::NodeOf(TreeKind kind, std::size_t level, std::uint64_t index, ByteSpan children) {
  const auto tag = static_cast<HashTag>(static_cast<std::size_t>(TagsOf(kind).node) + level);
  return HashBytes(tag, index, children);
}

Hash Tree::RootOf(TreeKind kind, std::uint64_t leaf_count, std::uint64_t bytes, const Hash& top) {
  ByteWriter writer;
  writer.Put(leaf_count);
  writer.Put(bytes);
  writer.PutBytes(top.bytes);
  return HashBytes(TagsOf(kind).root, 0, writer.bytes());
}

std::vector<std::uint64_t> Tree::LevelCounts(TreeKind kind, std::uint64_t leaves) {
  std::vector<std::uint64_t> counts;
  if (leaves == 0) return counts;
  counts.push_back(leaves);
  while (counts.back() > 1) counts.push_back(CeilDiv(counts.back(), FanoutOf(kind)));
  return counts;
}

Tree Tree::Build(TreeKind kind, std::vector<Hash> leaves, std::uint64_t bytes) {
  Tree tree(kind);
  tree.Update(std::move(leaves), {}, bytes);
  return tree;
}

Result<Tree> Tree::FromLevels(TreeKind kind, std::vector<std::vector<Hash>> levels, std::uint64_t bytes) {
  const std::uint64_t leaves = levels.empty() ? 0 : levels[0].size();
  const std::vector<std::uint64_t> counts = LevelCounts(kind, leaves);
  if (levels.size() != counts.size()) {
    return {Code::kCorrupt,
            fmt::format("a tree of {} leaves has {} levels, not {}", leaves, counts.size(), levels.size())};
  }
  for (std::size_t level = 0; level < counts.size(); ++level) {
    if (levels[level].size() != counts[level]) {
      return {Code::kCorrupt, fmt::format("level {} of a tree of {} leaves has {} nodes, not {}", level, leaves,
                                          counts[level], levels[level].size())};
    }
  }
  Tree tree(kind);
  tree.bytes_ = bytes;
  tree.levels_ = std::move(levels);
  return tree;
}

void Tree::Update(std::vector<Hash> leaves, std::span<const std::uint64_t> changed, std::uint64_t bytes) {
  const std::vector<std::uint64_t> counts = LevelCounts(kind_, leaves.size());
  std::uint64_t old_count = leaf_count();
  bytes_ = bytes;
  levels_.resize(counts.size());
  if (counts.empty()) return;
  levels_[0] = std::move(leaves);

  // Level by level from below. `stale` holds what changed in the level below, `old_count` its former size.
  std::vector<std::uint64_t> stale(changed.begin(), changed.end());
  for (std::size_t level = 1; level < counts.size(); ++level) {
    stale = StaleParents(stale, old_count, counts[level - 1], FanoutOf(kind_));
    old_count = levels_[level].size();
    levels_[level].resize(counts[level]);
    for (const std::uint64_t index : stale) levels_[level][index] = NodeHash(level, index);
  }
}

Hash Tree::Root() const {
  return RootOf(kind_, leaf_count(), bytes_, levels_.empty() ? Hash{} : levels_.back()[0]);
}

Hash Tree::NodeHash(std::size_t level, std::uint64_t index) const {
  return NodeOf(kind_, level, index, BytesOf(PageOf(levels_[level - 1], index, FanoutOf(kind_))));
}

Tree::Proof Tree::Prove(std::uint64_t index) const {
  assert(index < leaf_count());
  Proof proof{index, leaf_count(), bytes_, {}};
  const std::size_t fanout = FanoutOf(kind_);
  // The top level needs no page: its only hash follows from the page below it.
  const std::size_t page_levels = std::max<std::size_t>(levels_.size() - 1, 1);
  std::uint64_t node = index;
  for (std::size_t level = 0; level < page_levels; ++level) {
    node /= fanout;
    const std::span<const Hash> page = PageOf(levels_[level], node, fanout);
    proof.pages.emplace_back(page.begin(), page.end());
  }
  return proof;
}

std::optional<Hash> Tree::RootFrom(TreeKind kind, const Proof& proof, const Hash& leaf) {
  if (proof.leaf_count > kMaxLeaves || proof.index >= proof.leaf_count) return std::nullopt;
  const std::size_t fanout = FanoutOf(kind);
  const std::vector<std::uint64_t> counts = LevelCounts(kind, proof.leaf_count);
  if (proof.pages.size() != std::max<std::size_t>(counts.size() - 1, 1)) return std::nullopt;

  // From below: each page must have the size that follows from the leaf count, and hold at the right place what is
  // known so far. Then its hash is known.
  Hash known = leaf;
  std::uint64_t node = proof.index;
  for (std::size_t level = 0; level < proof.pages.size(); ++level) {
    const std::vector<Hash>& page = proof.pages[level];
    const std::uint64_t parent = node / fanout;
    if (page.size() != std::min<std::uint64_t>(fanout, counts[level] - parent * fanout)) return std::nullopt;
    if (page[node % fanout] != known) return std::nullopt;
    if (level + 1 < counts.size()) known = NodeOf(kind, level + 1, parent, BytesOf(page));
    node = parent;
  }
  return RootOf(kind, proof.leaf_count, proof.bytes, known);
}

}  // namespace lzy
