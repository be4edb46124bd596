#pragma once
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace lzy {

/// XOR among ranks along a ring: what is for rank r begins at r + 1, and every rank adds its share before it sends it on. No
/// rank gets more than all parts together, where by PairwiseExchange it gets its own part from everybody: a restored
/// device's n - 1 times, one after another through one link.
class RingExchange {
 public:
  /// As PairwiseExchange.
  RingExchange(MPI_Comm comm, int rank, std::span<const std::uint64_t> counts, std::uint64_t max_transfer);

  /// Whether the busiest link carries less than 4/5 of what it does by PairwiseExchange: parts are unequal. Takes into account
  /// that the first piece has to come all the way round. The same on all ranks. For ranks on several nodes: on one there are no
  /// links, and a piece that has to wait for each rank in turn costs more than one that is on its way while nobody looks
  /// (docs/performance/exchange.md).
  static bool IsShorter(std::span<const std::uint64_t> counts);

  /// Memory that Run needs; the same on all ranks, and at most 16 MiB.
  std::uint64_t StagingWords() const { return kSlots * piece_; }

  /// As PairwiseExchange::Run.
  Status Run(const std::uint64_t* send, std::uint64_t* receive, std::uint64_t* staging) const;

 private:
  class Transfer;
  static constexpr std::uint64_t kSlots = 32;

  const MPI_Comm comm_;
  const std::size_t rank_;
  const std::size_t size_;
  const std::span<const std::uint64_t> counts_;
  std::uint64_t piece_ = 0;  // words of a message
};

}  // namespace lzy
