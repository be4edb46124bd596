#include "sidecar/tree_loading.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/numbers.h"

namespace lzy {

Status ReadLenient(File& file, std::uint64_t offset, MutableByteSpan to) {
  std::fill(to.begin(), to.end(), std::uint8_t{0});
  Status failure;
  if (auto got = file.ReadAt(offset, to); !got.ok()) {
    // An error is said of the whole range. Read page by page, so that one bad sector does not hide its neighbours.
    for (std::size_t at = 0; at < to.size(); at += 4096) {
      MutableByteSpan piece = to.subspan(at, std::min<std::size_t>(4096, to.size() - at));
      const auto one = file.ReadAt(offset + at, piece);
      if (one.ok()) continue;
      std::fill(piece.begin(), piece.end(), std::uint8_t{0});
      if (failure.ok()) failure = one.status();
    }
  }
  return failure;
}

bool CopiesOfPages::Read(std::size_t level, std::uint64_t page, std::size_t attempt, std::span<Hash> to) {
  if (attempt >= copies_.size()) return false;
  const std::uint64_t begin = copies_[attempt][level];
  if (begin == kNowhere) {
    std::ranges::fill(to, Hash());
  } else {
    (void)ReadLenient(*file_, begin + page * kPageFanout * sizeof(Hash), WritableBytesOf(to));
  }
  return true;
}

Status CopiesOfPages::Gone() const {
  return {Code::kBusy,
          fmt::format("{}: its hashes can no longer be read: somebody has committed meanwhile, or the device failed",
                      file_->path())};
}

void TreeResolver::FindLevels(const std::vector<const std::vector<Extent>*>& copies, ExtentKind extent_kind,
                              std::vector<bool>& copy_whole) {
  for (std::size_t c = 0; c < copies.size(); ++c) {
    if (copies[c] == nullptr) continue;
    Copy& copy = copies_.emplace_back(Copy{c, {}});
    for (std::size_t level = 0; level < counts_.size(); ++level) {
      const Extent* e = FindExtent(*copies[c], extent_kind, level);
      const bool fits = e != nullptr && e->length == counts_[level] * sizeof(Hash);
      copy.levels.push_back(fits ? e->offset : CopiesOfPages::kNowhere);
      if (!fits) copy_whole[c] = false;
    }
  }
}

bool TreeResolver::Refer(const std::vector<const std::vector<Extent>*>& copies, ExtentKind extent_kind) {
  if (counts_.empty()) return true;
  std::vector<bool> copy_whole(copies.size());
  std::vector<MetadataDamage> damage;
  FindLevels(copies, extent_kind, copy_whole);
  levels_.resize(counts_.size());
  large_ = true;
  ResolvePages(counts_.size() - 1, 0, 1, copy_whole, damage);
  if (!lost_.empty()) return false;
  SeeSoFar();
  return true;
}

void TreeResolver::Resolve(const std::vector<const std::vector<Extent>*>& copies, ExtentKind extent_kind,
                           std::vector<bool>& copy_whole, std::vector<MetadataDamage>& damage) {
  FindLevels(copies, extent_kind, copy_whole);
  levels_.resize(counts_.size());
  for (std::size_t level = counts_.size(); level-- > 0;) {
    const std::uint64_t pages = level + 1 == counts_.size() ? 1 : counts_[level + 1];
    for (std::uint64_t page = 0; page < pages; page += kPagesAtOnce) {
      ResolvePages(level, page, std::min(pages, page + kPagesAtOnce), copy_whole, damage);
    }
    if (large_) SeeSoFar();
  }
  for (std::uint64_t page = 0; !lost_.empty() && page < CeilDiv(counts_[0], kPageFanout); ++page) {
    if (!lost_.contains({0, page})) continue;
    const std::uint64_t end = std::min(counts_[0], (page + 1) * kPageFanout);
    for (std::uint64_t i = page * kPageFanout; i < end; ++i) unknown_.push_back(i);
  }
}

Result<Tree> TreeResolver::Take() {
  if (large_) return std::move(tree_);
  return Tree::FromLevels(kind_, std::move(levels_), bytes_);
}

// Examines every copy, even if a page is known already, so that all damage is reported and repaired. A page below an unknown
// one cannot be proven, so it is unknown, too.
void TreeResolver::ResolvePages(std::size_t level, std::uint64_t begin, std::uint64_t end,
                                std::vector<bool>& copy_whole, std::vector<MetadataDamage>& damage) {
  const bool top = level + 1 == counts_.size();
  const std::uint64_t first_node = begin * kPageFanout, end_node = std::min(counts_[level], end * kPageFanout);
  std::vector<bool> known(end - begin);
  std::vector<Hash> nodes(end_node - first_node);  // zeros where unknown
  std::vector<Hash> stored(nodes.size());
  for (const Copy& copy : copies_) {
    if (copy.levels[level] == CopiesOfPages::kNowhere) continue;
    const std::uint64_t at = copy.levels[level] + first_node * sizeof(Hash);
    (void)ReadLenient(*file_, at, WritableBytesOf(stored));
    for (std::uint64_t page = begin; page < end; ++page) {
      const std::uint64_t first = page * kPageFanout - first_node;
      const auto hashes = std::span(stored).subspan(first, std::min<std::uint64_t>(kPageFanout, stored.size() - first));
      const bool known_above = top || !lost_.contains({level + 1, page / kPageFanout});
      if (!known_above || !Matches(level, page, hashes, top)) {
        copy_whole[copy.number] = false;
        damage.push_back({at + first * sizeof(Hash), hashes.size_bytes(), "hash page"});
      } else if (!known[page - begin]) {
        std::ranges::copy(hashes, nodes.begin() + first);
        known[page - begin] = true;
      }
    }
  }
  for (std::uint64_t page = begin; page < end; ++page) {
    if (!known[page - begin]) lost_.emplace(level, page);
  }
  if (top) top_ = nodes[0];
  if (!large_) levels_[level].insert(levels_[level].end(), nodes.begin(), nodes.end());
}

// Whether these hashes are that page. The top level is not below a node; the root binds its only hash.
bool TreeResolver::Matches(std::size_t level, std::uint64_t page, std::span<const Hash> hashes, bool top) const {
  if (top) return Tree::RootOf(kind_, counts_[0], bytes_, hashes[0]) == root_;
  const Hash above = large_ ? tree_.node(level + 1, page) : levels_[level + 1][page];
  return Tree::NodeOf(kind_, level + 1, page, BytesOf(hashes)) == above;
}

// A large tree with the levels that have been resolved so far.
void TreeResolver::SeeSoFar() {
  std::vector<CopiesOfPages::Places> places;
  for (const Copy& copy : copies_) places.push_back(copy.levels);
  tree_ = Tree::FromPages(kind_, counts_[0], bytes_, top_,
                          std::make_shared<CopiesOfPages>(file_, std::move(places), lost_));
}

void Sidecar::ReadPagesFrom(std::uint32_t first, SidecarContents& contents) const {
  const auto refer = [&](TreeKind kind, ExtentKind levels, Tree& tree) {
    if (!tree.is_large()) return;
    std::vector<CopiesOfPages::Places> copies;
    for (std::uint32_t c = first; c < extents_.size(); ++c) {
      CopiesOfPages::Places& places = copies.emplace_back();
      for (std::size_t level = 0; level < tree.counts().size(); ++level) {
        const Extent* e = FindExtent(extents_[c], levels, level);
        places.push_back(e == nullptr ? CopiesOfPages::kNowhere : e->offset);
      }
    }
    const Hash top = tree.node(tree.counts().size() - 1, 0);
    tree = Tree::FromPages(kind, tree.leaf_count(), tree.bytes(), top,
                           std::make_shared<CopiesOfPages>(file_, std::move(copies), std::set<PageId>()));
  };
  refer(TreeKind::kData, ExtentKind::kDataLevel, contents.data_tree);
  refer(TreeKind::kParity, ExtentKind::kParityLevel, contents.parity_tree);
}

}  // namespace lzy
