#pragma once
// Which way the exchanges of a communicator go if option `exchange` is auto and ranks are on several nodes. Rank 0 takes the
// times that were measured before (tuning/exchange_tuning.h), picks a way for each step of size (ExchangeStep), and broadcasts its picks.
// So different files, MPI libraries or views of the nodes never make ranks differ. Used by MpiCommunicator.

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "base/record.h"
#include "comm/communicator.h"
#include "tuning/exchange_tuning.h"

namespace lzy {

/// The picks of rank 0; the same on all ranks.
struct ExchangePlan {
  std::array<ExchangeWay, kExchangeSteps> ways{};
  /// Rank 0 need not measure: its process has done so, or it knows everything.
  bool done = false;
  LZY_FIELDS(ways, done)

  /// The way for an exchange with these counts: kMpi, kPairwise or kRing, even if `ways` has other numbers.
  ExchangeWay WayFor(std::span<const std::uint64_t> counts) const;
};

/// The plan of rank 0 for `place`, which only rank 0 needs. Collective.
Result<ExchangePlan> AgreeOnPlan(Communicator& comm, const ExchangePlace& place);

/// Makes one exchange by a way, as Communicator::ReduceScatterXor does. Collective.
using RunWay = std::function<Status(ExchangeWay way, const std::uint64_t* send, std::uint64_t* receive,
                                    std::span<const std::uint64_t> counts)>;
/// Measures all ways for all classes, from small to large, by the clock of rank 0. Before each class, rank 0 estimates its time.
/// If too little is left of `seconds`, it stops; a call in a later job continues there. `again`: also measures classes that are
/// known. Rank 0 keeps the times. Sets `plan`, on all ranks, to the plan that follows from them. Needs up to 24 MiB of memory on
/// each rank. Collective.
Status MeasureExchange(Communicator& comm, const ExchangePlace& place, double seconds, bool again, const RunWay& run,
                       ExchangePlan& plan);

}  // namespace lzy
