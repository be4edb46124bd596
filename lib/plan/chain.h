#pragma once
// Computes the probability of loss with a Markov chain.
//
// There is one chain for each shape of a group. A state says which domains, which nodes and how many further devices of the
// group are lost; states that differ only in names are one state (exact lumping). Each failure has its own restore, whose
// time is exponential; several restores run at once. After a loss the chain begins again in the state without failures, so 1
// / (rate of losses) is the mean time to data loss. The stationary distribution is computed by the elimination of Grassmann,
// Taksar and Heyman, which never subtracts, so rates of 1e-30 keep all their digits.

#include <cstdint>

#include "base/status.h"
#include "plan/system.h"

namespace lzy {

/// Losses per hour.
struct LossRates {
  double system = 0;  ///< events in which at least one group is lost
  double group = 0;   ///< lost groups: an event that loses k groups counts k times
  std::size_t states = 0;  ///< number of states of the largest chain
};

/// The duration of one restore, from the loss on, in hours.
double RestoreHours(const PlanSystem& system);
/// The time from the first byte that a program writes to the end of the commit, in hours. Nothing protects the new data in
/// this time.
double CommitHours(const PlanSystem& system, const PlanGroups& groups);

/// Computes the rate of losses of committed data. kInvalidArgument if a group has too many states. `company`: made for the
/// same groups; it may be used for several rates. `system` may be accelerated.
Result<LossRates> ChainLosses(const PlanSystem& system, const PlanGroups& groups, Company& company);

/// The probability that a group has a bad block at a random time. `rate`: new bad blocks per hour. `scrub`: hours between
/// scrubs, at a random phase. `clears`: how often per hour a restore reads the group, too.
double LatentProbability(double rate, double scrub, double clears);

}  // namespace lzy
