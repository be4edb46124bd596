#include "dataset/sights.h"

#include <algorithm>
#include <array>
#include <set>

#include "names/lookup.h"
#include "sidecar/names.h"

namespace lzy {

Result<std::vector<std::vector<std::uint32_t>>> GatherSeen(Communicator& comm, const DatasetRef& ref) {
  ByteWriter out;
  for (const auto& [rank, path] : ref.members) out.Put(rank);
  LZY_ASSIGN_OR_RETURN(const auto all, comm.AllGather(out.bytes()));
  std::vector<std::vector<std::uint32_t>> seen(all.size());
  for (std::size_t p = 0; p < all.size(); ++p) {
    ByteReader in(all[p]);
    while (in.remaining() >= 4) seen[p].push_back(in.Get<std::uint32_t>());
  }
  return seen;
}

namespace {

// What a process sees a member as: of a set (as time or uuid tell), of a commit. Nothing where it has no usable sidecar.
struct SeenState {
  bool committed = false;
  Uuid uuid{};
  std::uint64_t generation = 0;
  std::int64_t wall_time_ns = 0;

  bool IsOlderThan(const SeenState& other) const {
    if (!committed || !other.committed) return !committed && other.committed;
    return uuid == other.uuid ? generation < other.generation : wall_time_ns < other.wall_time_ns;
  }
};

}  // namespace

Status DropOldSights(const Context& context, const DatasetRef& ref, std::vector<std::vector<std::uint32_t>>& seen) {
  if (std::all_of(seen.begin(), seen.end(), [&](const auto& one) { return one == seen[0]; })) return Status::Ok();
  std::map<std::uint32_t, int> seers;
  for (const auto& ranks : seen) {
    for (const std::uint32_t rank : ranks) ++seers[rank];
  }
  std::erase_if(seers, [](const auto& entry) { return entry.second < 2; });
  if (seers.empty()) return Status::Ok();
  ByteWriter out;
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] {
    for (const auto& [rank, path] : ref.members) {
      if (!seers.contains(rank)) continue;
      const auto sidecar = FindSidecar(context.fs, path);
      const auto peek = sidecar.ok() ? PeekSidecar(context.fs, *sidecar) : Result<Peek>(sidecar.status());
      out.Put(rank);
      out.Put<std::uint8_t>(peek.ok() && peek->committed);
      out.PutBytes(peek.ok() ? peek->uuid : Uuid{});
      out.Put<std::uint64_t>(peek.ok() ? peek->generation : 0);
      out.Put<std::int64_t>(peek.ok() ? peek->wall_time_ns : 0);
    }
    return Status::Ok();
  }));
  LZY_ASSIGN_OR_RETURN(const auto all, context.comm.AllGather(out.bytes()));
  std::map<std::uint32_t, SeenState> newest;
  std::vector<std::map<std::uint32_t, SeenState>> states(all.size());
  for (std::size_t p = 0; p < all.size(); ++p) {
    ByteReader in(all[p]);
    while (in.remaining() > 0 && in.ok()) {
      const auto rank = in.Get<std::uint32_t>();
      SeenState& state = states[p][rank];
      state.committed = in.Get<std::uint8_t>() != 0;
      if (const ByteSpan raw = in.GetBytes(state.uuid.size()); raw.size() == state.uuid.size()) {
        std::copy(raw.begin(), raw.end(), state.uuid.begin());
      }
      state.generation = in.Get<std::uint64_t>();
      state.wall_time_ns = in.Get<std::int64_t>();
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

std::map<std::uint32_t, int> AssignOwners(const std::vector<std::vector<std::uint32_t>>& seen) {
  std::map<std::uint32_t, std::vector<int>> seers;
  for (std::size_t p = 0; p < seen.size(); ++p) {
    for (std::uint32_t rank : seen[p]) seers[rank].push_back(static_cast<int>(p));
  }
  std::vector<std::size_t> load(seen.size(), 0);
  std::map<std::uint32_t, int> owner;
  for (const auto& [rank, candidates] : seers) {
    int best = candidates.front();
    for (int p : candidates) {
      if (static_cast<std::uint32_t>(p) == rank) {
        best = p;
        break;
      }
      if (load[p] < load[best]) best = p;
    }
    owner[rank] = best;
    ++load[best];
  }
  return owner;
}

Result<std::map<std::uint32_t, Summary>> ExchangeSummaries(Communicator& comm, const std::vector<Summary>& mine) {
  ByteWriter out;
  for (const Summary& s : mine) PutSummary(out, s);
  LZY_ASSIGN_OR_RETURN(const auto all, comm.AllGather(out.bytes()));
  std::map<std::uint32_t, Summary> merged;
  for (const auto& bytes : all) {
    ByteReader in(bytes);
    while (in.remaining() > 0) {
      LZY_ASSIGN_OR_RETURN(Summary s, GetSummary(in));
      merged.emplace(s.rank, std::move(s));
    }
  }
  return merged;
}

namespace {

// Where members that nobody sees could be made, as this process knows it.
Result<std::vector<std::uint8_t>> LookAtSites(FileSystem& fs, const DatasetRef& ref, const std::vector<LostMember>& missing) {
  ByteWriter out;
  for (const LostMember& member : missing) {
    const std::string path = ExpandPattern(ref.path, member.rank);
    // What must not be looked at is not missing.
    if (const auto data = fs.Stat(path); !data.ok() && data.status().code() == Code::kIo) return data.status();
    const auto stat = fs.Stat(DirectoryOf(path));
    const bool reachable = stat.ok() && stat->type == FileStat::Type::kDirectory;
    out.Put<std::uint8_t>(reachable);
    out.Put<std::uint64_t>(reachable ? stat->device : 0);
    const auto room = fs.FreeBytes(DirectoryOf(path));
    out.Put<std::uint64_t>(reachable && room.ok() ? *room : 0);
  }
  return std::move(out.bytes());
}

// Which groups' members only one of `places` (by process) sees, by place. Nothing where all are one place.
std::map<std::string, std::multiset<std::uint32_t>> ResidentsOf(const std::vector<std::string>& places,
                                                               const std::vector<std::vector<std::uint32_t>>& seen,
                                                               const std::map<std::uint32_t, std::uint32_t>& group_of) {
  std::map<std::string, std::multiset<std::uint32_t>> residents;
  if (std::all_of(places.begin(), places.end(), [&](const auto& place) { return place == places[0]; })) return residents;
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

Result<Places> GatherPlaces(const Context& context, const DatasetRef& ref, const std::vector<LostMember>& missing,
                            const std::vector<std::vector<std::uint32_t>>& seen,
                            const std::map<std::uint32_t, std::uint32_t>& group_of) {
  std::vector<std::uint8_t> mine;
  ByteWriter where;
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&]() -> Status {
    where.PutString(context.comm.ProcessorName());
    where.PutString(context.options.domain);
    LZY_ASSIGN_OR_RETURN(mine, LookAtSites(context.fs, ref, missing));
    return Status::Ok();
  }));
  LZY_ASSIGN_OR_RETURN(const auto nodes, context.comm.AllGather(where.bytes()));
  LZY_ASSIGN_OR_RETURN(const auto sites, context.comm.AllGather(mine));
  Places places;
  bool by_domain = false;
  for (const auto& bytes : nodes) {
    ByteReader in(bytes);
    places.nodes.push_back(in.GetString(kMaxNameBytes));
    const std::string domain = in.GetString(kMaxNameBytes);
    by_domain = by_domain || !domain.empty();
    places.domains.push_back(domain.empty() ? places.nodes.back() : domain);
  }
  for (const auto& bytes : sites) {
    ByteReader in(bytes);
    auto& own = places.sites.emplace_back(missing.size());
    for (Site& site : own) {
      site.reachable = in.Get<std::uint8_t>() != 0;
      site.file_system = in.Get<std::uint64_t>();
      site.room = in.Get<std::uint64_t>();
    }
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
