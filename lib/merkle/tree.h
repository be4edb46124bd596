#pragma once
// Merkle trees over block hashes (docs/format.md §3).
//
// encode/ builds them from leaves, sidecar/ stores and loads them, judge/ and repair/ compare blocks with their leaves. A
// tree does not depend on blocks or files.
//
// Level 0 has the leaves. Node i of level l+1 is the hash, tagged with its level and index, of the concatenated
// children [i*fanout, (i+1)*fanout) of level l, as many as exist. The last level is the first that has at most one
// node. A *page* is the children of one node: fanout * 16 bytes, 4 KiB for files and parity regions (fanout 256). The
// small tree over the members of a set is binary, so a path through it has O(log p) hashes. The root binds the numbers
// of leaves and of bytes, and the top hash. The top hash of a single leaf is that leaf.
//
// The leaf of a block without bytes (a hole between parity units) is the all-zero hash.
//
// A small tree is held in memory: 16 bytes for each block, plus one 256th of that. Of a large tree, only some pages are in
// memory. The others are in a file (TreePages): in the sidecar that it was loaded from, or, during a commit, in a file
// without a name. Every page that is read is proven by the node above it. So memory does not grow with the file.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "merkle/hash.h"

namespace lzy {

enum class TreeKind { kData, kParity, kDataset };

inline constexpr std::size_t kPageFanout = 256;

/// Trees with more leaves than this are not held in memory: 4 MiB of hashes, 16 GiB of data in blocks of 64 KiB.
inline constexpr std::uint64_t kMostLeavesInMemory = std::uint64_t{1} << 18;
/// The limit of this process, at least 1. Tests lower it to use large trees with little data.
std::uint64_t MostLeavesInMemory();
void SetMostLeavesInMemory(std::uint64_t leaves);

/// Makes a file for data that do not fit in memory; null if there is no place for one. The file has no name, and ends with
/// the object. An empty function counts as null.
using ScratchMaker = std::function<std::unique_ptr<File>()>;

/// The storage of the pages of a large tree. Thread-safe.
class TreePages {
 public:
  virtual ~TreePages() = default;
  /// Reads page `page` of `level` from the first place that may have it (`attempt` 0), or from a further one. If the place
  /// cannot be read, the content of `to` is undefined, because the tree checks it. False: there are no more places.
  virtual bool Read(std::size_t level, std::uint64_t page, std::size_t attempt, std::span<Hash> to) = 0;
  /// True if it is known that the page is lost. Then its hashes are zero, and are not checked.
  virtual bool IsLost(std::size_t level, std::uint64_t page) const = 0;
  /// The error if no place has a page any more.
  virtual Status Gone() const = 0;
};

/// Pages of level 0, by number.
using KnownPages = std::map<std::uint64_t, std::vector<Hash>>;

/// A value; copies are cheap, because they share their hashes. Const methods are thread-safe. Functions that read hashes of
/// a large tree throw StatusError if no place has a page any more: kBusy for the pages of a sidecar, which another process
/// may have committed meanwhile, kIo for others.
class Tree {
 public:
  /// An empty tree: no leaves, no bytes.
  explicit Tree(TreeKind kind = TreeKind::kData) : kind_(kind) {}

  /// A tree over `leaves`, which stand for `bytes` bytes of a file or region. It is held in memory.
  static Tree Build(TreeKind kind, const std::vector<Hash>& leaves, std::uint64_t bytes);
  /// A tree with a shape but without hashes: do not ask for any.
  static Tree OfShape(TreeKind kind, std::uint64_t leaves, std::uint64_t bytes);
  /// A tree from stored levels (level 0 first). kCorrupt if their sizes do not fit together. Hashes are not checked;
  /// the caller does that, page by page (NodeOf).
  static Result<Tree> FromLevels(TreeKind kind, std::vector<std::vector<Hash>> levels, std::uint64_t bytes);
  /// A tree in pages. `top` is the only hash of the last level.
  static Tree FromPages(TreeKind kind, std::uint64_t leaves, std::uint64_t bytes, const Hash& top,
                        std::shared_ptr<TreePages> pages);
  /// The same tree with other pages of level 0, to add lost pages when they are known. The caller has proven them by the
  /// nodes above, which stay.
  Tree WithPages(KnownPages pages) const;

