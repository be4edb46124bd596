#pragma once
// Describes a machine for lzy-plan, and deals its devices to groups. Rates are events per hour, times are hours, sizes are
// bytes. No I/O.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace lzy {

inline constexpr double kHoursAYear = 8766;  ///< 365.25 days

/// The machine and the data, as the user describes them.
struct PlanSystem {
  // Placement. Device d is on node d / per_node; node v is in domain v / nodes_per_domain.
  std::uint32_t devices = 0;
  std::uint32_t per_node = 1;
  std::uint32_t nodes_per_domain = 0;  ///< 0: there are no domains above nodes

  // Failures that lose data for good. All are Poisson processes.
  double device_rate = 0;  ///< of one device
  double node_rate = 0;    ///< of one node: loses all its devices
  double domain_rate = 0;  ///< of one domain: loses all its nodes
  double crash_rate = 0;   ///< of one node: ends the job, and loses no data

  // Errors that are not noticed until a scrub or a restore reads the block.
  double latent_rate = 0;     ///< new bad blocks on one device; 0 if there are none
  double read_error_bit = 0;  ///< probability that a bit cannot be read during a restore
  double scrub_hours = 720;   ///< every block is read once in this time

  // Data and speeds.
  double bytes = 0;  ///< on each device
  double block_bytes = 65536;
  double read_rate = 0, write_rate = 0, parity_rate = 0;  ///< of one device, bytes an hour
  double network_rate = 0;                                ///< of one node
  double shared_rate = 0;                                 ///< of the shared file system as a whole; 0: there is none
  double replace_hours = 0;  ///< from the loss of a device until its restore begins

  // How the data are written.
  double interval_hours = 0;  ///< from one commit to the next; 0: the best one for this machine
  double run_hours = 24;      ///< how long the job computes
  bool in_place = false;      ///< each checkpoint overwrites the last one

  std::uint32_t nodes() const { return (devices + per_node - 1) / per_node; }
  std::uint32_t domains() const { return nodes_per_domain == 0 ? 0 : (nodes() + nodes_per_domain - 1) / nodes_per_domain; }
  /// The rates of all failures that lose a device, and of all failures that end a job.
  double losing_rate() const { return devices * device_rate + nodes() * node_rate + domains() * domain_rate; }
  double ending_rate() const { return losing_rate() + nodes() * crash_rate; }
  /// The same machine with all failures and latent errors `factor` times as frequent.
  PlanSystem Accelerated(double factor) const;
};

/// The groups of a set with one member on each device, as a commit deals them (geometry/grouping.h).
struct PlanGroups {
  std::uint32_t asked = 0;   ///< n as requested
  std::uint32_t parity = 0;  ///< m
  std::vector<std::vector<std::uint32_t>> groups;
  std::vector<std::uint32_t> group_of;  ///< by device
  std::uint32_t largest = 0, smallest = 0;
  std::uint32_t worst_share = 1;  ///< most members of one failure domain in one group
  bool too_few = false;           ///< fewer than m + 1 devices: there is no parity
  bool grown = false;             ///< groups are larger than requested

  /// Bytes of parity for each byte of data.
  double overhead() const;
};
PlanGroups DealPlanGroups(const PlanSystem& system, std::uint32_t n, std::uint32_t m);

/// The members of one group by node, and nodes by domain, without names. Equal shapes behave equally.
using GroupShape = std::vector<std::vector<std::uint32_t>>;
GroupShape ShapeOf(const PlanSystem& system, const std::vector<std::uint32_t>& group);

/// Estimates how many groups one failure loses. Several groups share a node, and lose it together. A sum over groups would
/// count such a loss several times.
class Company {
 public:
  Company(const PlanSystem& system, const PlanGroups& groups) : system_(system), groups_(groups) {}
  /// `nodes` nodes and `domains` domains of one group are lost. Averages over all choices of them that leave this group with
  /// more than m lost members (`more_than_m`), or with exactly m. k is the number of groups in the same state. Returns the
  /// mean of 1/k if p = 0, else the mean of (1-(1-p)^k)/(k p).
  double Share(std::uint32_t nodes, std::uint32_t domains, bool more_than_m, double p = 0);

 private:
  const std::vector<std::uint32_t>& Samples(std::uint32_t nodes, std::uint32_t domains, bool more_than_m);
  const PlanSystem& system_;
  const PlanGroups& groups_;
  std::map<std::pair<std::pair<std::uint32_t, std::uint32_t>, bool>, std::vector<std::uint32_t>> samples_;
};

}  // namespace lzy
