#pragma once
// Broadcasts over groups of ranks, by MPI messages. RunSchedule executes the schedules of comm/multicast.h. MeasureCosts
// measures the costs for their cost model (docs/design/overview.md §2, "Broadcasts"). MpiCommunicator is the caller.
//
// Both are collective over a communicator of lzy's own, on which no other messages have tag 1, and which has
// MPI_ERRORS_RETURN.

#include <mpi.h>

#include <cstdint>
#include <span>

#include "base/status.h"
#include "comm/multicast.h"

namespace lzy {

/// Runs a schedule. `data`, of `size` bytes on all ranks, gets the content of the schedule's root. `schedule` is the same
/// on all ranks. No message has more than `max_transfer` bytes (at most 2^31 - 1). Longer data are sent in pieces, and each
/// piece is passed on as soon as it has arrived. After an error of MPI, continues to send to other ranks if possible. Then
/// `data` is undefined, and the first error is returned, on this rank only. Messages have tag 1. Collective.
Status RunSchedule(MPI_Comm comm, int rank, std::span<const MulticastMessage> schedule, std::uint8_t* data,
                   std::uint64_t size, std::uint64_t max_transfer);

/// The most bytes that MeasureCosts sends. For smaller broadcasts, measuring costs more than it can save.
inline constexpr std::uint64_t kMeasuringBytes = std::uint64_t{4} << 20;

/// Measures the costs of messages between the first and the last of `size` ranks (sends at most kMeasuringBytes). The least
/// of several rounds counts, because others may use the machine. All ranks get the numbers of rank 0. An error may affect
/// one rank only. Collective; only the two ranks send.
Result<CostModel> MeasureCosts(MPI_Comm comm, int rank, int size);

}  // namespace lzy
