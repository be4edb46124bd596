// Each rank tells which members it sees, and all ranks decide from the same lists. No decision may depend on what one rank
// alone knows: that rank would make other collective calls than the others.

#include "dataset/sights.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "comm/records.h"
#include "names/lookup.h"
#include "sidecar/names.h"

namespace lzy {

namespace {

bool IsSameNode(std::string_view a, std::string_view b) {
  if (a == b) return true;
  const auto is_domain_of = [](std::string_view shorter, std::string_view longer) {
    return !shorter.empty() && longer.starts_with(shorter) && longer.substr(shorter.size()).starts_with('.');
  };
  return is_domain_of(a, b) || is_domain_of(b, a);
}

// The commit of a member that a process sees. `committed` is false if the process sees no usable sidecar.
struct SeenState {
  bool committed = false;
  Uuid uuid{};
  std::uint64_t generation = 0;
  std::int64_t wall_time_ns = 0;
  LZY_FIELDS(committed, uuid, generation, wall_time_ns)

  bool IsOlderThan(const SeenState& other) const {
    if (!committed || !other.committed) return !committed && other.committed;
    return uuid == other.uuid ? generation < other.generation : wall_time_ns < other.wall_time_ns;
  }
};

// For each member of `missing`, in this order: the directory where this process would make it.
Result<std::vector<Site>> LookAtSites(FileSystem& fs, const DatasetRef& ref, const std::vector<LostMember>& missing) {
  std::vector<Site> sites;
  for (const LostMember& member : missing) {
    const std::string path = ExpandPattern(ref.path, member.rank);
    // A file that may not be examined is not missing.
    if (const auto data = fs.Stat(path); !data.ok() && data.status().code() == Code::kIo) return data.status();
    const auto stat = fs.Stat(DirectoryOf(path));
    const bool reachable = stat.ok() && stat->type == FileStat::Type::kDirectory;
    const auto room = fs.FreeBytes(DirectoryOf(path));
    sites.push_back({reachable, reachable ? stat->file_system : 0, reachable && room.ok() ? *room : 0});
  }
  return sites;
}

// By place: the groups of the members that only processes of this place see. `places` has a place (node or domain) for each
// process. A member that several places see is not lost with one of them, so it does not count. Empty if there is only one
// place.
std::map<std::string, std::multiset<std::uint32_t>> ResidentsOf(const std::vector<std::string>& places,
                                                               const std::vector<std::vector<std::uint32_t>>& seen,
                                                               const std::map<std::uint32_t, std::uint32_t>& group_of) {
  std::map<std::string, std::multiset<std::uint32_t>> residents;
  if (std::ranges::all_of(places, [&](const auto& place) { return place == places[0]; })) return residents;
  std::map<std::uint32_t, std::set<std::string>> seen_on;
  for (std::size_t p = 0; p < seen.size(); ++p) {
    for (const std::uint32_t rank : seen[p]) seen_on[rank].insert(places[p]);
  }
  for (const auto& [rank, on] : seen_on) {
    const auto group = group_of.find(rank);
    if (on.size() == 1 && group != group_of.end()) residents[*on.begin()].insert(group->second);
  }
  return residents;
}

}  // namespace

Result<Sights> GatherSights(Communicator& comm, const DatasetRef& ref) {
  std::pair<std::string, std::vector<std::uint32_t>> mine{comm.ProcessorName(), {}};
  for (const auto& [rank, path] : ref.members) mine.second.push_back(rank);
  LZY_ASSIGN_OR_RETURN(auto all, AllGatherRecords(comm, mine));
  Sights sights;
  for (auto& [node, seen] : all) {
    sights.nodes.push_back(std::move(node));
    sights.seen.push_back(std::move(seen));
  }
  return sights;
}

// If a member was made again on another node, only its own sidecar names that node. The sidecars of its group name the old
// one.
void MemberNodes::Add(std::uint32_t rank, const std::vector<std::uint32_t>& group, const WrittenOn& on) {
  if (on.nodes.size() != group.size()) return;
  count = std::max(count, on.count);
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (group[i] == rank) own[rank] = on.nodes[i];
    told.try_emplace(group[i], on.nodes[i]);
  }
}

bool HasNode(const std::set<std::string>& nodes, const std::string& node) {
  return std::ranges::any_of(nodes, [&](const std::string& one) { return IsSameNode(one, node); });
}

