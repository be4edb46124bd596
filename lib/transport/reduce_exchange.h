#pragma once
// XOR among ranks by the reductions of the MPI library: MPI_Ireduce_scatter_block if all parts are equally long,
// MPI_Ireduce if one rank gets everything (a restored device), MPI_Ireduce_scatter otherwise. All with MPI_BXOR on
// MPI_UINT64_T. So the parts are combined as Gropp, Ross and Miller propose, and by what the vendor of the network has
// tuned. Option exchange=mpi.

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"

namespace lzy {

/// One exchange, as PairwiseExchange is.
class ReduceExchange {
 public:
  /// As PairwiseExchange. No call reduces more than about `max_transfer` bytes of one rank (at least a word of each part):
  /// the counts of MPI-3.1 are ints. Longer exchanges take several calls.
  ReduceExchange(MPI_Comm comm, int rank, std::span<const std::uint64_t> counts, std::uint64_t max_transfer);

  /// 64-bit words of memory that Run needs; the same on all ranks. 0 if one call is enough, or if one rank gets everything.
  /// Otherwise the pieces of all parts for one call: at most 16 MiB, or a word of each part.
  std::uint64_t StagingWords() const { return pack_ ? piece_ * counts_.size() : 0; }

  /// As PairwiseExchange::Run, but after an error of MPI it returns at once.
  Status Run(const std::uint64_t* send, std::uint64_t* receive, std::uint64_t* staging) const;

 private:
  /// One call: the words from `offset` on of each part, at most `piece_` of it. `from`: these words, part by part.
  Status Reduce(const std::uint64_t* from, std::uint64_t* to, std::uint64_t offset) const;
  /// Number of words of part `part` in the call that begins at `offset`.
  std::uint64_t Words(std::size_t part, std::uint64_t offset) const;

  const MPI_Comm comm_;
  const std::size_t rank_;
  const std::span<const std::uint64_t> counts_;
  std::optional<std::size_t> only_;  // the rank that gets everything
  std::uint64_t longest_ = 0;        // words of the longest part
  std::uint64_t piece_ = 0;          // most words of a part in one call
  bool pack_ = false;                // pieces must be copied together, because MPI takes them from one place
};

}  // namespace lzy
