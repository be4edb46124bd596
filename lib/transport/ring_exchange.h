#pragma once
// XOR among ranks along a ring. The part for rank r begins at rank r + 1, and every rank adds its share before it sends the
// sum on. So no link carries more than all parts together. In pairs (transport/pairwise_exchange.h), a rank gets its own
// part from every other rank. If the owner of a restored device gets everything, n - 1 times the device goes through one
// link.
//
// One of the ways of MpiCommunicator::ReduceScatterXor (docs/performance/exchange.md, "The rule" and "Few ranks get it
// all").

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace lzy {

/// One exchange, as PairwiseExchange is.
class RingExchange {
 public:
  /// With more ranks, the ring has too few slots.
  static constexpr int kMostRanks = 255;
  /// As PairwiseExchange. Precondition: 2 to kMostRanks ranks. With more, ranks could wait for each other forever (see Run).
  RingExchange(MPI_Comm comm, int rank, std::span<const std::uint64_t> counts, std::uint64_t max_transfer);

  /// 64-bit words of memory that Run needs; the same on all ranks, and at most 16 MiB.
  std::uint64_t StagingWords() const { return kSlots * piece_; }

  /// As PairwiseExchange::Run.
  Status Run(const std::uint64_t* send, std::uint64_t* receive, std::uint64_t* staging) const;

 private:
  class Transfer;
  static constexpr std::uint64_t kSlots = 32;  // pieces that a rank has at once; Run explains why this is enough

  const MPI_Comm comm_;
  const std::size_t rank_;
  const std::size_t size_;
  const std::span<const std::uint64_t> counts_;
  std::uint64_t piece_ = 0;  // words of a message
};

}  // namespace lzy
