#pragma once
// Decides which process makes a member of a set again that no process sees (lzy-restore, docs/node-died.md).
//
// Members in one failure domain are lost together. So a lost member goes to a domain and a node without another member of
// its group, if there is one. OpenSet calls PlaceLost before the lost members are made. No I/O: the decision follows from
// data that all ranks have exchanged, so all ranks decide alike.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/record.h"
#include "base/status.h"

namespace lzy {

/// Where lost members go if nodes have disks of their own.
enum class Placing {
  kApart,  ///< to the domain, then the node, with the fewest members of the group; then to the node with the fewest members of all
  kRoom,   ///< as kApart, but only to nodes with enough free space; the third criterion is the most free space
  kHome,   ///< to the process whose rank is the number of the member, because it will look for it there
};

/// Absent members that count as lost although their nodes take no part in the command (and may have them on their disks).
struct LostNodes {
  std::vector<std::string> named;  ///< nodes that are gone for good; members on them are lost
  bool all = false;                ///< all absent members are lost
  /// All absent members are lost if the command runs on as many nodes as the set was written on: then other nodes have taken
  /// the place of lost ones.
  bool replaced = false;
};

/// Splits a list of names at commas.
std::vector<std::string> NodesIn(const std::string& list);

/// A member that will be made again.
struct LostMember {
  std::uint32_t rank = 0;
  std::uint32_t group = 0;    ///< any number that identifies the group
  std::uint64_t bytes = 0;    ///< the space that it and its sidecar will take
};

/// What a process knows about the directory of a lost member.
struct Site {
  bool reachable = false;         ///< the directory exists
  std::uint64_t file_system = 0;  ///< equal for directories of one node that share their free space
  std::uint64_t room = 0;         ///< free bytes
  LZY_FIELDS(reachable, file_system, room)
};

/// The data of all processes for PlaceLost, the same on all (GatherPlaces). Vectors are indexed by process.
struct Places {
  std::vector<std::string> nodes;              ///< name of the process's node
  std::vector<std::string> domains;            ///< failure domain of the process; empty vector: only nodes are known
  std::vector<std::vector<Site>> sites;        ///< by process, by lost member
  /// By node: the group of each member that no other node sees. Empty if all nodes see the same.
  std::map<std::string, std::multiset<std::uint32_t>> residents;
  /// By domain: the group of each member that no other domain sees.
  std::map<std::string, std::multiset<std::uint32_t>> domain_residents;
};

/// Chooses a process for each lost member; the result is by rank of the member. Equal arguments give equal results.
///
/// Considers only processes that reach the directory of the member. Among equally good ones, takes the process whose rank is
/// the number of the member (modulo the number of processes), else the first. If no process reaches the directory, takes the
/// process whose rank is the number of the member. With kRoom, returns kIo if no node has enough free space, and names the first member
/// that does not fit.
Result<std::map<std::uint32_t, int>> PlaceLost(Places places, const std::vector<LostMember>& lost, Placing placing);

}  // namespace lzy
