#include "plan/simulate.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <random>
#include <vector>

#include "plan/chain.h"

namespace lzy {
namespace {

/// A future event. If its ticket is not the current one, the event is void.
struct Later {
  double time = 0;
  enum Kind : std::uint8_t { kDevice, kNode, kDomain, kBadBlock } kind = kDevice;
  std::uint32_t what = 0;
  std::uint32_t ticket = 0;
  friend bool operator<(const Later& a, const Later& b) { return a.time > b.time; }  // the earliest is on top
};

class Simulation {
 public:
  Simulation(const PlanSystem& system, const PlanGroups& groups, const SimulationLimits& limits)
      : s_(system),
        g_(groups),
        limits_(limits),
        random_(limits.seed),
        restore_(RestoreHours(system)),
        device_lost_(system.devices),
        device_ticket_(system.devices),
        node_lost_(system.nodes()),
        node_ticket_(system.nodes()),
        domain_lost_(system.domains()),
        domain_ticket_(system.domains()),
        lost_in_(groups.groups.size()),
        ticket_(groups.groups.size()),
        cleared_(groups.groups.size()),
        marked_(groups.groups.size()) {
    for (std::size_t i = 0; i < groups.groups.size(); ++i) phase_.push_back(Uniform() * s_.scrub_hours);
  }

  SimulatedLosses Run(double window_share, double interval) {
    const double devices = s_.devices * s_.device_rate, nodes = s_.nodes() * s_.node_rate;
    const double domains = s_.domains() * s_.domain_rate;
    // Draws candidates of bad blocks that meet an older one in their row; Meet rejects some of them.
    const double rows = std::max(1.0, s_.bytes / s_.block_bytes);
    const double meet_bound = std::min(1.0, s_.latent_rate * s_.scrub_hours * g_.largest / rows);
    const double meetings = g_.parity == 0 ? s_.devices * s_.latent_rate : s_.devices * s_.latent_rate * meet_bound;
    const double all = devices + nodes + domains + meetings;
    if (all <= 0) return out_;
    while (out_.system < limits_.wanted_losses && touches_ < limits_.most_touches) {
      const double next = now_ + Exponential(all);
      while (!later_.empty() && later_.top().time <= next) {
        const Later event = later_.top();
        later_.pop();
        now_ = event.time;
        Happen(event);
      }
      now_ = next;
      ++touches_;
      double which = Uniform() * all;
      if ((which -= meetings) < 0) {
        Meet(rows, meet_bound);
        continue;
      }
      ++out_.events;
      // A failure between the first write and the commit loses the new data, whatever else it loses.
      out_.in_window += window_share > 0 && std::fmod(now_, interval) < window_share * interval;
      if ((which -= devices) < 0) {
        LoseDevice(Below(s_.devices));
      } else if ((which -= nodes) < 0) {
        LoseNode(Below(s_.nodes()));
      } else if (s_.domains() > 0) {
        LoseDomain(Below(s_.domains()));
      }
    }
    out_.hours = now_;
    return out_;
  }

 private:
  double Uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  double Exponential(double rate) { return -std::log1p(-Uniform()) / rate; }
  std::uint32_t Below(std::uint32_t n) { return static_cast<std::uint32_t>(Uniform() * n); }
  double RestoreTime() { return limits_.fixed_restores ? restore_ : Exponential(1 / restore_); }

  std::uint32_t NodeOf(std::uint32_t d) const { return d / s_.per_node; }
  bool WholeLost(std::uint32_t node) const {
    return node_lost_[node] || (s_.nodes_per_domain != 0 && domain_lost_[node / s_.nodes_per_domain]);
  }

  // Marks each group once, even if one event touches several of its devices.
  void Touch(std::uint32_t g) {
    if (marked_[g]) return;
    marked_[g] = true;
    touched_.push_back(g);
  }

  void Take(std::uint32_t d) {
    if (device_lost_[d]) return;
    device_lost_[d] = true;
    ++lost_in_[g_.group_of[d]];
    Touch(g_.group_of[d]);
  }
  void Give(std::uint32_t d) {
    if (!device_lost_[d]) return;
    device_lost_[d] = false;
    --lost_in_[g_.group_of[d]];
    Touch(g_.group_of[d]);
  }

  void LoseDevice(std::uint32_t d) {
    if (device_lost_[d]) return;
    Take(d);
    later_.push({now_ + RestoreTime(), Later::kDevice, d, ++device_ticket_[d]});
    Judge();
  }
  template <class Each>
  void DevicesOf(std::uint32_t node, Each each) {
    const std::uint32_t end = std::min(s_.devices, (node + 1) * s_.per_node);
    for (std::uint32_t d = node * s_.per_node; d < end; ++d) each(d);
  }
  template <class Each>
  void NodesOf(std::uint32_t domain, Each each) {
    const std::uint32_t end = std::min(s_.nodes(), (domain + 1) * s_.nodes_per_domain);
    for (std::uint32_t v = domain * s_.nodes_per_domain; v < end; ++v) each(v);
  }
  // The restore of a node replaces those of its devices, and the restore of a domain those of its nodes.
  void TakeNode(std::uint32_t node) {
    DevicesOf(node, [&](std::uint32_t d) {
      ++touches_;
      ++device_ticket_[d];
      Take(d);
    });
  }
  void LoseNode(std::uint32_t node) {
    if (WholeLost(node)) return;
    TakeNode(node);
    node_lost_[node] = true;
    later_.push({now_ + RestoreTime(), Later::kNode, node, ++node_ticket_[node]});
    Judge();
  }
  void LoseDomain(std::uint32_t domain) {
    if (domain_lost_[domain]) return;
    NodesOf(domain, [&](std::uint32_t v) {
      ++node_ticket_[v];
      node_lost_[v] = false;
      TakeNode(v);
    });
    domain_lost_[domain] = true;
    later_.push({now_ + RestoreTime(), Later::kDomain, domain, ++domain_ticket_[domain]});
    Judge();
  }

