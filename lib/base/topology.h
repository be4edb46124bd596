#pragma once
// Topologies of broadcasts (docs/design/overview.md §2, "Broadcasts"): the names and costs in option `topology`
// (request/options). comm/multicast.h turns them into schedules of messages. Pure; no MPI.

#include <cstdint>
#include <optional>
#include <string>

#include "base/record.h"

namespace lzy {

/// Shapes of a broadcast over groups, each with a leader. Ranks send these numbers to each other: never reuse one.
enum class Topology : std::uint8_t {
  kAuto = 0,          ///< the cheapest of the others, by a CostModel
  kBcast = 1,         ///< MPI_Bcast, which does not use groups
  kPipelined = 2,     ///< leaders in a line
  kDaisy = 3,         ///< leaders are a group of their own, whose leader is the root
  kHierarchical = 4,  ///< leaders in a binary tree
  kHypercube = 5,     ///< leaders at the corners of a cube, doubled along one dimension after another
};

/// "auto", "bcast", "pipelined", ...
const char* TopologyName(Topology topology);

/// The cost of a message of b bytes, in seconds (LogP with a time per byte). The sender is busy for gap + b·byte_time; the
/// message arrives `latency` after that.
struct CostModel {
  double latency = 0;
  double gap = 0;
  double byte_time = 0;  ///< seconds per byte
  LZY_FIELDS(latency, gap, byte_time)
};

/// The choice of the user.
struct TopologyChoice {
  Topology topology = Topology::kAuto;
  /// Only with kAuto. If not set, lzy measures the costs if that pays.
  std::optional<CostModel> costs;
};

/// Parses a name, or "auto:LATENCY:GAP:BANDWIDTH" with microseconds, microseconds and megabytes (10^6 bytes) per
/// second. The bandwidth must be above 0. nullopt for anything else.
std::optional<TopologyChoice> ParseTopology(const std::string& text);
/// The inverse: a text for ParseTopology. Costs are rounded to ten digits.
std::string TopologyText(const TopologyChoice& choice);

}  // namespace lzy
