#pragma once
// Which process makes a member of a set again that no process sees (lzy-restore, docs/node-died.md).
//
// Members of one group in one failure domain are lost together. So a lost member goes to a domain and a node that have
// no other member of its group, as long as there is one. Pure: it decides by what the ranks have told each other, and
// all of them decide alike. OpenSet asks it before the lost members are made.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/record.h"
#include "base/status.h"

namespace lzy {

/// Where lost members go, where nodes have disks of their own.
enum class Placing {
  kApart,  ///< to the domains, then nodes, with the fewest members of the group, then of all
  kRoom,   ///< to those, then to most room; only where there is room for all that they get
  kHome,   ///< to the process of the member's own number, which is about to look for it there
};

/// Which absent members of a set are lost, though the nodes on which they were written take no part in the command, and may
/// have them on disks of their own.
struct LostNodes {
  std::vector<std::string> named;  ///< nodes that are gone for good
  bool all = false;                ///< all of them
  /// All of them if the command runs on as many nodes as the set was written on: then others have taken their place.
  bool replaced = false;
};

/// The names in a list with commas between them.
std::vector<std::string> NodesIn(const std::string& list);

/// A member that is to be made again.
struct LostMember {
  std::uint32_t rank = 0;
  std::uint32_t group = 0;    ///< any number that those coded together have in common
  std::uint64_t bytes = 0;    ///< that it will take, its sidecar included
};

/// What a process knows of the directory in which a lost member would be.
struct Site {
  bool reachable = false;         ///< it is there
  std::uint64_t file_system = 0;  ///< alike for sites of one node that share room
  std::uint64_t room = 0;         ///< free bytes of it
  LZY_FIELDS(reachable, file_system, room)
};

/// What all processes have told (GatherPlaces); vectors are by rank in the communicator.
struct Places {
  std::vector<std::string> nodes;              ///< by process: the name of its node
  std::vector<std::string> domains;            ///< by process: its failure domain; empty: nothing is known but nodes
  std::vector<std::vector<Site>> sites;        ///< by process, by lost member
  /// By node: groups of which it has members that no other node sees, one entry a member. Empty where all see all.
  std::map<std::string, std::multiset<std::uint32_t>> residents;
  /// The same by domain, of members that no other domain sees.
  std::map<std::string, std::multiset<std::uint32_t>> domain_residents;
};

/// A process for each lost member, by rank; the same wherever it is called with the same. Among equally good ones that
/// of the member's own number (modulo their count), else the first, which reach the member's directory; so for all
/// where all nodes see all. With kRoom kIo where there is none, naming the first member that does not fit.
Result<std::map<std::uint32_t, int>> PlaceLost(Places places, const std::vector<LostMember>& lost, Placing placing);

}  // namespace lzy
