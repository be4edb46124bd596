#pragma once
// The hash tree of one message, and the descent from a root that differs to the leaves that differ. Both sides build a
// TransferTree of the same form over their bytes. The side that lacks data follows a Descent with hashes that it requests
// (dialogue.h). No MPI, no I/O; not thread-safe.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/interval_set.h"
#include "merkle/hash.h"

namespace lzy::validated {

/// A Merkle tree over the packed bytes of a message: leaves of `leaf_bytes`, nodes with up to kFanout children. The
/// hash of a leaf is seeded with its number, that of a node with its level and number. So a right leaf in a wrong
/// place has a wrong hash. The root is the top node; with a single leaf, that leaf; without bytes, zero. The form
/// follows from bytes() and leaf_bytes() alone.
///
/// Level 0 has the leaves. A new tree has zeros everywhere; Build() and Root() are valid when all leaves are set.
///
/// The fanout is smaller than that of the pages in merkle/tree.h. There, hashes are read from a disk; here they are
/// requested over the network. One bad leaf costs 16 hashes for each level.
class TransferTree {
 public:
  static constexpr std::size_t kFanout = 16;

  TransferTree() = default;
  TransferTree(std::uint64_t bytes, std::uint64_t leaf_bytes);

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t leaf_bytes() const { return leaf_bytes_; }
  /// Number of levels with leaves and root; 0 if there are no bytes.
  std::size_t levels() const { return levels_.size(); }
  /// Number of nodes of `level`.
  std::size_t Count(std::size_t level) const { return levels_[level].size(); }
  const Hash& node(std::size_t level, std::size_t index) const { return levels_[level][index]; }
  /// The hashes on level `level` - 1 below node `parent` of `level`, which is 1 or more. Valid as long as the tree exists.
  std::span<const Hash> Children(std::size_t level, std::size_t parent) const;
  /// The bytes of a leaf; the last leaf may be shorter than leaf_bytes().
  Interval LeafRange(std::size_t leaf) const;

  /// Sets the leaves of `bytes`, which lie at byte `offset` of the message. `offset` is a multiple of leaf_bytes().
  /// `bytes` are whole leaves, or end with the message. Leaves may be set in any order.
  void HashLeaves(std::uint64_t offset, ByteSpan bytes);
  /// Sets one leaf whose hash is known. The nodes above it are outdated until the next Build().
  void SetLeaf(std::size_t leaf, const Hash& hash) { levels_[0][leaf] = hash; }
  /// Computes all nodes from the leaves.
  void Build();
  Hash Root() const { return levels_.empty() ? Hash{} : levels_.back()[0]; }

  /// The hash of one leaf or node, without a tree.
  static Hash LeafOf(std::size_t leaf, ByteSpan bytes) { return HashBytes(HashTag::kTransferLeaf, leaf, bytes); }
  static Hash NodeOf(std::size_t level, std::size_t index, std::span<const Hash> children);

 private:
  std::uint64_t bytes_ = 0;
  std::uint64_t leaf_bytes_ = 1;
  std::vector<std::vector<Hash>> levels_;
};

/// The descent from a root to the leaves that differ. At each level it keeps the nodes that differ, with the hash that each
/// must have. The caller asks the peer for their children, and passes these to Take. Received hashes are compared with
/// their parent, which is proven already. So only the root must be trusted, and only hashes on the way are transferred.
class Descent {
 public:
  /// A node that differs, and the hash that it should have.
  struct Node {
    std::uint32_t index = 0;
    Hash expected;
  };

  /// `mine` is built, has the same form as the peer's tree, and must outlive this. Done at once if the roots are
  /// equal.
  Descent(const TransferTree& mine, const Hash& root);

  /// True if differing() are the leaves that differ, or nothing differs.
  bool done() const { return level_ == 0 || differing_.empty(); }
  /// The level of differing(), whose nodes are in ascending order. At the end, level 0.
  std::size_t level() const { return level_; }
  const std::vector<Node>& differing() const { return differing_; }

  /// How many children the nodes from differing()[from] to differing()[from + count - 1] have together.
  std::size_t ChildCount(std::size_t from, std::size_t count) const;
  /// Takes the children of these nodes, ChildCount(from, count) of them. If one of them does not have the hash that
  /// its parent demands, returns false and takes nothing; then ask again. Nodes are taken in order. With the last
  /// node of a level, the next level begins.
  bool Take(std::size_t from, std::size_t count, std::span<const Hash> children);

 private:
  const TransferTree& mine_;
  std::size_t level_ = 0;
  std::vector<Node> differing_;
  std::vector<Node> below_;
};

/// For messages: "bytes 0..4095, 8192..12287". Neighbours are joined; beyond 8 ranges only their number is given.
std::string RangesText(const std::vector<Interval>& ranges);

}  // namespace lzy::validated
