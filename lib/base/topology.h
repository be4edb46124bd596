#pragma once
// How what one process knows is brought to all others: what options name and communicators do (comm/multicast.h).

#include <cstdint>
#include <optional>
#include <string>

namespace lzy {

enum class Topology : std::uint8_t {
  kAuto = 0,          ///< the cheapest of the others, by a CostModel
  kBcast = 1,         ///< MPI_Bcast, which knows nothing of groups
  kPipelined = 2,     ///< leaders in a line
  kDaisy = 3,         ///< leaders are a group of their own, whose leader is the root
  kHierarchical = 4,  ///< leaders in a binary tree
  kHypercube = 5,     ///< leaders at the corners of a cube, doubled along one dimension after another
};

/// "auto", "bcast", "pipelined", ...
const char* TopologyName(Topology topology);

/// What a message of b bytes costs (LogP, with a time per byte): its sender is busy for gap + b·byte_time, and it has arrived
/// `latency` later. Seconds.
struct CostModel {
  double latency = 0;
  double gap = 0;
  double byte_time = 0;
};

/// A topology as somebody asks for it.
struct TopologyChoice {
  Topology topology = Topology::kAuto;
  std::optional<CostModel> costs;  ///< of kAuto; none: measured, where that is worth it
};

/// A name, or "auto:LATENCY:GAP:BANDWIDTH" with the costs in microseconds, microseconds and megabytes (10^6) a second, the last
/// above 0. nullopt for anything else.
std::optional<TopologyChoice> ParseTopology(const std::string& text);
/// What ParseTopology reads so; costs in at most ten digits.
std::string TopologyText(const TopologyChoice& choice);

}  // namespace lzy
