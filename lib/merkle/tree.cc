#include "merkle/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <map>
#include <mutex>
#include <utility>

#include "base/numbers.h"

namespace lzy {
namespace {

std::atomic<std::uint64_t> most_in_memory = kMostLeavesInMemory;

constexpr std::uint64_t kMaxLeaves = std::uint64_t{1} << 56;  // an index shares the 64-bit seed with the tag

/// By TreeKind: the tag of the root, and the base of the tags of nodes (plus level).
struct Tags {
  HashTag root, node;
};
constexpr Tags kTags[] = {{HashTag::kDataRoot, HashTag::kDataNode},
                          {HashTag::kParityRoot, HashTag::kParityNode},
                          {HashTag::kDatasetTreeRoot, HashTag::kDatasetNode}};

const Tags& TagsOf(TreeKind kind) {
  return kTags[static_cast<std::size_t>(kind)];
}

}  // namespace

std::uint64_t MostLeavesInMemory() {
  return most_in_memory;
}

void SetMostLeavesInMemory(std::uint64_t leaves) {
  most_in_memory = std::max<std::uint64_t>(leaves, 1);
}

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

// The recently used pages of a large tree. Each page has one slot that it may use.
class Tree::Cache {
 public:
  Cache(const Tree& shape, const Hash& top, std::shared_ptr<TreePages> pages)
      : kind_(shape.kind_), counts_(shape.counts_), top_(top), pages_(std::move(pages)),
        slots_(std::clamp<std::uint64_t>(MostLeavesInMemory() / kPageFanout / 4, kLeastSlots, kMostSlots)) {}

  Hash Node(std::size_t level, std::uint64_t index) {
    if (level + 1 == counts_.size()) return top_;
    const std::lock_guard lock(mutex_);
    return Page(level, index / kPageFanout)[index % kPageFanout];
  }

  std::vector<Hash> PageAt(std::size_t level, std::uint64_t page) {
    if (level + 1 == counts_.size()) return {top_};
    const std::lock_guard lock(mutex_);
    const std::span<const Hash> hashes = Page(level, page);
    return {hashes.begin(), hashes.end()};
  }

  const Hash& top() const { return top_; }
  const std::shared_ptr<TreePages>& pages() const { return pages_; }

 private:
  static constexpr std::size_t kLeastSlots = 4, kMostSlots = 256;  // 1 MiB
  struct Slot {
    std::size_t level = 0;
    std::uint64_t page = 0;
    std::vector<Hash> hashes;  // none: empty
  };

  // Valid until the next call.
  std::span<const Hash> Page(std::size_t level, std::uint64_t page) {
    // Levels use different parts of the cache, so a page and the pages above it rarely share a slot.
    Slot& slot = slots_[(page + level * (slots_.size() / 4)) % slots_.size()];
    if (slot.hashes.empty() || slot.level != level || slot.page != page) {
      std::vector<Hash> hashes = Fetch(level, page);
      slot = {level, page, std::move(hashes)};
    }
    return slot.hashes;
  }

  // Takes a page from the first place where its hash is the node above it.
  std::vector<Hash> Fetch(std::size_t level, std::uint64_t page) {
    const std::uint64_t first = page * kPageFanout;
    std::vector<Hash> hashes(std::min<std::uint64_t>(kPageFanout, counts_[level] - first));
    if (pages_->IsLost(level, page)) return hashes;
    const Hash above = level + 2 == counts_.size() ? top_ : Page(level + 1, page / kPageFanout)[page % kPageFanout];
    for (std::size_t attempt = 0; pages_->Read(level, page, attempt, hashes); ++attempt) {
      if (NodeOf(kind_, level + 1, page, BytesOf(hashes)) == above) return hashes;
    }
    throw StatusError(pages_->Gone());
  }

