#include "plan/system.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <unordered_map>

#include "geometry/grouping.h"

namespace lzy {
namespace {

constexpr int kCompanySamples = 300;
constexpr int kMostTries = 3000;
constexpr double kSmallProbability = 1e-9;

/// Picks `count` of distinct `values`, without order.
template <class Random>
void PickFirst(std::vector<std::uint32_t>& values, std::size_t count, Random& random) {
  for (std::size_t i = 0; i < count; ++i) std::swap(values[i], values[i + random() % (values.size() - i)]);
  values.resize(count);
}

}  // namespace

PlanSystem PlanSystem::Accelerated(double factor) const {
  PlanSystem out = *this;
  out.device_rate *= factor;
  out.node_rate *= factor;
  out.domain_rate *= factor;
  out.crash_rate *= factor;
  out.latent_rate *= factor;
  return out;
}

double PlanGroups::overhead() const {
  double data = 0, parity_bytes = 0;
  for (const auto& group : groups) {
    const double n = static_cast<double>(group.size());
    data += n;
    if (n > parity) parity_bytes += n * parity / (n - parity);
  }
  return data == 0 ? 0 : parity_bytes / data;
}

PlanGroups DealPlanGroups(const PlanSystem& system, std::uint32_t n, std::uint32_t m) {
  // A job sets LZY_DOMAIN to the domain; without it, the domain is the node.
  std::vector<std::string> names(system.devices);
  const std::uint32_t together = system.per_node * std::max(1u, system.nodes_per_domain);
  for (std::uint32_t d = 0; d < system.devices; ++d) names[d] = std::to_string(d / together);
  Grouping dealt = DealGroups(names, n, m);
  PlanGroups out;
  out.asked = n;
  out.parity = dealt.parity;
  out.worst_share = dealt.worst_domain_share;
  out.too_few = dealt.too_few_devices;
  out.grown = dealt.groups_grown;
  out.groups = std::move(dealt.groups);
  out.group_of.resize(system.devices);
  out.smallest = out.groups.empty() ? 0 : system.devices;
  for (std::uint32_t g = 0; g < out.groups.size(); ++g) {
    const auto size = static_cast<std::uint32_t>(out.groups[g].size());
    out.largest = std::max(out.largest, size);
    out.smallest = std::min(out.smallest, size);
    for (const std::uint32_t d : out.groups[g]) out.group_of[d] = g;
  }
  return out;
}

GroupShape ShapeOf(const PlanSystem& system, const std::vector<std::uint32_t>& group) {
  // Without domains, each node is a domain of its own, which never fails.
  std::map<std::uint32_t, std::map<std::uint32_t, std::uint32_t>> members;
  for (const std::uint32_t d : group) {
    const std::uint32_t node = d / system.per_node;
    ++members[system.nodes_per_domain == 0 ? node : node / system.nodes_per_domain][node];
  }
  GroupShape shape;
  for (const auto& [domain, nodes] : members) {
    std::vector<std::uint32_t>& sizes = shape.emplace_back();
    for (const auto& [node, count] : nodes) sizes.push_back(count);
    std::ranges::sort(sizes);
  }
  std::ranges::sort(shape);
  return shape;
}

const std::vector<std::uint32_t>& Company::Samples(std::uint32_t nodes, std::uint32_t domains, bool more_than_m) {
  const auto [at, fresh] = samples_.try_emplace({{nodes, domains}, more_than_m});
  std::vector<std::uint32_t>& samples = at->second;
  if (!fresh || groups_.groups.empty()) return samples;
  std::mt19937_64 random(20251125);  // a fixed seed: the same table each time
  const std::uint32_t a_domain = system_.per_node * std::max(1u, system_.nodes_per_domain);
  for (int i = 0; i < kMostTries && samples.size() < kCompanySamples; ++i) {
    const std::uint32_t g = static_cast<std::uint32_t>(random() % groups_.groups.size());
    std::vector<std::uint32_t> in_group;  // its domains
    for (const std::uint32_t d : groups_.groups[g]) in_group.push_back(d / a_domain);
    std::ranges::sort(in_group);
    in_group.erase(std::unique(in_group.begin(), in_group.end()), in_group.end());
    if (in_group.size() < domains) return samples;
    PickFirst(in_group, domains, random);
    std::vector<std::uint32_t> nodes_left;
    for (const std::uint32_t d : groups_.groups[g]) {
      if (std::ranges::find(in_group, d / a_domain) == in_group.end()) nodes_left.push_back(d / system_.per_node);
    }
    std::ranges::sort(nodes_left);
    nodes_left.erase(std::unique(nodes_left.begin(), nodes_left.end()), nodes_left.end());
    if (nodes_left.size() < nodes) return samples;
    PickFirst(nodes_left, nodes, random);
    std::unordered_map<std::uint32_t, std::uint32_t> lost;  // by group
    const auto lose = [&](std::uint32_t first, std::uint32_t count) {
      const std::uint64_t end = std::min<std::uint64_t>(std::uint64_t{first} + count, system_.devices);
      for (std::uint64_t d = first; d < end; ++d) ++lost[groups_.group_of[d]];
    };
    for (const std::uint32_t domain : in_group) lose(domain * a_domain, a_domain);
    for (const std::uint32_t node : nodes_left) lose(node * system_.per_node, system_.per_node);
    const auto counts = [&](std::uint32_t n) { return more_than_m ? n > groups_.parity : n == groups_.parity; };
    if (!counts(lost[g])) continue;
    samples.push_back(static_cast<std::uint32_t>(std::ranges::count_if(lost, [&](const auto& one) { return counts(one.second); })));
  }
  return samples;
}

double Company::Share(std::uint32_t nodes, std::uint32_t domains, bool more_than_m, double p) {
  if (nodes + domains == 0) return 1;
  const std::vector<std::uint32_t>& samples = Samples(nodes, domains, more_than_m);
  if (samples.empty()) return 1;
  double sum = 0;
  for (const std::uint32_t k : samples) {
    if (p == 0) {
      sum += 1.0 / k;
    } else {
      sum += p < kSmallProbability ? 1 : -std::expm1(k * std::log1p(-std::min(p, 1 - 1e-15))) / (k * p);
    }
  }
  return sum / static_cast<double>(samples.size());
}

}  // namespace lzy
