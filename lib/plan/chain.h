#pragma once
// The probability of loss by a Markov chain.
//
// One chain for each shape of a group. A state says which domains, which nodes and how many further devices of the
// group are lost; states that differ in names only are one (exact lumping). Each failure has its own restore, with an
// exponential time; several run at once. After a loss the chain begins again in the state without failures, so
// 1 / (rate of losses) is the mean time to data loss. Its stationary distribution comes from the elimination of
// Grassmann, Taksar and Heyman, which never subtracts, so rates of 1e-30 keep all their digits.

#include <cstdint>

#include "base/status.h"
#include "plan/system.h"

namespace lzy {

/// Losses an hour.
struct LossRates {
  double system = 0;  ///< events in which any group is lost
  double group = 0;   ///< sum over all groups: a loss of k groups at once counts k times
  std::size_t states = 0;  ///< of the largest chain
};

/// How long one restore takes, from the loss on, in hours.
double RestoreHours(const PlanSystem& system);
/// From the first byte that a program writes to the end of the commit: nothing protects the new data in this time.
double CommitHours(const PlanSystem& system, const PlanGroups& groups);

/// Losses of committed data. kInvalidArgument if a group has too many different states. `company`: of the same groups; it
/// may be used for several rates. `system` may be accelerated.
Result<LossRates> ChainLosses(const PlanSystem& system, const PlanGroups& groups, Company& company);

/// Probability that a group whose last clean read is as old as chance has it has a bad block. `rate`: new bad blocks an
/// hour; `scrub`: hours between scrubs, at any phase; `clears`: how often an hour a restore reads the group, too.
double LatentProbability(double rate, double scrub, double clears);

}  // namespace lzy
