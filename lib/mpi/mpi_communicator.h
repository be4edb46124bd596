#pragma once
#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>

#include "comm/communicator.h"

namespace lzy {

/// A Communicator over a private communicator of the ranks of `comm`, an intracommunicator (collective), with
/// MPI_ERRORS_RETURN set on it. Freed on destruction (collective too: destroy in the same order on all ranks) unless
/// MPI is finalized by then.
///
/// Larger payloads travel in pieces, of at most `max_transfer` bytes an MPI call, since MPI-3.1 counts are ints. It
/// must be the same on all ranks; tests make it small. `node`: what this rank's node is taken for (tests have several so on
/// one); empty: MPI's processor name.
Result<std::unique_ptr<Communicator>> MpiCommunicator(MPI_Comm comm, std::uint64_t max_transfer = std::uint64_t{1} << 30,
                                                      const std::string& node = "");

}  // namespace lzy
