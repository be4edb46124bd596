#pragma once
// Merkle trees over block hashes (docs/format.md §3).
//
// encode/ builds them from leaves, sidecar/ stores and loads them, judge/ and mend/ compare blocks with their leaves. A
// tree holds all of its levels in memory: 16 bytes for each block and a 256th more. It knows nothing of blocks or
// files.
//
// Level 0 has the leaves. Node i of level l+1 is the hash, tagged with its level and index, of the concatenated
// children [i*fanout, (i+1)*fanout) of level l, as many as exist. The last level is the first that has at most one
// node. A *page* is the children of one node: fanout * 16 bytes, 4 KiB for files and parity regions (fanout 256). The
// small tree over the members of a set is binary, so a path through it has O(log p) hashes. The root binds the numbers
// of leaves and of bytes, and the top hash. The top hash of a single leaf is that leaf.
//
// The leaf of a block without bytes (a hole between parity units) is the all-zero hash.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "merkle/hash.h"

namespace lzy {

enum class TreeKind { kData, kParity, kDataset };

inline constexpr std::size_t kPageFanout = 256;

/// Const methods are thread-safe. Invariant: the levels have the sizes of LevelCounts. Whether nodes are the hashes of
/// their children is guaranteed by Build and Update, not by FromLevels.
class Tree {
 public:
  /// An empty tree: no leaves, no bytes.
  explicit Tree(TreeKind kind = TreeKind::kData) : kind_(kind) {}

  /// A tree over `leaves`, which stand for `bytes` bytes of a file or region.
  static Tree Build(TreeKind kind, std::vector<Hash> leaves, std::uint64_t bytes);
  /// A tree from stored levels (level 0 first). kCorrupt if their sizes do not fit together. Hashes are not checked;
  /// the caller does that, page by page (NodeOf).
  static Result<Tree> FromLevels(TreeKind kind, std::vector<std::vector<Hash>> levels, std::uint64_t bytes);

  std::uint64_t leaf_count() const { return levels_.empty() ? 0 : levels_[0].size(); }
  std::uint64_t bytes() const { return bytes_; }
  const Hash& leaf(std::uint64_t index) const { return levels_[0][index]; }
  std::span<const std::vector<Hash>> levels() const { return levels_; }
  Hash Root() const;

  /// Replaces the leaves and grows or shrinks the tree. Only nodes above changed leaves are computed again. `leaves`:
  /// all leaves of the new tree. `changed`: numbers of the leaves whose hash may differ, in any order. New leaves are
  /// implied, numbers past the new end are ignored.
  void Update(std::vector<Hash> leaves, std::span<const std::uint64_t> changed, std::uint64_t bytes);

  /// Proves one leaf: the pages from that of the leaf up to the top one. If a tree has only one leaf, that leaf is the
  /// only page.
  struct Proof {
    std::uint64_t index = 0;
    std::uint64_t leaf_count = 0;
    std::uint64_t bytes = 0;
    std::vector<std::vector<Hash>> pages;  ///< bottom first; pages[0] contains the leaf
    LZY_FIELDS(index, leaf_count, bytes, pages)
  };
  Proof Prove(std::uint64_t index) const;  ///< precondition: index < leaf_count()
  /// The root to which `leaf` and the proof lead; nullopt if the proof is malformed or not of this leaf. `leaf` is leaf
  /// `proof.index` of the tree whose root this is. The proof may be hostile: nothing is read out of bounds, whatever it
  /// says.
  static std::optional<Hash> RootFrom(TreeKind kind, const Proof& proof, const Hash& leaf);

  static std::size_t FanoutOf(TreeKind kind) { return kind == TreeKind::kDataset ? 2 : kPageFanout; }
  /// Node `index` of `level` (>= 1), from the concatenated hashes of its children. And the root, from the top hash
  /// (zeros if there are no leaves). For callers that hold a tree in pieces (loading of sidecars).
  static Hash NodeOf(TreeKind kind, std::size_t level, std::uint64_t index, ByteSpan children);
  static Hash RootOf(TreeKind kind, std::uint64_t leaf_count, std::uint64_t bytes, const Hash& top);
  /// Node counts per level for a tree of `leaves` leaves, level 0 first; empty for no leaves, {1} for one.
  static std::vector<std::uint64_t> LevelCounts(TreeKind kind, std::uint64_t leaves);

 private:
  Hash NodeHash(std::size_t level, std::uint64_t index) const;
  TreeKind kind_;
  std::uint64_t bytes_ = 0;
  std::vector<std::vector<Hash>> levels_;
};

}  // namespace lzy
