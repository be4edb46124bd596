#pragma once
// The hashes of one transfer, and the way down from a root that differs to the leaves that do. Pure: no MPI.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/interval_set.h"
#include "merkle/hash.h"

namespace lzy::validated {

/// Over the packed bytes of a message: leaves of `leaf_bytes`, nodes of up to kFanout children, all seeded by place, so
/// that a leaf in another's place is a wrong one. The root is the top node (a single leaf itself; zero of no bytes); what
/// it is the root of, how many bytes in what leaves, goes with it in the announcement.
///
/// Narrower than the pages of merkle/tree.h, since what differs is fetched and not read: a bad leaf costs 16 hashes a level.
class TransferTree {
 public:
  static constexpr std::size_t kFanout = 16;

  TransferTree() = default;
  TransferTree(std::uint64_t bytes, std::uint64_t leaf_bytes);

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t leaf_bytes() const { return leaf_bytes_; }
  std::size_t levels() const { return levels_.size(); }  ///< 0: no bytes
  std::size_t Count(std::size_t level) const { return levels_[level].size(); }
  const Hash& node(std::size_t level, std::size_t index) const { return levels_[level][index]; }
  /// Of node `parent` of `level` (>= 1).
  std::span<const Hash> Children(std::size_t level, std::size_t parent) const;
  Interval LeafRange(std::size_t leaf) const;

  /// Hashes whole leaves (the last of all may be short) that begin at byte `offset`.
  void HashLeaves(std::uint64_t offset, ByteSpan bytes);
  void SetLeaf(std::size_t leaf, const Hash& hash) { levels_[0][leaf] = hash; }
  /// Makes all nodes from the leaves.
  void Build();
  Hash Root() const { return levels_.empty() ? Hash{} : levels_.back()[0]; }

  static Hash LeafOf(std::size_t leaf, ByteSpan bytes) { return HashBytes(HashTag::kTransferLeaf, leaf, bytes); }
  static Hash NodeOf(std::size_t level, std::size_t index, std::span<const Hash> children);

 private:
  std::uint64_t bytes_ = 0;
  std::uint64_t leaf_bytes_ = 1;
  std::vector<std::vector<Hash>> levels_;
};

/// Leads from a root to the leaves that differ, by the hashes that are needed for that and no others.
class Descent {
 public:
  struct Node {
    std::uint32_t index = 0;
    Hash expected;
  };

  /// `mine`, which is built and must outlive this, against the root of a tree of the same form.
  Descent(const TransferTree& mine, const Hash& root);

  bool done() const { return level_ == 0 || differing_.empty(); }
  /// The level of the nodes that are known to differ, by ascending index.
  std::size_t level() const { return level_; }
  const std::vector<Node>& differing() const { return differing_; }

  /// How many children the nodes `from`.. `from + count` - 1 of differing() have.
  std::size_t ChildCount(std::size_t from, std::size_t count) const;
  /// The children of these nodes, as many as ChildCount says. False, and nothing taken, unless all of them are what their parents are
  /// hashes of. Nodes are taken in order; with the last of a level the next begins.
  bool Take(std::size_t from, std::size_t count, std::span<const Hash> children);

 private:
  const TransferTree& mine_;
  std::size_t level_ = 0;
  std::vector<Node> differing_;
  std::vector<Node> below_;
};

/// "bytes 0..4095, 8192..12287", of not too many: "... and 12 more".
std::string RangesText(const std::vector<Interval>& ranges);

}  // namespace lzy::validated
