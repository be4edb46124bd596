// Tree and descent of validated messages (docs/exchange.md, "Streams, leaves, trees").

#include "validated/transfer_tree.h"

#include <fmt/format.h>

#include <algorithm>

namespace lzy::validated {

TransferTree::TransferTree(std::uint64_t bytes, std::uint64_t leaf_bytes) : bytes_(bytes), leaf_bytes_(leaf_bytes) {
  if (bytes == 0) return;
  std::size_t count = (bytes - 1) / leaf_bytes + 1;
  levels_.emplace_back(count);
  while (count > 1) {
    count = (count - 1) / kFanout + 1;
    levels_.emplace_back(count);
  }
}

// The last node of a level may have fewer children than kFanout.
std::span<const Hash> TransferTree::Children(std::size_t level, std::size_t parent) const {
  const std::vector<Hash>& below = levels_[level - 1];
  const std::size_t begin = parent * kFanout;
  return std::span(below).subspan(begin, std::min(kFanout, below.size() - begin));
}

Interval TransferTree::LeafRange(std::size_t leaf) const {
  const std::uint64_t begin = leaf * leaf_bytes_;
  return {begin, begin + std::min(leaf_bytes_, bytes_ - begin)};
}

// The place of a leaf goes into its hash, so `offset` must be right even where the bytes are the same.
void TransferTree::HashLeaves(std::uint64_t offset, ByteSpan bytes) {
  std::size_t leaf = offset / leaf_bytes_;
  for (std::size_t at = 0; at < bytes.size(); at += leaf_bytes_, ++leaf) {
    levels_[0][leaf] = LeafOf(leaf, bytes.subspan(at, std::min<std::size_t>(leaf_bytes_, bytes.size() - at)));
  }
}

void TransferTree::Build() {
  for (std::size_t level = 1; level < levels_.size(); ++level) {
    for (std::size_t i = 0; i < levels_[level].size(); ++i) levels_[level][i] = NodeOf(level, i, Children(level, i));
  }
}

// The tag has the level in it. So a node cannot stand for a node of another level that has the same children.
Hash TransferTree::NodeOf(std::size_t level, std::size_t index, std::span<const Hash> children) {
  const auto tag = static_cast<HashTag>(static_cast<std::size_t>(HashTag::kTransferNode) + level);
  return HashBytes(tag, index, {reinterpret_cast<const std::uint8_t*>(children.data()), children.size_bytes()});
}

Descent::Descent(const TransferTree& mine, const Hash& root) : mine_(mine) {
  if (mine.levels() == 0 || mine.Root() == root) return;
  level_ = mine.levels() - 1;
  differing_.push_back({0, root});
}

std::size_t Descent::ChildCount(std::size_t from, std::size_t count) const {
  std::size_t children = 0;
  for (std::size_t i = from; i < from + count; ++i) children += mine_.Children(level_, differing_[i].index).size();
  return children;
}

// Two passes: all hashes are proven before any of them is used. Otherwise a damaged reply could leave nodes in below_
// that a repeated request would add again.
bool Descent::Take(std::size_t from, std::size_t count, std::span<const Hash> children) {
  std::size_t at = 0;
  for (std::size_t i = from; i < from + count; ++i) {
    const std::size_t size = mine_.Children(level_, differing_[i].index).size();
    if (TransferTree::NodeOf(level_, differing_[i].index, children.subspan(at, size)) != differing_[i].expected) return false;
    at += size;
  }
  at = 0;
  for (std::size_t i = from; i < from + count; ++i) {
    const std::span<const Hash> mine = mine_.Children(level_, differing_[i].index);
    // A node differs, so at least one of its children does. The equal ones are right and need no more questions.
    for (std::size_t k = 0; k < mine.size(); ++k, ++at) {
      if (mine[k] == children[at]) continue;
      below_.push_back({static_cast<std::uint32_t>(differing_[i].index * TransferTree::kFanout + k), children[at]});
    }
  }
  if (from + count == differing_.size()) {
    differing_.swap(below_);
    below_.clear();
    --level_;
  }
  return true;
}

// Errors name bytes; a message with thousands of ranges would be no use to anybody.
std::string RangesText(const std::vector<Interval>& ranges) {
  constexpr std::size_t kMost = 8;
  std::vector<Interval> joined = ranges;
  SortAndJoin(joined);
  if (joined.empty()) return "no bytes";
  std::string text = "bytes ";
  for (std::size_t i = 0; i < std::min(kMost, joined.size()); ++i) {
    text += fmt::format("{}{}..{}", i == 0 ? "" : ", ", joined[i].begin, joined[i].end - 1);
  }
  if (joined.size() > kMost) text += fmt::format(" and {} more ranges", joined.size() - kMost);
  return text;
}

}  // namespace lzy::validated
