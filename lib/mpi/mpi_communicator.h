#pragma once
// The Communicator over MPI: the only one that connects several processes. Made by tools, the C interface and the
// hooks; given to the engine as a Communicator. It uses transport (exchanges, multicast) to move bytes, and validated
// (Records) to prove them.

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>

#include "comm/communicator.h"

namespace lzy {

/// A Communicator over a private copy of `comm`, an intracommunicator. Collective over `comm`. The copy has
/// MPI_ERRORS_RETURN; messages of the program are not disturbed. Destruction frees it, unless MPI is finalized already.
/// That is collective, too: destroy in the same order on all ranks.
///
/// `max_transfer`: the most bytes of one MPI call, from 1 to 2^31 - 1; larger payloads travel in pieces, because counts of
/// MPI-3.1 are ints. The same on all ranks; tests make it small. `node`: the name of this rank's node. Empty: MPI's
/// processor name. Tests use several names on one machine.
///
/// Returns kInvalidArgument for MPI_COMM_NULL or a bad `max_transfer`; kMpi.
Result<std::unique_ptr<Communicator>> MpiCommunicator(MPI_Comm comm, std::uint64_t max_transfer = std::uint64_t{1} << 30,
                                                      const std::string& node = "");

}  // namespace lzy
