#pragma once
// The leaves that one rank makes during an encoding or a repair, by block, and how they get together.
//
// encode/encode and mend/ set them from several threads while blocks pass by. GatherLeaves brings those of all ranks to
// the rank that writes the sidecar, and MakeTree makes a tree of them. Leaves are held in pages of 256. If there are
// too many for memory, pages go to a file without a name, each with a hash of its own. So a rank holds at most a few
// megabytes of them, however large the file is, and nothing of blocks that it does not work on.

#include <array>
#include <bitset>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "comm/communicator.h"
#include "merkle/tree.h"

namespace lzy {

/// Move only. Set and Get are thread-safe. All functions may throw std::bad_alloc, and StatusError if what went to the
/// file cannot be read again.
class Leaves {
 public:
  Leaves();
  ~Leaves();
  Leaves(Leaves&&) noexcept;
  Leaves& operator=(Leaves&&) noexcept;

  /// For `blocks` leaves; none is known. Without a scratch file all stay in memory.
  void Init(std::uint64_t blocks, ScratchMaker scratch);
  std::uint64_t blocks() const { return blocks_; }
  /// Precondition: block < blocks().
  void Set(std::uint64_t block, const Hash& leaf);
  std::optional<Hash> Get(std::uint64_t block) const;
  /// How many are known.
  std::uint64_t known() const;

  /// One page: leaves of up to 256 blocks, and which of them are known. Others are zero.
  struct Page {
    std::array<Hash, kPageFanout> leaves{};
    std::bitset<kPageFanout> known;
  };
  /// Page `number`: blocks from 256 * number on. None of it is known if nothing was set. No Set may be under way.
  Page PageAt(std::uint64_t number) const;
  /// The first page from `number` on that has known leaves; nullopt if there is none. No Set may be under way.
  std::optional<std::uint64_t> NextPage(std::uint64_t number) const;

 private:
  class Pages;
  std::uint64_t blocks_ = 0;
  std::unique_ptr<Pages> pages_;
};

/// Brings the leaves that other ranks computed for a file to rank `root`, beside its own. Other ranks keep what they
/// have. `blocks`: how many blocks the file and its parity region have, the same on all ranks. Collective. A failure
/// may be one rank's alone, so the caller must Agree on it.
Status GatherLeaves(Communicator& comm, int root, std::uint64_t blocks, Leaves& data, Leaves& parity);

/// Makes a tree. A leaf is one of three kinds: known; zero, if is_hole(block); or that of the tree `old`, if there is
/// one. kInternal if a leaf is none of them: then a block was forgotten, and the tree would promise something about
/// bytes that nobody hashed.
Status MakeTree(TreeKind kind, const Leaves& made, const Tree* old, std::uint64_t bytes,
                const std::function<bool(std::uint64_t block)>& is_hole, const ScratchMaker& scratch, Tree& tree);

}  // namespace lzy
