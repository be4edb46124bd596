#pragma once
// Makes the table of lzy-plan: the losses and costs of each (n, m), and a recommendation.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/chain.h"
#include "plan/simulate.h"
#include "plan/system.h"

namespace lzy {

struct PlanRequest {
  PlanSystem system;
  std::vector<std::uint32_t> groups = {4, 8, 16, 32};  ///< n, ascending
  std::vector<std::uint32_t> parities = {1, 2, 3};     ///< m
  double target = 1e-4;  ///< the probability of a loss per year that the user accepts
  bool simulate = true;
  SimulationLimits limits;
};

/// Compares the simulation with the chain at the same rates.
struct Comparison {
  bool made = false;
  double factor = 1;         ///< the rates of both are this many times the real ones
  std::uint64_t losses = 0;  ///< simulated
  double expected = 0;       ///< losses that the chain expects in the same time
  double years = 0;          ///< simulated
  /// The difference in standard deviations. The number of simulated losses is Poisson distributed.
  double sigmas = 0;         ///< (losses - expected) / sqrt(expected)
  std::uint64_t window_losses = 0;
  double window_expected = 0;
  bool agrees() const;       ///< within three standard deviations
};

/// One row: one (n, m).
struct PlanRow {
  std::uint32_t n = 0, m = 0;
  std::uint32_t groups = 0, largest = 0, worst_share = 0;
  double loss_year = 0;      ///< probability of losing committed data in a year, by the chain
  double loss_simulated = 0; ///< the same with the chain's rate times losses / expected of the simulation; valid if comparison.losses > 0
  double mean_years = 0;     ///< mean time to data loss
  double window_year = 0;    ///< losses of data before their commit, per year
  double overhead = 0;       ///< bytes of parity for each byte of data
  double restore_hours = 0;
  double commit_hours = 0;   ///< write and commit of a checkpoint
  double interval_hours = 0; ///< computing time between two checkpoints
  double young_hours = 0;
  double run_overhead = 0;   ///< expected run time / computing time - 1
  Comparison comparison;
};

/// The job without lzy.
struct PlanWithout {
  // Checkpoints at the same place without parity. A failure that loses a device loses the checkpoint.
  double commit_hours = 0, interval_hours = 0, run_overhead = 0;
  double losses_year = 0;  ///< failures per year that lose a device; each is a loss
  // Checkpoints on the shared file system; only if its rate is known.
  bool shared = false;
  double shared_commit_hours = 0, shared_interval_hours = 0, shared_overhead = 0;
};

struct PlanTable {
  std::vector<PlanRow> rows;
  std::vector<std::string> left_out;  ///< pairs (n, m) without a row, and why
  PlanWithout without;
  /// Index in `rows`. nullopt: chain and simulation differ in some row, so the numbers are not reliable.
  std::optional<std::size_t> recommended;
  bool reaches_target = false;
  std::string recommendation;   ///< one line
};

/// kInvalidArgument if no (n, m) is possible.
Result<PlanTable> MakePlanTable(const PlanRequest& request);

/// "1.2e-05", or "<1e-99".
std::string ProbabilityText(double p);

}  // namespace lzy
