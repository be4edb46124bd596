#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/checkpoint.h"
#include "plan/parse.h"

namespace lzy {
namespace {

/// With more failures at a time than this, losses in the simulation would have several causes at once.
constexpr double kMostLostAtATime = 0.05;
constexpr double kMostSigmas = 3;

double MeanTime(double rate) {
  return rate > 0 ? 1 / rate : std::numeric_limits<double>::infinity();
}

struct Cost {
  double interval = 0, overhead = 0;
};
Cost CheckpointCost(const PlanSystem& s, double cost, double restart, double failures) {
  const double mtbf = MeanTime(failures);
  const double best = s.interval_hours > 0 ? std::max(s.interval_hours - cost, cost / 100) : BestInterval(cost, mtbf);
  return {best, CheckpointOverhead(best, cost, restart, mtbf)};
}

/// The factor for the rates with which the simulation sees enough losses: the least power of two, if one is enough.
Result<double> ChooseFactor(const PlanSystem& s, const PlanGroups& groups, Company& company, const SimulationLimits& limits) {
  // The mean number of devices of a group that are lost at the same time.
  const double per_device = s.device_rate + s.node_rate + (s.nodes_per_domain == 0 ? 0 : s.domain_rate);
  const double lost = groups.largest * per_device * RestoreHours(s);
  const double most = std::max(1.0, lost > 0 ? kMostLostAtATime / lost : 1);
  const double touches = s.devices * per_device;
  double factor = 1;
  while (true) {
    const double tried = std::min(factor, most);
    LZY_ASSIGN_OR_RETURN(const LossRates rates, ChainLosses(s.Accelerated(tried), groups, company));
    const double expected = touches > 0 ? rates.system / (touches * tried) * static_cast<double>(limits.most_touches) : 0;
    if (expected >= static_cast<double>(limits.wanted_losses) || tried >= most) return tried;
    factor *= 2;
  }
}

Result<Comparison> Compare(const PlanSystem& s, const PlanGroups& groups, Company& company, double window_share, double cycle,
                           const SimulationLimits& limits) {
  Comparison out;
  LZY_ASSIGN_OR_RETURN(out.factor, ChooseFactor(s, groups, company, limits));
  const PlanSystem faster = s.Accelerated(out.factor);
  LZY_ASSIGN_OR_RETURN(const LossRates rates, ChainLosses(faster, groups, company));
  const SimulatedLosses seen = Simulate(faster, groups, window_share, cycle, limits);
  out.made = seen.hours > 0;
  out.losses = seen.system;
  out.expected = rates.system * seen.hours;
  out.years = seen.hours / kHoursAYear;
  out.sigmas = out.expected > 0 ? (static_cast<double>(out.losses) - out.expected) / std::sqrt(out.expected) : 0;
  out.window_losses = seen.in_window;
  out.window_expected = faster.losing_rate() * window_share * seen.hours;
  return out;
}

Result<PlanRow> MakeRow(const PlanRequest& request, const PlanGroups& groups) {
  const PlanSystem& s = request.system;
  PlanRow row;
  row.n = groups.asked;
  row.m = groups.parity;
  row.groups = static_cast<std::uint32_t>(groups.groups.size());
  row.largest = groups.largest;
  row.worst_share = groups.worst_share;
  row.overhead = groups.overhead();
  row.restore_hours = RestoreHours(s);
  row.commit_hours = CommitHours(s, groups);

  // After a failure, a job that lost no device reads its checkpoint; otherwise it restores the checkpoint first.
  const double failures = s.ending_rate();
  const double losing = failures > 0 ? s.losing_rate() / failures : 0;
  const Cost cost = CheckpointCost(s, row.commit_hours, s.bytes / s.read_rate + losing * row.restore_hours, failures);
  row.interval_hours = cost.interval;
  row.young_hours = YoungInterval(row.commit_hours, MeanTime(failures));
  row.run_overhead = cost.overhead;

  // Without a window, the interval may be infinite.
  const double cycle = row.interval_hours + row.commit_hours;
  const double window = std::isfinite(cycle) ? row.commit_hours / cycle : 0;
  row.window_year = s.losing_rate() * window * kHoursAYear;

  Company company(s, groups);
  LZY_ASSIGN_OR_RETURN(const LossRates rates, ChainLosses(s, groups, company));
  // If each checkpoint overwrites the last one, there is no other copy in the window.
  const auto total = [&](double committed) { return s.in_place ? window * s.losing_rate() + (1 - window) * committed : committed; };
  row.loss_year = -std::expm1(-total(rates.system) * kHoursAYear);
  row.mean_years = MeanTime(total(rates.system)) / kHoursAYear;
  if (request.simulate) {
    LZY_ASSIGN_OR_RETURN(row.comparison, Compare(s, groups, company, window, cycle, request.limits));
    const Comparison& c = row.comparison;
    const double ratio = c.expected > 0 ? static_cast<double>(c.losses) / c.expected : 1;
    row.loss_simulated = -std::expm1(-total(rates.system * ratio) * kHoursAYear);
  }
  return row;
}

PlanWithout MakeWithout(const PlanSystem& s) {
  PlanWithout out;
  out.losses_year = s.losing_rate() * kHoursAYear;
  out.commit_hours = s.bytes / s.write_rate;
  const double crashes = s.ending_rate() - s.losing_rate();
  const Cost local = CheckpointCost(s, out.commit_hours, s.bytes / s.read_rate, crashes);
  out.interval_hours = local.interval;
  const double hours = s.run_hours * (1 + local.overhead);
  out.run_overhead = (1 + local.overhead) * (1 + StartAgainOverhead(hours, s.losing_rate())) - 1;
  out.shared = s.shared_rate > 0;
  if (out.shared) {
    out.shared_commit_hours = s.bytes * s.devices / s.shared_rate;
    const double failures = s.ending_rate();
    const double losing = failures > 0 ? s.losing_rate() / failures : 0;
    const Cost shared = CheckpointCost(s, out.shared_commit_hours, out.shared_commit_hours + losing * s.replace_hours, failures);
    out.shared_interval_hours = shared.interval;
    out.shared_overhead = shared.overhead;
  }
  return out;
}

// Recommends the row with the least space that reaches the target; of equal ones, the safest. If none reaches it, the
// safest; of equal ones, the one with the least space.
void Recommend(const PlanRequest& request, PlanTable& table) {
  const auto better = [&](const PlanRow& a, const PlanRow& b) {
    const bool reaches_a = a.loss_year <= request.target, reaches_b = b.loss_year <= request.target;
    if (reaches_a != reaches_b) return reaches_a;
    if (reaches_a && a.overhead != b.overhead) return a.overhead < b.overhead;
    if (a.loss_year != b.loss_year) return a.loss_year < b.loss_year;
    return a.overhead < b.overhead;
  };
  if (!std::ranges::all_of(table.rows, [](const PlanRow& row) { return row.comparison.agrees(); })) {
    table.recommendation = "none: chain and simulation differ, so at these rates the numbers above cannot be relied on";
    return;
  }
  const auto best = std::ranges::min_element(table.rows, better);
  table.recommended = static_cast<std::size_t>(best - table.rows.begin());
  table.reaches_target = best->loss_year <= request.target;
  table.recommendation =
      fmt::format("--group {} --parity {}: probability of loss {} a year{}, {:.1f}% more space, restore in {}", best->n, best->m,
                  ProbabilityText(best->loss_year),
                  table.reaches_target ? "" : fmt::format(" (more than the target {}; no row reaches it)", ProbabilityText(request.target)),
                  100 * best->overhead, HoursText(best->restore_hours));
}

}  // namespace

bool Comparison::agrees() const {
  // A Poisson distribution with a small mean has a long tail: one loss more may always be chance.
  const double least = std::max(1.0, kMostSigmas * std::sqrt(expected));
  return std::abs(static_cast<double>(losses) - expected) <= least;
}

std::string ProbabilityText(double p) {
  if (p == 0) return "0";
  return p < 1e-99 ? "<1e-99" : fmt::format("{:.2g}", p);
}

Result<PlanTable> MakePlanTable(const PlanRequest& request) {
  PlanTable table;
  // A group has at most all devices.
  std::vector<std::uint32_t> sizes;
  for (const std::uint32_t n : request.groups) sizes.push_back(std::min(n, request.system.devices));
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  for (const std::uint32_t m : request.parities) {
    for (const std::uint32_t n : sizes) {
      const std::string name = fmt::format("n = {}, m = {}", n, m);
      if (n <= m) {
        table.left_out.push_back(fmt::format("{}: a group needs more than m devices", name));
        continue;
      }
      const PlanGroups groups = DealPlanGroups(request.system, n, m);
      auto row = MakeRow(request, groups);
      if (!row.ok()) {
        table.left_out.push_back(fmt::format("{}: {}", name, row.status().message()));
        continue;
      }
      table.rows.push_back(*std::move(row));
    }
  }
  if (table.rows.empty()) {
    std::string all;
    for (const std::string& one : table.left_out) all += (all.empty() ? "" : "; ") + one;
    return Status(Code::kInvalidArgument, "there is nothing to compare: " + all);
  }
  table.without = MakeWithout(request.system);
  Recommend(request, table);
  return table;
}

}  // namespace lzy
