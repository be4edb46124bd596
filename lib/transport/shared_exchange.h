#pragma once
// XOR among ranks that share a node, through memory that they share: no messages, and who waits sleeps.
//
// Not MPI_Win_allocate_shared: where shared memory is short, a window of MPICH 4.0 ends the program with SIGBUS at the
// first touch, and making one with Open MPI 4.1 never returns; freeing one is collective. Here having no memory is an
// error that is seen while there is another way, and freeing concerns nobody else.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "comm/communicator.h"

namespace lzy {

class SharedExchange {
 public:
  /// Collective over `comm`, of two or more ranks. nullptr on all of them unless every one can map memory of rank 0's
  /// (another node, no memory left, a system that forbids it) and had `memory` bytes for its own part.
  /// `idle` is called now and then by a rank that waits: a peer may still be in a call of MPI that needs this process
  /// to make progress before it gets here.
  static Result<std::unique_ptr<SharedExchange>> Make(Communicator& comm, std::function<void()> idle,
                                                      std::uint64_t memory = kMemory);
  ~SharedExchange();
  SharedExchange(const SharedExchange&) = delete;
  SharedExchange& operator=(const SharedExchange&) = delete;

  /// As Communicator::ReduceScatterXor; `counts` has a count for every rank. Cannot fail, so nobody is left waiting.
  void ReduceScatterXor(const std::uint64_t* send, std::uint64_t* receive, std::span<const std::uint64_t> counts);

  static constexpr std::uint64_t kMemory = std::uint64_t{2} << 20;

 private:
  struct Post;

  SharedExchange(int rank, int size, std::uint64_t memory, std::function<void()> idle);
  std::uint64_t PartBytes() const;  // of one rank, its Post included
  bool Map(int descriptor);

  Post& PostOf(std::size_t rank) const;
  /// Where rank `from` puts what is for rank `to`.
  std::uint64_t* Slot(std::uint32_t round, std::size_t from, std::size_t to) const;
  /// Of `count` words, of which `done` are: how many the next round takes.
  std::uint64_t Words(std::uint64_t count, std::uint64_t done) const {
    return count <= done ? 0 : std::min(step_, count - done);
  }
  void Announce(std::uint32_t round);
  void Await(std::uint32_t round, std::size_t rank);
  void Fill(std::uint32_t round, std::uint64_t done, const std::uint64_t* send, std::span<const std::uint64_t> counts);
  void Fetch(std::uint32_t round, std::uint64_t words, const std::uint64_t* own, std::uint64_t* receive);

  const std::size_t rank_;
  const std::size_t size_;
  const std::uint64_t step_;  // words a rank brings for each of the others in one round
  const std::function<void()> idle_;
  std::uint8_t* base_ = nullptr;
  std::uint32_t round_ = 0;  // the last that was filled
};

}  // namespace lzy
