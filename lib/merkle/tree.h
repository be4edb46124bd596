#pragma once
// Merkle trees over block hashes (docs/format.md "Trees").
//
// Level 0 are the leaves; node i of level l+1 is the hash, tagged with its level and index, of the concatenated
// children [i*fanout, (i+1)*fanout) of level l, as many as exist. Levels end with the first that has at most one node.
// A page is one node's children: fanout * 16 bytes, 4 KiB for files and parity regions (fanout 256); the small tree
// over the members of a set is binary, so that a path through it has O(log p) hashes. The root binds the number of
// leaves and of bytes: HashBytes(root tag, 0, le64 leaves, le64 bytes, top hash or zeros), where the top hash of a
// single leaf is that leaf.
//
// A leaf of a block that has no bytes (a hole between parity units) is the all-zero hash.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "merkle/hash.h"

namespace lzy {

enum class TreeKind { kData, kParity, kDataset };

inline constexpr std::size_t kPageFanout = 256;

class Tree {
 public:
  explicit Tree(TreeKind kind = TreeKind::kData) : kind_(kind) {}

  /// A tree over `leaves`, which stand for `bytes` bytes.
  static Tree Build(TreeKind kind, std::vector<Hash> leaves, std::uint64_t bytes);
  /// A tree from stored levels (level 0 first), not checked: see CheckPage. kCorrupt if the counts do not fit.
  static Result<Tree> FromLevels(TreeKind kind, std::vector<std::vector<Hash>> levels, std::uint64_t bytes);

  std::uint64_t leaf_count() const { return levels_.empty() ? 0 : levels_[0].size(); }
  std::uint64_t bytes() const { return bytes_; }
  const Hash& leaf(std::uint64_t index) const { return levels_[0][index]; }
  std::span<const std::vector<Hash>> levels() const { return levels_; }
  Hash Root() const;

  /// Sets leaves and grows or shrinks the tree; interior nodes above changed leaves are recomputed, and only those.
  /// `leaves` has the new leaf count; `changed` names the leaves whose hash may differ, in any order (new ones are
  /// implied, those past the new end ignored).
  void Update(std::vector<Hash> leaves, std::span<const std::uint64_t> changed, std::uint64_t bytes);

  /// The pages from `index`'s page up to the top one: enough to prove one leaf with O(log) hashes. The only leaf of a
  /// tree is a page of its own.
  struct Proof {
    std::uint64_t index = 0;
    std::uint64_t leaf_count = 0;
    std::uint64_t bytes = 0;
    std::vector<std::vector<Hash>> pages;  ///< bottom first; pages[0] contains the leaf
    LZY_FIELDS(index, leaf_count, bytes, pages)
  };
  Proof Prove(std::uint64_t index) const;  ///< precondition: index < leaf_count()
  /// True when `leaf` is leaf `proof.index` of the tree with this root. Never reads out of bounds, whatever is in
  /// proof.
  static bool Verify(TreeKind kind, const Proof& proof, const Hash& leaf, const Hash& root);

  /// The root that `leaf` and the proof lead to; none when the proof is malformed or not of this leaf. For whoever knows
  /// the root only as a part of another hash.
  static std::optional<Hash> RootFrom(TreeKind kind, const Proof& proof, const Hash& leaf);

  /// True when node `index` of `level` (>= 1) is the hash of its stored children.
  bool CheckPage(std::size_t level, std::uint64_t index) const;

  /// Calls `visit(leaf index)` for every leaf that differs, ascending, descending only into branches whose nodes differ
  /// (leaves present in one tree only count as different). Returns the number of nodes compared. Precondition: the
  /// trees are of one kind.
  static std::uint64_t Compare(const Tree& a, const Tree& b, const std::function<void(std::uint64_t)>& visit);

  static std::size_t FanoutOf(TreeKind kind) { return kind == TreeKind::kDataset ? 2 : kPageFanout; }
  /// Node `index` of `level` (>= 1) from the concatenated hashes of its children; and the root from the top hash (zeros
  /// when there are no leaves). For whoever holds a tree in pieces.
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
