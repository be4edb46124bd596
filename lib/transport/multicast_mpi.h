#pragma once
#include <mpi.h>

#include <cstdint>
#include <span>

#include "base/status.h"
#include "comm/multicast.h"

namespace lzy {

/// Runs a schedule, the same on all ranks of `comm`, which has MPI_ERRORS_RETURN: `data`, of `size` bytes everywhere, becomes
/// what it is at the schedule's root. No message has more than `max_transfer` bytes (at most 2^31 - 1): more are sent on piece
/// by piece, as they arrive. An error of MPI does not end it, so that what others wait for is sent wherever it still can be;
/// `data` is undefined then. Messages have tag 1.
Status RunSchedule(MPI_Comm comm, int rank, std::span<const MulticastMessage> schedule, std::uint8_t* data,
                   std::uint64_t size, std::uint64_t max_transfer);

/// What MeasureCosts sends at most. Where less is to be spread, measuring costs more than what it finds can save.
inline constexpr std::uint64_t kMeasuringBytes = std::uint64_t{4} << 20;

/// What messages between the first and the last of `size` ranks cost, by a few of them (kMeasuringBytes at most); the same on all
/// ranks. Collective over `comm`, which has MPI_ERRORS_RETURN. The least of several rounds, since others may use the machine.
Result<CostModel> MeasureCosts(MPI_Comm comm, int rank, int size);

}  // namespace lzy