  void Happen(const Later& event) {
    switch (event.kind) {
      case Later::kDevice:
        if (device_ticket_[event.what] == event.ticket) EndRestore([&](auto each) { each(event.what); });
        return;
      case Later::kNode:
        if (node_ticket_[event.what] != event.ticket) return;
        node_lost_[event.what] = false;
        return EndRestore([&](auto each) { DevicesOf(event.what, each); });
      case Later::kDomain:
        if (domain_ticket_[event.what] != event.ticket) return;
        domain_lost_[event.what] = false;
        return EndRestore([&](auto each) { NodesOf(event.what, [&](std::uint32_t v) { DevicesOf(v, each); }); });
      case Later::kBadBlock:
        if (ticket_[event.what] != event.ticket) return;
        ++out_.system;
        ++out_.group;
        return Renew(event.what);
    }
  }

  // To restore the devices, all other devices of their groups were read.
  template <class All>
  void EndRestore(All all) {
    std::vector<std::uint32_t> failed;
    if (s_.read_error_bit > 0) {
      all([&](std::uint32_t d) {
        const std::uint32_t g = g_.group_of[d];
        if (!device_lost_[d] || lost_in_[g] != g_.parity || marked_[g]) return;
        Touch(g);  // one read for all its devices
        const double bits = 8 * s_.bytes * static_cast<double>(g_.groups[g].size() - lost_in_[g]);
        if (Uniform() < -std::expm1(bits * std::log1p(-s_.read_error_bit))) failed.push_back(g);
      });
    }
    all([&](std::uint32_t d) { Give(d); });
    for (const std::uint32_t g : touched_) {
      cleared_[g] = now_;
      ++ticket_[g];  // parity is left again
      marked_[g] = false;
    }
    touched_.clear();
    out_.system += !failed.empty();
    out_.group += failed.size();
    for (const std::uint32_t g : failed) Renew(g);
  }

  // After failures: judges which groups are lost, and which have no parity left.
  void Judge() {
    bool any = false;
    for (const std::uint32_t g : touched_) {
      marked_[g] = false;
      bool lost = lost_in_[g] > g_.parity;
      if (!lost && lost_in_[g] == g_.parity && s_.latent_rate > 0) {
        const double rate = s_.latent_rate * static_cast<double>(g_.groups[g].size() - lost_in_[g]);
        lost = Uniform() < -std::expm1(-rate * Age(g));
        if (!lost) later_.push({now_ + Exponential(rate), Later::kBadBlock, g, ++ticket_[g]});
      }
      if (!lost) continue;
      any = true;
      ++out_.group;
      Renew(g);
    }
    touched_.clear();
    out_.system += any;
  }

  // Time since all blocks of the group were last read: by a scrub or a restore.
  double Age(std::uint32_t g) const {
    const double scrubbed = std::fmod(now_ + phase_[g], s_.scrub_hours);
    return std::min(scrubbed, now_ - cleared_[g]);
  }

  // The data of a lost group come back from elsewhere, on new devices.
  void Renew(std::uint32_t g) {
    for (const std::uint32_t d : g_.groups[g]) {
      ++device_ticket_[d];
      device_lost_[d] = false;
    }
    lost_in_[g] = 0;
    ++ticket_[g];
    cleared_[g] = now_;
  }

  // A new bad block. Without parity it is a loss. If one more parity than lost devices is left, it is a loss if its row has
  // a bad block already. Candidates come at a rate that is not lower than that of such blocks; this function accepts the
  // right share.
  void Meet(double rows, double bound) {
    const std::uint32_t d = Below(s_.devices), g = g_.group_of[d];
    if (device_lost_[d] || lost_in_[g] + 1 < g_.parity || lost_in_[g] > g_.parity) return;
    if (g_.parity != 0) {
      if (lost_in_[g] == g_.parity) return;  // its next bad block is scheduled already
      const double others = static_cast<double>(g_.groups[g].size() - lost_in_[g]) - 1;
      if (Uniform() * bound >= others * s_.latent_rate * Age(g) / rows) return;
    }
    ++out_.system;
    ++out_.group;
    Renew(g);
  }

  const PlanSystem& s_;
  const PlanGroups& g_;
  const SimulationLimits& limits_;
  std::mt19937_64 random_;
  const double restore_;
  double now_ = 0;
  std::uint64_t touches_ = 0;
  std::vector<bool> device_lost_;
  std::vector<std::uint32_t> device_ticket_;
  std::vector<bool> node_lost_;
  std::vector<std::uint32_t> node_ticket_;
  std::vector<bool> domain_lost_;
  std::vector<std::uint32_t> domain_ticket_;
  std::vector<std::uint32_t> lost_in_;  // devices, by group
  std::vector<std::uint32_t> ticket_;   // of a group's next bad block
  std::vector<double> cleared_;         // when a restore last read the group
  std::vector<bool> marked_;
  std::vector<double> phase_;
  std::vector<std::uint32_t> touched_;
  std::priority_queue<Later> later_;
  SimulatedLosses out_;
};

}  // namespace

SimulatedLosses Simulate(const PlanSystem& system, const PlanGroups& groups, double window_share, double interval,
                         const SimulationLimits& limits) {
  return Simulation(system, groups, limits).Run(window_share, interval);
}

}  // namespace lzy