  std::uint64_t leaf_count() const { return counts_.empty() ? 0 : counts_[0]; }
  std::uint64_t bytes() const { return bytes_; }
  /// True if its pages are in a file.
  bool is_large() const { return cache_ != nullptr; }
  /// Numbers of nodes by level, level 0 first.
  const std::vector<std::uint64_t>& counts() const { return counts_; }
  Hash leaf(std::uint64_t index) const { return node(0, index); }
  Hash node(std::size_t level, std::uint64_t index) const;
  /// Calls fn(number of the first, hashes) for all nodes of a level, in ascending order: at once if the tree is held
  /// in memory, else in pieces of some pages. Stops at the first failure of fn. Does not throw StatusError, but
  /// returns it.
  Status ForEachPiece(std::size_t level, const std::function<Status(std::uint64_t, std::span<const Hash>)>& fn) const;
  /// The children of node `page` of `level` + 1. For the last level: its only hash.
  std::vector<Hash> PageOf(std::size_t level, std::uint64_t page) const;
  /// All nodes of a level, for small trees.
  std::vector<Hash> NodesOf(std::size_t level) const;
  Hash Root() const;

  /// The proof of one leaf: the pages from that of the leaf up to the top one. If a tree has only one leaf, that leaf is
  /// the only page.
  struct Proof {
    std::uint64_t index = 0;
    std::uint64_t leaf_count = 0;
    std::uint64_t bytes = 0;
    std::vector<std::vector<Hash>> pages;  ///< bottom first; pages[0] contains the leaf
    LZY_FIELDS(index, leaf_count, bytes, pages)
  };
  Proof Prove(std::uint64_t index) const;  ///< precondition: index < leaf_count()
  /// The root that follows from `leaf` and the proof; nullopt if the proof is malformed or not of this leaf. `leaf` is leaf
  /// `proof.index` of the tree. The proof may be hostile: nothing is read out of bounds.
  static std::optional<Hash> RootFrom(TreeKind kind, const Proof& proof, const Hash& leaf);

  static std::size_t FanoutOf(TreeKind kind) { return kind == TreeKind::kDataset ? 2 : kPageFanout; }
  /// NodeOf: node `index` of `level` (>= 1), from the concatenated hashes of its children. RootOf: the root, from the top
  /// hash (zeros if there are no leaves). For callers that hold a tree in pieces (loading of sidecars).
  static Hash NodeOf(TreeKind kind, std::size_t level, std::uint64_t index, ByteSpan children);
  static Hash RootOf(TreeKind kind, std::uint64_t leaf_count, std::uint64_t bytes, const Hash& top);
  /// Node counts per level for a tree of `leaves` leaves, level 0 first; empty for no leaves, {1} for one.
  static std::vector<std::uint64_t> LevelCounts(TreeKind kind, std::uint64_t leaves);

 private:
  friend class TreeBuilder;
  class Cache;

  TreeKind kind_;
  std::uint64_t bytes_ = 0;
  std::vector<std::uint64_t> counts_;
  // One of these two; neither for a shape or without leaves.
  std::shared_ptr<const std::vector<std::vector<Hash>>> levels_;
  std::shared_ptr<Cache> cache_;
};

/// Builds a tree from leaves that are added in order. A large tree goes to a file.
class TreeBuilder {
 public:
  /// `leaves`: number of leaves that will be added. If `scratch` makes no file, or the file cannot be written, the tree is
  /// held in memory, whatever its size.
  TreeBuilder(TreeKind kind, std::uint64_t leaves, std::uint64_t bytes, const ScratchMaker& scratch);
  ~TreeBuilder();
  TreeBuilder(const TreeBuilder&) = delete;
  TreeBuilder& operator=(const TreeBuilder&) = delete;

  /// Adds the next leaves. Throws std::bad_alloc, and StatusError if the file reads back wrong.
  void Add(std::span<const Hash> leaves) { AddTo(0, leaves); }
  /// Precondition: all announced leaves were added.
  Tree Finish();

 private:
  class ScratchPages;
  void AddTo(std::size_t level, std::span<const Hash> nodes);
  void PutPage(std::size_t level);
  void Store(std::size_t level, std::uint64_t page, std::span<const Hash> nodes);
  void TakeBack(std::size_t unwritten, std::span<const Hash> last);

  Tree tree_;
  Hash top_;
  std::vector<std::vector<Hash>> open_;      // by level: nodes of the incomplete page
  std::vector<std::uint64_t> done_;          // by level: complete pages
  std::vector<std::vector<Hash>> levels_;    // in memory
  std::shared_ptr<ScratchPages> scratch_;    // alternatively, in a file
};

/// The bytes of hashes, in stored form.
inline ByteSpan BytesOf(std::span<const Hash> hashes) {
  return {reinterpret_cast<const std::uint8_t*>(hashes.data()), hashes.size_bytes()};
}
inline MutableByteSpan WritableBytesOf(std::span<Hash> hashes) {
  return {reinterpret_cast<std::uint8_t*>(hashes.data()), hashes.size_bytes()};
}

}  // namespace lzy
