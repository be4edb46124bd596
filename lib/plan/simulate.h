#pragma once
// The probability of loss by simulation: every device, with the groups that the placement code dealt.
//
// It shares nothing with the chain (chain.h) but the description of the machine. Losses are rare at real rates, so both
// are compared at rates that are as many times higher as the simulation needs to see enough of them.

#include <cstdint>

#include "base/status.h"
#include "plan/system.h"

namespace lzy {

struct SimulationLimits {
  std::uint64_t seed = 1;
  std::uint64_t wanted_losses = 400;    ///< then it ends
  std::uint64_t most_touches = 1'000'000;  ///< failures, and devices that they take along, before it ends
  bool fixed_restores = false;          ///< every restore takes the same time; otherwise times are exponential
};

struct SimulatedLosses {
  double hours = 0;           ///< simulated
  std::uint64_t system = 0;   ///< events in which at least one group was lost
  std::uint64_t group = 0;    ///< groups that were lost
  std::uint64_t in_window = 0;  ///< failures between the first write and the commit
  std::uint64_t events = 0;   ///< failures
};

/// `window_share`: the part of the time in which data are not committed; `interval`: from one commit to the next, hours.
SimulatedLosses Simulate(const PlanSystem& system, const PlanGroups& groups, double window_share, double interval,
                         const SimulationLimits& limits);

}  // namespace lzy
