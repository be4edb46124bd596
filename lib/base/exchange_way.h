#pragma once
// Ways to add up parity among ranks (Communicator::ReduceScatterXor): the words of option `exchange` (request/options).
// docs/performance/exchange.md compares the ways. Pure; no MPI.

#include <cstdint>
#include <optional>
#include <string>

namespace lzy {

/// Ranks send these numbers to each other: never reuse one.
enum class ExchangeWay : std::uint8_t {
  kAuto = 0,      ///< shared memory on one node; between nodes the fastest by a stored measurement, otherwise kMpi
  kMpi = 1,       ///< MPI_Ireduce_scatter_block, MPI_Ireduce_scatter or MPI_Ireduce of the MPI library
  kPairwise = 2,  ///< messages from each rank to each other rank
  kRing = 3,      ///< messages from rank to rank along a ring
  kShared = 4,    ///< memory that the ranks of a node share; as kAuto if ranks are on several nodes
};
inline constexpr std::uint8_t kExchangeWays = 5;

/// "auto", "mpi", "pairwise", ... "auto" for a number that is no way.
const char* ExchangeWayName(ExchangeWay way);
/// The inverse; nullopt for any other text.
std::optional<ExchangeWay> ParseExchangeWay(const std::string& text);

}  // namespace lzy
