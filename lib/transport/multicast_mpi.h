#pragma once
// Broadcasts over groups of ranks, by MPI messages: the one that executes the schedules of comm/multicast.h, and the
// one that measures what their cost model needs (docs/design/overview.md §2, "Broadcasts"). MpiCommunicator is the caller.
//
// Both are collective over a communicator of lzy's own, on which no other messages have tag 1, and which has
// MPI_ERRORS_RETURN.

#include <mpi.h>

#include <cstdint>
#include <span>

#include "base/status.h"
#include "comm/multicast.h"

namespace lzy {

/// Runs a schedule. `data`, of `size` bytes on all ranks, becomes what it is at the root of the schedule. `schedule`
/// is the same on all ranks. No message has more than `max_transfer` bytes (at most 2^31 - 1). Longer data are sent in
/// pieces, and each piece is passed on as soon as it has arrived. An error of MPI does not end it, so what others wait
/// for is sent if it still can be. Then `data` is undefined, and the first error is returned, on this rank only.
/// Messages have tag 1. Collective.
Status RunSchedule(MPI_Comm comm, int rank, std::span<const MulticastMessage> schedule, std::uint8_t* data,
                   std::uint64_t size, std::uint64_t max_transfer);

/// Bytes that MeasureCosts sends at most. If less is to be broadcast, measuring costs more than it can save.
inline constexpr std::uint64_t kMeasuringBytes = std::uint64_t{4} << 20;

/// What messages between the first and the last of `size` ranks cost, measured by a few of them (kMeasuringBytes at
/// most). The least of several rounds counts, since others may use the machine. All ranks get the numbers of rank 0.
/// An error may be one rank's alone. Collective; only the two ranks send.
Result<CostModel> MeasureCosts(MPI_Comm comm, int rank, int size);

}  // namespace lzy
