#pragma once
// XOR among ranks by messages in pairs: every rank sends every other rank its part, and adds up arrived parts while more
// are on the way. One of the ways of MpiCommunicator::ReduceScatterXor (docs/performance/exchange.md, "The rule").

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace lzy {

/// One exchange: how it is cut into messages, and how many are under way at once. Cheap to make. All ranks must make
/// it with the same `counts` and `max_transfer`, because both sides of a message compute its length.
class PairwiseExchange {
 public:
  /// `comm` has two or more ranks and MPI_ERRORS_RETURN; this one is `rank`. `counts`: as in
  /// Communicator::ReduceScatterXor; must outlive this. No message has more than `max_transfer` bytes (at most 2^31 -
  /// 1). Local.
  PairwiseExchange(MPI_Comm comm, int rank, std::span<const std::uint64_t> counts, std::uint64_t max_transfer);

  /// 64-bit words of memory that Run needs for arriving data. The same on all ranks, and at most 16 MiB.
  std::uint64_t StagingWords() const { return in_flight_ * piece_; }

  /// As Communicator::ReduceScatterXor; `staging` has StagingWords() words. Collective. After an error of MPI, continues to
  /// send to other ranks if possible. No message is under way when it returns. The first error is returned, on this rank
  /// only. Messages have tag 0.
  Status Run(const std::uint64_t* send, std::uint64_t* receive, std::uint64_t* staging) const;

 private:
  class Transfer;

  /// 64-bit words that rank `to` gets by message `t`; 0 if its part has ended before. Such a message is not sent.
  std::uint64_t Words(std::size_t to, std::uint64_t t) const;
  /// The word of its part at which message `t` begins.
  std::uint64_t Offset(std::uint64_t t) const { return t % pieces_ * piece_; }

  const MPI_Comm comm_;
  const std::size_t rank_;
  const std::size_t size_;
  const std::span<const std::uint64_t> counts_;
  std::vector<std::uint64_t> starts_;  // of the parts in the send buffer, in words
  std::uint64_t piece_ = 0;            // words of a message
  std::uint64_t pieces_ = 0;           // messages for the longest part
  std::uint64_t in_flight_ = 0;        // messages each way
};

}  // namespace lzy
