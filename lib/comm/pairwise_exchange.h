#pragma once
#include <mpi.h>

#include <cstdint>
#include <span>

#include "base/status.h"

namespace lzy {

/// Words that PairwiseXor needs to stage what arrives in pieces of `piece` words.
std::uint64_t PairwiseStaging(std::uint64_t piece);

/// As Communicator::ReduceScatterXor, over `comm` (two or more ranks, MPI_ERRORS_RETURN): every rank sends every other its part, in
/// messages of at most `piece` words (which fit an int as bytes), and adds up one while the next ones travel. An error
/// of MPI does not end the exchange, so that what the others wait for is sent wherever it still can be. Tag 0.
Status PairwiseXor(MPI_Comm comm, const std::uint64_t* send, std::uint64_t* receive,
                   std::span<const std::uint64_t> counts, std::uint64_t piece, std::span<std::uint64_t> staging);

}  // namespace lzy
