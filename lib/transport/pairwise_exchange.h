#pragma once
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace lzy {

/// XOR among ranks by messages: every rank sends every other its part, and adds up what arrived while more travels.
class PairwiseExchange {
 public:
  /// `comm` has two or more ranks and MPI_ERRORS_RETURN, this one is `rank`; `counts`, which must outlive this, as in
  /// Communicator::ReduceScatterXor. No message has more than `max_transfer` bytes (at most 2^31 - 1).
  PairwiseExchange(MPI_Comm comm, int rank, std::span<const std::uint64_t> counts, std::uint64_t max_transfer);

  /// Memory that Run needs; the same on all ranks, and at most 16 MiB.
  std::uint64_t StagingWords() const { return in_flight_ * piece_; }

  /// As Communicator::ReduceScatterXor. An error of MPI does not end it, so that what others wait for is sent wherever
  /// it still can be, and nothing is under way when it returns. Messages have tag 0.
  Status Run(const std::uint64_t* send, std::uint64_t* receive, std::uint64_t* staging) const;

 private:
  class Transfer;

  /// Words that rank `to` gets by message `t`.
  std::uint64_t Words(std::size_t to, std::uint64_t t) const;
  std::uint64_t Offset(std::uint64_t t) const { return t % pieces_ * piece_; }

  const MPI_Comm comm_;
  const std::size_t rank_;
  const std::size_t size_;
  const std::span<const std::uint64_t> counts_;
  std::vector<std::uint64_t> starts_;  // of the parts
  std::uint64_t piece_ = 0;            // words of a message
  std::uint64_t pieces_ = 0;           // messages that the longest part takes
  std::uint64_t in_flight_ = 0;        // messages each way
};

}  // namespace lzy
