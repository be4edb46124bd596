#pragma once
// XOR among ranks that share a node, through memory that they share. There are no messages, and a rank that waits
// sleeps. MpiCommunicator uses it if all ranks of a communicator can, unless option `exchange` names another way
// (docs/performance/exchange.md, "The rule").
//
// Why not MPI_Win_allocate_shared: if shared memory is short, a window of MPICH 4.0 ends the program with SIGBUS at
// the first touch, and making one with Open MPI 4.1 never returns. Freeing one is collective. Here, having no memory
// is an error that is seen while there is another way, and freeing concerns no other rank.
//
// The memory is a memfd of rank 0, which the others open through /proc. It has one part for each rank: a Post, and slots
// with the rank's data for each of the others. Only the rank itself writes its part.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/exchange_way.h"
#include "comm/communicator.h"

namespace lzy {

/// The shared memory of one communicator. One thread of a rank uses it at a time.
class SharedExchange {
 public:
  /// Makes and maps the memory: about `memory` bytes for each rank. nullptr on all ranks unless every rank can map the
  /// memory of rank 0 and has room for its own part. Reasons are another node, no memory left, or a system that forbids it.
  /// `comm` has two or more ranks; it is not used afterwards. A waiting rank calls `idle` now and then, because a peer may
  /// still be in an MPI call that needs progress of this process. An error concerns the communication. Collective over
  /// `comm`.
  static Result<std::unique_ptr<SharedExchange>> Make(Communicator& comm, std::function<void()> idle,
                                                      std::uint64_t memory = kMemory);
  /// The same, and replaces `way` on the other ranks by that of rank 0, with the same message. nullptr on all ranks if that
  /// way does not use shared memory.
  static Result<std::unique_ptr<SharedExchange>> Make(Communicator& comm, ExchangeWay& way, std::function<void()> idle,
                                                      std::uint64_t memory = kMemory);
  /// Unmaps the memory. Local: other ranks keep theirs.
  ~SharedExchange();
  SharedExchange(const SharedExchange&) = delete;
  SharedExchange& operator=(const SharedExchange&) = delete;

  /// As Communicator::ReduceScatterXor; `counts` has a count for every rank. It cannot fail, so no rank is left
  /// waiting by an error. If a rank dies, the others wait forever. Collective.
  void ReduceScatterXor(const std::uint64_t* send, std::uint64_t* receive, std::span<const std::uint64_t> counts);

  /// Bytes for each rank.
  static constexpr std::uint64_t kMemory = std::uint64_t{2} << 20;

 private:
  struct Post;

  SharedExchange(int rank, int size, std::uint64_t memory, std::function<void()> idle);
  /// Bytes of one rank's part, its Post included.
  std::uint64_t PartBytes() const;
  /// Maps the memory, and makes this rank's Post in it. False if there is no room.
  bool Map(int descriptor);

  Post& PostOf(std::size_t rank) const;
  /// The slot in which rank `from` puts its data for rank `to` in a round.
  std::uint64_t* Slot(std::uint32_t round, std::size_t from, std::size_t to) const;
  /// Number of words in the next round of a part of `count` words, after `done` words.
  std::uint64_t Words(std::uint64_t count, std::uint64_t done) const {
    return count <= done ? 0 : std::min(step_, count - done);
  }
  /// Announces that this rank's slots are filled for `round`, and wakes ranks that wait for it.
  void Announce(std::uint32_t round);
  /// Returns when `rank` has filled its slots for `round`.
  void Await(std::uint32_t round, std::size_t rank);
  /// Copies the words from `done` on of this rank's data for the others to its slots, and announces the round.
  void Fill(std::uint32_t round, std::uint64_t done, const std::uint64_t* send, std::span<const std::uint64_t> counts);
  /// Adds up the data of all ranks for this one in a round into `receive`: `words` words, this rank's own at `own`.
  void Fetch(std::uint32_t round, std::uint64_t words, const std::uint64_t* own, std::uint64_t* receive);

  const std::size_t rank_;
  const std::size_t size_;
  const std::uint64_t step_;  // words a rank brings for each of the others in one round
  const std::function<void()> idle_;
  std::uint8_t* base_ = nullptr;  // of the mapping: part r is at r * PartBytes()
  std::uint32_t round_ = 0;       // the last that was filled, over all calls; it may wrap around
};

}  // namespace lzy