  const TreeKind kind_;
  const std::vector<std::uint64_t> counts_;
  const Hash top_;
  const std::shared_ptr<TreePages> pages_;
  std::mutex mutex_;  // for slots_
  std::vector<Slot> slots_;
};

Tree Tree::Build(TreeKind kind, const std::vector<Hash>& leaves, std::uint64_t bytes) {
  TreeBuilder builder(kind, leaves.size(), bytes, {});
  builder.Add(leaves);
  return builder.Finish();
}

Tree Tree::OfShape(TreeKind kind, std::uint64_t leaves, std::uint64_t bytes) {
  Tree tree(kind);
  tree.bytes_ = bytes;
  tree.counts_ = LevelCounts(kind, leaves);
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
  Tree tree = OfShape(kind, leaves, bytes);
  tree.levels_ = std::make_shared<const std::vector<std::vector<Hash>>>(std::move(levels));
  return tree;
}

Tree Tree::FromPages(TreeKind kind, std::uint64_t leaves, std::uint64_t bytes, const Hash& top,
                     std::shared_ptr<TreePages> pages) {
  Tree tree = OfShape(kind, leaves, bytes);
  tree.cache_ = std::make_shared<Cache>(tree, top, std::move(pages));
  return tree;
}

namespace {

// Some pages of level 0 as given; all others from the previous storage.
class PagesWith : public TreePages {
 public:
  PagesWith(std::shared_ptr<TreePages> others, KnownPages given)
      : others_(std::move(others)), given_(std::move(given)) {}

  bool Read(std::size_t level, std::uint64_t page, std::size_t attempt, std::span<Hash> to) override {
    const auto at = level == 0 ? given_.find(page) : given_.end();
    if (at == given_.end()) return others_->Read(level, page, attempt, to);
    std::copy_n(at->second.begin(), std::min(to.size(), at->second.size()), to.begin());
    return attempt == 0;
  }
  bool IsLost(std::size_t level, std::uint64_t page) const override {
    return !(level == 0 && given_.contains(page)) && others_->IsLost(level, page);
  }
  Status Gone() const override { return others_->Gone(); }

