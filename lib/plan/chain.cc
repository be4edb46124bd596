#include "plan/chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace lzy {
namespace {

constexpr std::size_t kMostStates = 600;

struct NodeState {
  std::uint32_t size = 0;
  std::uint32_t lost = 0;  ///< devices that failed alone; 0 if the node is gone
  bool gone = false;
  friend auto operator<=>(const NodeState&, const NodeState&) = default;
};
struct DomainState {
  bool gone = false;
  std::vector<NodeState> nodes;  ///< sorted
  friend auto operator<=>(const DomainState&, const DomainState&) = default;
};
using State = std::vector<DomainState>;  // sorted

struct Counts {
  std::uint32_t size = 0, lost = 0;
  std::uint32_t by_common = 0;  ///< lost with their node or domain
  std::uint32_t nodes_gone = 0, domains_gone = 0;
};

Counts Count(const State& state) {
  Counts out;
  for (const DomainState& domain : state) {
    out.domains_gone += domain.gone;
    for (const NodeState& node : domain.nodes) {
      out.size += node.size;
      const bool whole = domain.gone || node.gone;
      out.nodes_gone += node.gone && !domain.gone;
      out.lost += whole ? node.size : node.lost;
      out.by_common += whole ? node.size : 0;
    }
  }
  return out;
}

State Sorted(State state) {
  for (DomainState& domain : state) std::ranges::sort(domain.nodes);
  std::ranges::sort(state);
  return state;
}

void LoseDomain(DomainState& domain) {
  domain.gone = true;
  for (NodeState& node : domain.nodes) node = {node.size, 0, false};
}

/// The chain of one group. A loss leads back to state 0, so it is a transition that is counted.
class GroupChain {
 public:
  GroupChain(const PlanSystem& system, std::uint32_t parity, const GroupShape& shape, Company& company)
      : system_(system), m_(parity), company_(company), repair_(1 / RestoreHours(system)) {
    State whole;
    for (const auto& nodes : shape) {
      DomainState& domain = whole.emplace_back();
      for (const std::uint32_t size : nodes) {
        domain.nodes.push_back({size, 0, false});
        clears_ += size * system.device_rate + system.node_rate;
      }
      if (system.nodes_per_domain != 0) clears_ += system.domain_rate;
    }
    Number(Sorted(std::move(whole)));
  }

  Result<LossRates> Solve() {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (states_.size() > kMostStates) {
        return Status(Code::kInvalidArgument,
                      fmt::format("groups of {} devices with parity {} have more than {} different states; use smaller groups",
                                  Count(states_[0]).size, m_, kMostStates));
      }
      Leave(i);
    }
    const std::vector<double> share = Stationary();
    LossRates out;
    out.states = states_.size();
    for (std::size_t i = 0; i < states_.size(); ++i) {
      out.group += share[i] * group_loss_[i];
      out.system += share[i] * system_loss_[i];
    }
    return out;
  }

 private:
  std::size_t Number(State state) {
    const auto [at, fresh] = numbers_.try_emplace(std::move(state), states_.size());
    if (fresh) {
      states_.push_back(at->first);
      group_loss_.push_back(0);
      system_loss_.push_back(0);
    }
    return at->second;
  }

  void Lose(std::size_t from, double rate, double share) {
    group_loss_[from] += rate;
    system_loss_[from] += rate * share;
    Move(from, 0, rate);
  }
  void Move(std::size_t from, std::size_t to, double rate) {
    if (from != to && rate > 0) rates_[{from, to}] += rate;
  }

  /// Adds all transitions from a state.
  void Leave(std::size_t i) {
    const State state = states_[i];  // a copy: states_ grows
    for (std::size_t d = 0; d < state.size(); ++d) {
      const DomainState& domain = state[d];
      if (domain.gone) {
        Restore(i, state, [&](State& to) {
          to[d].gone = false;
        });
        continue;
      }
      if (system_.nodes_per_domain != 0) {
        Fail(i, state, system_.domain_rate, [&](State& to) { LoseDomain(to[d]); }, true);
      }
      for (std::size_t v = 0; v < domain.nodes.size(); ++v) {
        const NodeState& node = domain.nodes[v];
        if (node.gone) {
          Restore(i, state, [&](State& to) { to[d].nodes[v].gone = false; });
          continue;
        }
        Fail(i, state, system_.node_rate, [&](State& to) { to[d].nodes[v] = {node.size, 0, true}; }, true);
        Fail(i, state, (node.size - node.lost) * system_.device_rate, [&](State& to) { ++to[d].nodes[v].lost; }, false);
        for (std::uint32_t l = 0; l < node.lost; ++l) Restore(i, state, [&](State& to) { --to[d].nodes[v].lost; });
      }
    }
    LatentLosses(i, Count(state));
  }

  template <class Change>
  void Fail(std::size_t i, const State& state, double rate, Change change, bool common) {
    if (rate <= 0) return;
    State to = state;
    change(to);
    const Counts now = Count(state), then = Count(to);
    if (then.lost > m_) {
      const bool together = common && then.by_common > m_;
      return Lose(i, rate, together ? company_.Share(then.nodes_gone, then.domains_gone, true) : 1);
    }
    // No parity is left: any block of the other devices that is already bad cannot be rebuilt.
    double bad = 0;
    if (then.lost == m_ && now.lost < m_) {
      bad = LatentProbability((then.size - then.lost) * system_.latent_rate, system_.scrub_hours, clears_);
      const bool together = common && then.by_common == m_;
      if (bad > 0) Lose(i, rate * bad, together ? company_.Share(then.nodes_gone, then.domains_gone, false, bad) : 1);
    }
    Move(i, Number(Sorted(std::move(to))), rate * (1 - bad));
  }