// If a process sees a member of a node without a process, the file system is shared. Then absent members are lost.
bool MayBeElsewhere(const MemberNodes& members, const std::set<std::string>& here, const LostNodes& lost) {
  if (members.count == 0 || lost.all || (lost.replaced && here.size() >= members.count)) return false;
  return std::ranges::all_of(members.own, [&](const auto& member) { return HasNode(here, member.second); });
}

// Only a member that several processes see can have several copies. Their generations are compared.
Status DropOldSights(const Context& context, const DatasetRef& ref, std::vector<std::vector<std::uint32_t>>& seen) {
  if (std::ranges::all_of(seen, [&](const auto& one) { return one == seen[0]; })) return Status::Ok();
  std::map<std::uint32_t, int> seers;
  for (const auto& ranks : seen) {
    for (const std::uint32_t rank : ranks) ++seers[rank];
  }
  std::erase_if(seers, [](const auto& entry) { return entry.second < 2; });
  if (seers.empty()) return Status::Ok();
  std::map<std::uint32_t, SeenState> mine;
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] {
    for (const auto& [rank, path] : ref.members) {
      if (!seers.contains(rank)) continue;
      SeenState& state = mine[rank];
      const auto peek = FindAndPeek(context.fs, path);
      if (peek.ok()) state = {peek->committed, peek->uuid, peek->generation, peek->wall_time_ns};
    }
  }));
  LZY_ASSIGN_OR_RETURN(const auto states, AllGatherRecords(context.comm, mine));
  std::map<std::uint32_t, SeenState> newest;
  for (const auto& theirs : states) {
    for (const auto& [rank, state] : theirs) {
      const auto [at, fresh] = newest.emplace(rank, state);
      if (!fresh && at->second.IsOlderThan(state)) at->second = state;
    }
  }
  for (std::size_t p = 0; p < seen.size(); ++p) {
    std::erase_if(seen[p], [&](std::uint32_t rank) {
      const auto state = states[p].find(rank);
      return state != states[p].end() && state->second.IsOlderThan(newest.at(rank));
    });
  }
  return Status::Ok();
}

// The process with the number of the member wrote it, so its node most likely has it in its cache.
std::map<std::uint32_t, int> AssignOwners(const std::vector<std::vector<std::uint32_t>>& seen) {
  std::map<std::uint32_t, std::vector<int>> seers;
  for (std::size_t p = 0; p < seen.size(); ++p) {
    for (std::uint32_t rank : seen[p]) seers[rank].push_back(static_cast<int>(p));
  }
  std::vector<std::size_t> load(seen.size(), 0);
  std::map<std::uint32_t, int> owner;
  for (const auto& [rank, candidates] : seers) {
    const auto own = std::ranges::find(candidates, static_cast<int>(rank));
    const auto idlest = std::ranges::min_element(candidates, {}, [&](int p) { return load[p]; });
    owner[rank] = *(own != candidates.end() ? own : idlest);
    ++load[owner[rank]];
  }
  return owner;
}

Result<std::map<std::uint32_t, Summary>> ExchangeSummaries(Communicator& comm, const std::vector<Summary>& mine) {
  LZY_ASSIGN_OR_RETURN(auto all, UniteRecords(comm, mine));
  std::map<std::uint32_t, Summary> merged;
  for (Summary& one : all) merged.emplace(one.rank, std::move(one));
  return merged;
}

Result<Places> GatherPlaces(const Context& context, const DatasetRef& ref, const std::vector<LostMember>& missing,
                            const std::vector<std::vector<std::uint32_t>>& seen,
                            const std::map<std::uint32_t, std::uint32_t>& group_of) {
  struct Place {
    std::string node, domain;
    std::vector<Site> sites;
    LZY_FIELDS(node, domain, sites)
  } mine;
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&]() -> Status {
    mine.node = context.comm.ProcessorName();
    mine.domain = context.options.domain;
    LZY_ASSIGN_OR_RETURN(mine.sites, LookAtSites(context.fs, ref, missing));
    return Status::Ok();
  }));
  LZY_ASSIGN_OR_RETURN(auto all, AllGatherRecords(context.comm, mine));
  Places places;
  bool by_domain = false;
  for (Place& place : all) {
    by_domain = by_domain || !place.domain.empty();
    places.domains.push_back(place.domain.empty() ? place.node : place.domain);
    places.nodes.push_back(std::move(place.node));
    places.sites.push_back(std::move(place.sites));
  }
  places.residents = ResidentsOf(places.nodes, seen, group_of);
  if (by_domain) {
    places.domain_residents = ResidentsOf(places.domains, seen, group_of);
  } else {
    places.domains.clear();
  }
  return places;
}

}  // namespace lzy
