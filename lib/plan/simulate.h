#pragma once
// Computes the probability of loss by a simulation of every device, with the groups that the placement code makes.
//
// It shares nothing with the chain (chain.h) except the description of the machine. Losses are rare at real rates, so both
// are compared at rates that are high enough for the simulation to see losses.

#include <cstdint>

#include "base/status.h"
#include "plan/system.h"

namespace lzy {

struct SimulationLimits {
  std::uint64_t seed = 1;
  std::uint64_t wanted_losses = 400;    ///< the simulation ends after so many losses
  std::uint64_t most_touches = 1'000'000;  ///< or after so many failures, including devices that fail with a node
  bool fixed_restores = false;          ///< every restore takes the same time; false: times are exponential
};

struct SimulatedLosses {
  double hours = 0;           ///< simulated time
  std::uint64_t system = 0;   ///< events in which at least one group was lost
  std::uint64_t group = 0;    ///< groups that were lost
  std::uint64_t in_window = 0;  ///< failures between the first write and the commit
  std::uint64_t events = 0;   ///< failures
};

/// Simulates the machine. `window_share`: the share of the time in which data are not committed. `interval`: hours from one
/// commit to the next.
SimulatedLosses Simulate(const PlanSystem& system, const PlanGroups& groups, double window_share, double interval,
                         const SimulationLimits& limits);

}  // namespace lzy
