#pragma once
// The leaves that one rank makes during an encoding or a repair, by block, and the functions that gather them.
//
// encode/encode and repair/ set leaves from several threads. GatherLeaves sends the leaves of all ranks to the rank that
// writes the sidecar, and MakeTree makes a tree of them. Leaves are held in pages of 256. If there are too many for memory,
// pages go to a file without a name, each with a hash. So a rank holds at most a few megabytes of leaves, however large the
// file is.

#include <array>
#include <bitset>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "comm/communicator.h"
#include "merkle/tree.h"

namespace lzy {

/// Move only. Set and Get are thread-safe. All functions may throw std::bad_alloc, and StatusError if leaves cannot be read
/// back from the file.
class Leaves {
 public:
  Leaves();
  ~Leaves();
  Leaves(Leaves&&) noexcept;
  Leaves& operator=(Leaves&&) noexcept;

  /// Prepares for `blocks` leaves; none is known yet. If `scratch` makes no file, all leaves stay in memory.
  void Init(std::uint64_t blocks, ScratchMaker scratch);
  std::uint64_t blocks() const { return blocks_; }
  /// Precondition: block < blocks().
  void Set(std::uint64_t block, const Hash& leaf);
  std::optional<Hash> Get(std::uint64_t block) const;
  /// Number of known leaves.
  std::uint64_t known() const;

  /// One page: the leaves of up to 256 blocks, and which of them are known. Unknown leaves are zero.
  struct Page {
    std::array<Hash, kPageFanout> leaves{};
    std::bitset<kPageFanout> known;
  };
  /// Page `number`: blocks from 256 * number on. All unknown if nothing was set. No Set may be under way.
  Page PageAt(std::uint64_t number) const;
  /// The first page from `number` on that has known leaves; nullopt if there is none. No Set may be under way.
  std::optional<std::uint64_t> NextPage(std::uint64_t number) const;

 private:
  class Pages;
  std::uint64_t blocks_ = 0;
  std::unique_ptr<Pages> pages_;
};

/// Adds the leaves that other ranks computed for a file to those of rank `root`. Other ranks keep their leaves. `blocks`:
/// number of blocks of the file and its parity region, the same on all ranks. Collective. A failure may affect one rank
/// only, so the caller must Agree on it.
Status GatherLeaves(Communicator& comm, int root, std::uint64_t blocks, Leaves& data, Leaves& parity);

/// Makes a tree. Each leaf is known, or zero if is_hole(block), or taken from the tree `old` if there is one. Returns
/// kInternal if a leaf is none of these: a block was forgotten, and the tree would claim a hash of bytes that nobody
/// hashed.
Status MakeTree(TreeKind kind, const Leaves& made, const Tree* old, std::uint64_t bytes,
                const std::function<bool(std::uint64_t block)>& is_hole, const ScratchMaker& scratch, Tree& tree);

}  // namespace lzy
