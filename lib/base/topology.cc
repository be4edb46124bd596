#include "base/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <system_error>

namespace lzy {
namespace {

// Indexed by Topology.
constexpr std::array<const char*, 6> kNames = {"auto", "bcast", "pipelined", "daisy", "hierarchical", "hypercube"};
constexpr double kMicrosecond = 1e-6;
constexpr double kMegabyte = 1e6;

}  // namespace

const char* TopologyName(Topology topology) {
  return kNames[static_cast<std::size_t>(topology)];
}

std::optional<TopologyChoice> ParseTopology(const std::string& text) {
  const std::string name = text.substr(0, text.find(':'));
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  TopologyChoice choice{static_cast<Topology>(found - kNames.begin()), {}};
  if (name == text) return choice;
  // Only `auto` takes costs: exactly three numbers, each after a ':'.
  if (choice.topology != Topology::kAuto) return std::nullopt;
  std::array<double, 3> costs{};
  const char* at = text.data() + name.size();
  const char* const end = text.data() + text.size();
  for (double& cost : costs) {
    // A digit comes first: no sign, no "nan".
    if (end - at < 2 || at[0] != ':' || std::isdigit(static_cast<unsigned char>(at[1])) == 0) return std::nullopt;
    // Not strtod: it depends on the locale, which the program may have changed.
    const auto [rest, error] = std::from_chars(at + 1, end, cost);
    if (error != std::errc() || !std::isfinite(cost)) return std::nullopt;
    at = rest;
  }
  if (at != end || costs[2] <= 0) return std::nullopt;
  // A bandwidth near zero makes the time per byte infinite, which would spoil every comparison of costs.
  choice.costs = {costs[0] * kMicrosecond, costs[1] * kMicrosecond, 1 / (costs[2] * kMegabyte)};
  if (!std::isfinite(choice.costs->byte_time)) return std::nullopt;
  return choice;
}

std::string TopologyText(const TopologyChoice& choice) {
  if (!choice.costs) return TopologyName(choice.topology);
  const CostModel& costs = *choice.costs;
  return fmt::format("{}:{:.10g}:{:.10g}:{:.10g}", TopologyName(choice.topology), costs.latency / kMicrosecond,
                     costs.gap / kMicrosecond, 1 / (costs.byte_time * kMegabyte));
}

}  // namespace lzy