 private:
  const std::shared_ptr<TreePages> others_;
  const KnownPages given_;
};

}  // namespace

Tree Tree::WithPages(KnownPages pages) const {
  Tree tree = *this;
  if (cache_) {
    auto with = std::make_shared<PagesWith>(cache_->pages(), std::move(pages));
    tree.cache_ = std::make_shared<Cache>(tree, cache_->top(), std::move(with));
  } else if (levels_) {
    std::vector<std::vector<Hash>> levels = *levels_;
    for (const auto& [page, hashes] : pages) std::ranges::copy(hashes, levels[0].begin() + page * kPageFanout);
    tree.levels_ = std::make_shared<const std::vector<std::vector<Hash>>>(std::move(levels));
  }
  return tree;
}

Hash Tree::node(std::size_t level, std::uint64_t index) const {
  return cache_ ? cache_->Node(level, index) : (*levels_)[level][index];
}

Status Tree::ForEachPiece(std::size_t level,
                          const std::function<Status(std::uint64_t, std::span<const Hash>)>& fn) const {
  if (!cache_) return fn(0, (*levels_)[level]);
  constexpr std::uint64_t kNodes = 64 * kPageFanout;  // 256 KiB
  return NoThrow([&]() -> Status {
    std::vector<Hash> piece;
    for (std::uint64_t first = 0; first < counts_[level]; first += piece.size()) {
      piece.clear();
      while (piece.size() < kNodes && first + piece.size() < counts_[level]) {
        const std::vector<Hash> hashes = cache_->PageAt(level, (first + piece.size()) / kPageFanout);
        piece.insert(piece.end(), hashes.begin(), hashes.end());
      }
      LZY_RETURN_IF_ERROR(fn(first, piece));
    }
    return Status::Ok();
  });
}

std::vector<Hash> Tree::NodesOf(std::size_t level) const {
  std::vector<Hash> all;
  for (std::uint64_t first = 0; first < counts_[level]; first = all.size()) {
    const std::vector<Hash> page = PageOf(level, first / FanoutOf(kind_));
    all.insert(all.end(), page.begin(), page.end());
  }
  return all;
}

Hash Tree::Root() const {
  return RootOf(kind_, leaf_count(), bytes_, counts_.empty() ? Hash{} : node(counts_.size() - 1, 0));
}

std::vector<Hash> Tree::PageOf(std::size_t level, std::uint64_t page) const {
  if (cache_) return cache_->PageAt(level, page);
  const std::size_t fanout = FanoutOf(kind_);
  const std::vector<Hash>& nodes = (*levels_)[level];
  const std::uint64_t first = page * fanout;
  return {nodes.begin() + first, nodes.begin() + std::min<std::uint64_t>(first + fanout, nodes.size())};
}

Tree::Proof Tree::Prove(std::uint64_t index) const {
  assert(index < leaf_count());
  Proof proof{index, leaf_count(), bytes_, {}};
  const std::size_t fanout = FanoutOf(kind_);
  // The top level needs no page: its only hash follows from the page below it.
  const std::size_t page_levels = std::max<std::size_t>(counts_.size() - 1, 1);
  std::uint64_t node = index;
  for (std::size_t level = 0; level < page_levels; ++level) {
    node /= fanout;
    proof.pages.push_back(PageOf(level, node));
  }
  return proof;
}

std::optional<Hash> Tree::RootFrom(TreeKind kind, const Proof& proof, const Hash& leaf) {
  if (proof.leaf_count > kMaxLeaves || proof.index >= proof.leaf_count) return std::nullopt;
  const std::size_t fanout = FanoutOf(kind);
  const std::vector<std::uint64_t> counts = LevelCounts(kind, proof.leaf_count);
  if (proof.pages.size() != std::max<std::size_t>(counts.size() - 1, 1)) return std::nullopt;

  // From the bottom up: each page must have the size that follows from the leaf count, and contain the known hash at the
  // right place. Then its own hash is known.
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

// ------------------------------------------------------------------------------------------------------------ building

// Pages in a file without a name. Levels lie one after the other.
class TreeBuilder::ScratchPages : public TreePages {
 public:
  ScratchPages(std::unique_ptr<File> file, const std::vector<std::uint64_t>& counts) : file_(std::move(file)) {
    std::uint64_t at = 0;
    for (const std::uint64_t count : counts) {
      begin_.push_back(at);
      at += count * sizeof(Hash);
    }
  }

  Status Write(std::size_t level, std::uint64_t page, std::span<const Hash> nodes) {
    return file_->WriteAt(PlaceOf(level, page), BytesOf(nodes));
  }
  bool Read(std::size_t level, std::uint64_t page, std::size_t attempt, std::span<Hash> to) override {
    // The second attempt is past the page cache.
    if (attempt > 1) return false;
    const auto got = attempt == 0 ? file_->ReadAt(PlaceOf(level, page), WritableBytesOf(to))
                                  : file_->ReadAtUncached(PlaceOf(level, page), WritableBytesOf(to));
    if (!got.ok()) std::ranges::fill(to, Hash());
    return true;
  }
  bool IsLost(std::size_t, std::uint64_t) const override { return false; }
  Status Gone() const override {
    return {Code::kIo, fmt::format("{}: hashes that were stored there read back wrong", file_->path())};
  }

 private:
  std::uint64_t PlaceOf(std::size_t level, std::uint64_t page) const {
    return begin_[level] + page * kPageFanout * sizeof(Hash);
  }
  const std::unique_ptr<File> file_;
  std::vector<std::uint64_t> begin_;
};

TreeBuilder::TreeBuilder(TreeKind kind, std::uint64_t leaves, std::uint64_t bytes, const ScratchMaker& scratch)
    : tree_(Tree::OfShape(kind, leaves, bytes)), open_(tree_.counts_.size()), done_(tree_.counts_.size()),
      levels_(tree_.counts_.size()) {
  // Pages of a binary tree have two hashes: not worth a file.
  if (leaves <= MostLeavesInMemory() || kind == TreeKind::kDataset || !scratch) return;
  if (auto file = scratch()) scratch_ = std::make_shared<ScratchPages>(std::move(file), tree_.counts_);
}

TreeBuilder::~TreeBuilder() = default;

void TreeBuilder::AddTo(std::size_t level, std::span<const Hash> nodes) {
  const std::size_t fanout = Tree::FanoutOf(tree_.kind_);
  std::vector<Hash>& open = open_[level];
  while (!nodes.empty()) {
    const std::size_t count = std::min(nodes.size(), fanout - open.size());
    open.insert(open.end(), nodes.begin(), nodes.begin() + count);
    nodes = nodes.subspan(count);
    if (open.size() == fanout) PutPage(level);
  }
}

// The last level has one node, which has no parent.
void TreeBuilder::PutPage(std::size_t level) {
  const std::uint64_t page = done_[level]++;
  const std::vector<Hash> nodes = std::exchange(open_[level], {});
  Store(level, page, nodes);
  if (level + 1 == open_.size()) {
    top_ = nodes[0];
    return;
  }
  const Hash above = Tree::NodeOf(tree_.kind_, level + 1, page, BytesOf(nodes));
  AddTo(level + 1, {&above, 1});
}

void TreeBuilder::Store(std::size_t level, std::uint64_t page, std::span<const Hash> nodes) {
  if (!scratch_) {
    levels_[level].insert(levels_[level].end(), nodes.begin(), nodes.end());
  } else if (!scratch_->Write(level, page, nodes).ok()) {
    TakeBack(level, nodes);
  }
}

// The file cannot be written, perhaps because the disk is full. Moves its contents to memory, from the top down, so that
// each page is proven by the node above it. `last`: the last page of level `unwritten`, which is not in the file.
void TreeBuilder::TakeBack(std::size_t unwritten, std::span<const Hash> last) {
  const std::shared_ptr<ScratchPages> scratch = std::move(scratch_);
  for (std::size_t level = open_.size(); level-- > 0;) {
    std::vector<Hash>& nodes = levels_[level];
    const std::uint64_t pages = done_[level] - (level == unwritten ? 1 : 0);
    for (std::uint64_t page = 0; page < pages; ++page) {
      std::vector<Hash> hashes(std::min<std::uint64_t>(kPageFanout, tree_.counts_[level] - page * kPageFanout));
      scratch->Read(level, page, 0, hashes);
      // The only node of the last level is never written to the file, so it was not read from there.
      const std::vector<Hash>& above = levels_[level + 1];
      const Hash& node = page < above.size() ? above[page] : open_[level + 1][page - above.size()];
      if (Tree::NodeOf(tree_.kind_, level + 1, page, BytesOf(hashes)) != node) throw StatusError(scratch->Gone());
      nodes.insert(nodes.end(), hashes.begin(), hashes.end());
    }
    if (level == unwritten) nodes.insert(nodes.end(), last.begin(), last.end());
  }
}

Tree TreeBuilder::Finish() {
  for (std::size_t level = 0; level < open_.size(); ++level) {
    if (!open_[level].empty()) PutPage(level);
    assert(done_[level] == CeilDiv(tree_.counts_[level], Tree::FanoutOf(tree_.kind_)));
  }
  if (tree_.counts_.empty()) return std::move(tree_);
  if (scratch_) return Tree::FromPages(tree_.kind_, tree_.leaf_count(), tree_.bytes_, top_, std::move(scratch_));
  tree_.levels_ = std::make_shared<const std::vector<std::vector<Hash>>>(std::move(levels_));
  return std::move(tree_);
}

}  // namespace lzy