  // A restore reads all devices that are left. If no parity is left, every bit of them must be readable.
  template <class Change>
  void Restore(std::size_t i, const State& state, Change change) {
    const Counts now = Count(state);
    State to = state;
    change(to);
    double bad = 0;
    if (now.lost == m_ && system_.read_error_bit > 0) {
      const double bits = 8 * system_.bytes * (now.size - now.lost);
      bad = -std::expm1(bits * std::log1p(-system_.read_error_bit));
      // The restore of a node or a domain reads all its groups.
      const bool together = now.by_common == m_;
      Lose(i, repair_ * bad, together ? company_.Share(now.nodes_gone, now.domains_gone, false, bad) : 1);
    }
    Move(i, Number(Sorted(std::move(to))), repair_ * (1 - bad));
  }

  // Adds losses by bad blocks: any new one if no parity is left; if one parity is left, a second one in a row that has one
  // already.
  void LatentLosses(std::size_t i, const Counts& now) {
    const double left = now.size - now.lost;
    if (now.lost == m_) return Lose(i, left * system_.latent_rate, 1);
    if (now.lost + 1 < m_ || system_.latent_rate <= 0) return;
    const double rows = std::max(1.0, system_.bytes / system_.block_bytes);
    const double age = LatentProbability(1e-9 / system_.scrub_hours, system_.scrub_hours, clears_) / (1e-9 / system_.scrub_hours);
    Lose(i, left * (left - 1) * system_.latent_rate * system_.latent_rate * age / rows, 1);
  }

  // Eliminates states one after the other, from the last. Transitions through an eliminated state become direct transitions.
  std::vector<double> Stationary() const {
    const std::size_t n = states_.size();
    std::vector<double> a(n * n, 0.0);
    for (const auto& [edge, rate] : rates_) a[edge.first * n + edge.second] += rate;
    for (std::size_t k = n - 1; k > 0; --k) {
      double out = 0;
      for (std::size_t j = 0; j < k; ++j) out += a[k * n + j];
      if (out <= 0) continue;
      for (std::size_t i = 0; i < k; ++i) {
        if (a[i * n + k] == 0) continue;
        a[i * n + k] /= out;
        for (std::size_t j = 0; j < k; ++j) {
          if (i != j) a[i * n + j] += a[i * n + k] * a[k * n + j];
        }
      }
    }
    std::vector<double> share(n, 0.0);
    share[0] = 1;
    double sum = 1;
    for (std::size_t k = 1; k < n; ++k) {
      for (std::size_t i = 0; i < k; ++i) share[k] += share[i] * a[i * n + k];
      sum += share[k];
    }
    for (double& one : share) one /= sum;
    return share;
  }

  const PlanSystem& system_;
  const std::uint32_t m_;
  Company& company_;
  const double repair_;
  double clears_ = 0;
  std::map<State, std::size_t> numbers_;
  std::vector<State> states_;
  std::map<std::pair<std::size_t, std::size_t>, double> rates_;
  std::vector<double> group_loss_, system_loss_;
};

}  // namespace

// Adds up the steps of a restore. lzy does some of them at once, so it is faster than this.
double RestoreHours(const PlanSystem& s) {
  return s.replace_hours + s.bytes / s.read_rate + s.bytes / s.parity_rate + s.bytes * s.per_node / s.network_rate +
         s.bytes / s.write_rate;
}

double CommitHours(const PlanSystem& s, const PlanGroups& groups) {
  const double m = groups.parity;
  return s.bytes / s.write_rate + m * s.bytes / s.parity_rate + m * s.bytes * s.per_node / s.network_rate +
         groups.overhead() * s.bytes / s.write_rate;
}

// The age A of the last clean read is the minimum of a uniform and an exponential time: P(A > a) = (1 - a/S) e^-ca. The
// result is 1 - E[e^-rA] = r * integral from 0 to S of e^-ra P(A > a) da.
double LatentProbability(double rate, double scrub, double clears) {
  if (rate <= 0) return 0;
  const double x = (rate + clears) * scrub;
  // 1/x - (1 - e^-x)/x^2; for small x these terms cancel.
  const double integral = x < 1e-4 ? 0.5 - x / 6 : 1 / x + std::expm1(-x) / (x * x);
  return rate * scrub * integral;
}

Result<LossRates> ChainLosses(const PlanSystem& system, const PlanGroups& groups, Company& company) {
  std::map<GroupShape, double> shapes;
  for (const auto& group : groups.groups) ++shapes[ShapeOf(system, group)];
  LossRates all;
  for (const auto& [shape, count] : shapes) {
    LZY_ASSIGN_OR_RETURN(const LossRates one, GroupChain(system, groups.parity, shape, company).Solve());
    all.system += count * one.system;
    all.group += count * one.group;
    all.states = std::max(all.states, one.states);
  }
  return all;
}

}  // namespace lzy
