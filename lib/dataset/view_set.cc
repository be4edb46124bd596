// A set opened: each member by its owner, and what all of them make of their sidecars.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "dataset/contents.h"
#include "dataset/lock.h"
#include "dataset/member.h"
#include "dataset/placement.h"
#include "names/lookup.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// Who sees which members: lists of ranks, by process.
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

// Members of which nodes have files of their own: one that was away has its old one, when another was put in its place meanwhile.
// Leaves only those who see the newest. Where all processes see the same there is one file system, and nothing is looked at.
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

// An owner for every member: the process of the same number if it sees the member, else the least busy one that does.
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

// What each process knows of its node, and which members are on one node, or in one failure domain, only.
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

// Of the members with the generation of `newest`, one that holds the dataset root that most of them hold.
const Summary* SpokesmanOf(const std::map<std::uint32_t, Summary>& members, const Summary& newest) {
  std::map<std::array<std::uint8_t, 16>, std::vector<const Summary*>> by_root;
  for (const auto& [rank, s] : members) {
    if (s.fault != SidecarFault::kNone || s.superblock.uuid != newest.superblock.uuid || s.superblock.rank != rank ||
        s.superblock.generation != newest.superblock.generation ||
        s.superblock.state != SidecarState::kCommitted) {
      continue;
    }
    by_root[s.superblock.dataset_root.bytes].push_back(&s);
  }
  const Summary* out = &newest;
  std::size_t most = 0;
  for (const auto& [root, holders] : by_root) {
    if (holders.size() > most) out = holders.front();
    most = std::max(most, holders.size());
  }
  return out;
}

// The generation that counts, and the members' sidecars that do not belong to it.
void JudgeGenerations(DatasetView& view, std::map<std::uint32_t, Summary>& members,
                      std::set<std::uint32_t>& roll_forward) {
  const Summary* newest = nullptr;
  for (const auto& [rank, s] : members) {
    if (s.fault != SidecarFault::kNone || s.superblock.kind != DatasetKind::kSet) continue;
    if (s.superblock.state != SidecarState::kCommitted) continue;
    // Within a set generations decide: clocks may be set back between two commits.
    const bool newer = newest == nullptr || (s.superblock.uuid == newest->superblock.uuid
                                                 ? s.superblock.generation > newest->superblock.generation
                                                 : s.superblock.wall_time_ns > newest->superblock.wall_time_ns);
    if (newer) newest = &s;
  }
  if (newest == nullptr) return;
  newest = SpokesmanOf(members, *newest);
  view.committed = true;
  view.superblock = newest->superblock;
  const Uuid uuid = newest->superblock.uuid;
  const std::uint64_t generation = newest->superblock.generation;
  const Hash root = newest->superblock.dataset_root;
  for (auto& [rank, s] : members) {
    if (s.fault != SidecarFault::kNone) continue;
    if (s.superblock.state == SidecarState::kNeverCommitted || s.superblock.kind != DatasetKind::kSet) {
      s.fault = SidecarFault::kMissing;  // it says nothing (yet) of any set
    } else if (s.superblock.uuid != uuid || s.superblock.rank != rank) {
      s.fault = SidecarFault::kForeign;
      s.fault_text =
          fmt::format("belongs to another set (uuid {}, rank {})", UuidText(s.superblock.uuid), s.superblock.rank);
    } else if (s.superblock.generation != generation || s.superblock.state != SidecarState::kCommitted) {
      if (s.prepared == generation) {
        roll_forward.insert(rank);
      } else {
        s.fault = SidecarFault::kOutdated;
        const Superblock& sb = s.superblock;
        const bool racy = sb.stamp.mtime_ns >= sb.commit_clock_ns;
        if (sb.generation < generation && !racy) s.past = sb.stamp;
        s.fault_text = fmt::format("is of generation {}, the set of {}", s.superblock.generation, generation);
      }
    } else if (s.superblock.dataset_root != root) {
      s.fault = SidecarFault::kOutdated;
      s.fault_text = "has another root of the dataset than most members have";
    }
  }
}

// What a sidecar says about its group, in a form to compare.
Hash GroupAccount(const InfoRecord& info) {
  InfoRecord account;
  for (const MemberRecord& record : info.members) {
    MemberRecord& same = account.members.emplace_back();
    same.rank = record.rank;
    same.size = record.size;
    same.data_root = record.data_root;
    same.parity_size = record.parity_size;
    same.parity_root = record.parity_root;
  }
  return HashBytes(HashTag::kInfo, 0, EncodeInfo(account));
}

// Sidecars that say something else about their group than most of it do not count.
Status DropDissenters(std::map<std::uint32_t, Summary>& members) {
  std::map<std::vector<std::uint32_t>, std::map<std::array<std::uint8_t, 16>, std::vector<Summary*>>> accounts;
  for (auto& [rank, s] : members) {
    if (s.fault != SidecarFault::kNone) continue;
    LZY_ASSIGN_OR_RETURN(const InfoRecord info, DecodeInfo(s.info));
    if (info.groups.size() == 1) accounts[info.groups[0]][GroupAccount(info).bytes].push_back(&s);
  }
  for (auto& [group, by_account] : accounts) {
    const auto most = std::max_element(by_account.begin(), by_account.end(), [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    });
    for (auto& [account, tellers] : by_account) {
      if (account == most->first) continue;
      for (Summary* s : tellers) {
        s->fault = SidecarFault::kOutdated;
        s->fault_text = "says something else about its group than most of it";
      }
    }
  }
  return Status::Ok();
}

// Whether a sidecar is of the generation that counts. A commit given up earlier may have had the same number.
bool IsOf(Sidecar& sidecar, const Superblock& newest, std::uint32_t rank, const std::shared_ptr<const LeafKey>& key) {
  const Superblock& sb = sidecar.contents().superblock;
  return CheckContents(sidecar.contents()).ok() && sb.uuid == newest.uuid && sb.generation == newest.generation &&
         sb.rank == rank && sb.dataset_root == newest.dataset_root && sb.wall_time_ns == newest.wall_time_ns &&
         sidecar.Unseal(key).ok();
}

// The sidecar of a member with what was prepared in it; to write, from the file that is locked already, which stays in
// file.held when it is of no use.
Result<std::unique_ptr<Sidecar>> LoadPrepared(FileSystem& fs, FileView& file, const std::string& path, bool write) {
  if (!write) return Sidecar::Load(fs, path, OpenMode::kRead, /*accept_prepared=*/true);
  if (file.sidecar) file.held = Sidecar::ReleaseFile(std::move(file.sidecar));
  if (!file.held) return {Code::kNotFound, path};
  return Sidecar::Load(std::move(file.held), OpenMode::kReadWrite, /*accept_prepared=*/true);
}

// The intent of the generation before, which may have been set after that was prepared, by somebody who saw no more of it:
// it holds for the next one, too. In the sidecar before that counts, so that there is no moment without it.
Status CarryIntent(const std::optional<Intent>& intent, Sidecar& to) {
  if (!intent || to.intent()) return Status::Ok();
  return to.SetIntent(*intent);
}

// Completes the commit of a member that was prepared when another member of its set already had the generation
// committed: then all had it prepared, so it counts (docs/format.md §9). True when there was one. To write, the lock is
// never let go.
Result<bool> RollForward(const Context& context, FileView& file, Summary& s, const std::string& data_path,
                         const Superblock& newest, bool write) {
  FileSystem& fs = context.fs;
  const std::optional<Intent> before = s.intent;
  std::string path = s.sidecar_path;
  auto sidecar = LoadPrepared(fs, file, path, write);
  if (sidecar.ok() && IsOf(**sidecar, newest, s.rank, context.options.key)) {
    if (write) {
      LZY_RETURN_IF_ERROR(CarryIntent(before, **sidecar));
      LZY_RETURN_IF_ERROR((*sidecar)->CompletePrepared());
    }
  } else {
    if (write && sidecar.ok()) file.held = Sidecar::ReleaseFile(std::move(sidecar).value());
    const std::string fresh = NewSidecarPath(data_path);
    sidecar = Sidecar::Load(fs, fresh, write ? OpenMode::kReadWrite : OpenMode::kRead);
    if (!sidecar.ok() || !IsOf(**sidecar, newest, s.rank, context.options.key)) return false;
    path = fresh;
    if (write) {
      LZY_ASSIGN_OR_RETURN(path, SidecarPath(data_path));
      LZY_RETURN_IF_ERROR(CarryIntent(before, **sidecar));
      LZY_RETURN_IF_ERROR(fs.Rename(fresh, path));
      LZY_RETURN_IF_ERROR(fs.SyncDirectory(DirectoryOf(path)));
      sidecar = LockSidecar(fs, path, file.data.get(), nullptr, context.options.timeout_seconds);
      if (!sidecar.ok()) return sidecar.status();
      LZY_RETURN_IF_ERROR((*sidecar)->Unseal(context.options.key));
      file.held.reset();
    }
  }
  file.sidecar = std::move(sidecar).value();
  s.fault = SidecarFault::kNone;
  s.fault_text.clear();
  s.sidecar_path = path;
  s.superblock = file.sidecar->contents().superblock;
  s.superblock.state = SidecarState::kCommitted;
  s.info = EncodeInfo(file.sidecar->contents().info);
  s.intent = file.sidecar->intent();
  if (!s.intent) s.intent = before;
  s.prepared = 0;
  LZY_ASSIGN_OR_RETURN(const FileStat made, file.sidecar->file().Stat());
  s.sidecar_bytes = file.sidecar->file_size();
  s.sidecar_uid = made.uid;
  s.sidecar_gid = made.gid;
  s.parity_base = file.sidecar->ParityFileOffset(0);
  return true;
}

// Members of which no sidecar tells anything: the first ones, since a set may claim any number of them.
std::vector<std::uint32_t> UnknownRanks(const std::set<std::uint32_t>& known, std::uint32_t members) {
  constexpr std::size_t kMost = 65536;
  std::vector<std::uint32_t> out;
  auto next = known.begin();
  for (std::uint32_t rank = 0; rank < members && out.size() < kMost; ++rank) {
    if (next != known.end() && *next == rank) {
      ++next;
    } else {
      out.push_back(rank);
    }
  }
  return out;
}

class SetOpener {
 public:
  SetOpener(const Context& context, const DatasetRef& ref, const OpenRequest& request)
      : context_(context), comm_(context.comm), ref_(ref), request_(request) {}

  Result<DatasetView> Run() {
    view_.ref = ref_;
    LZY_ASSIGN_OR_RETURN(seen_, GatherSeen(comm_, ref_));
    LZY_RETURN_IF_ERROR(DropOldSights(context_, ref_, seen_));
    owners_ = AssignOwners(seen_);
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { return OpenOwn(); }));
    LZY_ASSIGN_OR_RETURN(members_, ExchangeSummaries(comm_, mine_));
    LZY_RETURN_IF_ERROR(CompleteCommits());
    for (const auto& [rank, s] : members_) {
      if (s.other_key && !view_.committed) return {Code::kInvalidArgument, s.fault_text};
    }
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { return view_.committed ? ReadGroups() : TakeAll(); }));
    if (view_.committed) {
      LZY_RETURN_IF_ERROR(PlaceMissing());
      LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { return MakeEnsembles(); }));
      LZY_RETURN_IF_ERROR(SplitGroups());
    }
    return std::move(view_);
  }

 private:
  Status OpenOwn() {
    std::map<std::string, std::string> places;
    for (const auto& [rank, path] : ref_.members) {
      if (owners_.at(rank) != comm_.rank()) continue;
      if (const auto place = context_.fs.RealPath(path); place.ok()) {
        const auto [at, added] = places.emplace(*place, path);
        if (!added) return {Code::kIo, fmt::format("{}: it is the same file as {}", path, at->second)};
      }
      LZY_ASSIGN_OR_RETURN(Summary summary, OpenMember(context_, ref_.kind, path, request_.write, local_[rank]));
      summary.rank = rank;
      mine_.push_back(std::move(summary));
    }
    return Status::Ok();
  }

  // Judges the members' generations, after completing commits that broke off half-way.
  Status CompleteCommits() {
    std::set<std::uint32_t> roll_forward;
    JudgeGenerations(view_, members_, roll_forward);
    bool rolled = false;
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&]() -> Status {
      for (Summary& s : mine_) {
        if (!view_.committed) break;
        if (members_.at(s.rank).fault == SidecarFault::kNone && !roll_forward.contains(s.rank)) continue;
        LZY_ASSIGN_OR_RETURN(const bool advanced,
                             RollForward(context_, local_[s.rank], s, ExpandPattern(ref_.path, s.rank),
                                         view_.superblock, request_.write));
        rolled = rolled || advanced || s.prepared != 0;
        if (!advanced) s.prepared = 0;  // not what the others have: of no use
      }
      return Status::Ok();
    }));
    LZY_ASSIGN_OR_RETURN(const std::uint64_t any_rolled, comm_.AllReduceMax(rolled));
    if (any_rolled != 0) {
      LZY_ASSIGN_OR_RETURN(members_, ExchangeSummaries(comm_, mine_));
      roll_forward.clear();
      view_.committed = false;
      JudgeGenerations(view_, members_, roll_forward);
    }
    return Status::Ok();
  }

  void Warn() {
    for (const auto& [rank, s] : members_) {
      if (s.fault == SidecarFault::kForeign || s.fault == SidecarFault::kOutdated) {
        view_.warnings.push_back(
            fmt::format("{}: the sidecar {}; it is not used", ExpandPattern(ref_.path, rank), s.fault_text));
      }
      const bool useless = s.fault == SidecarFault::kDestroyed || s.fault == SidecarFault::kUnsealed;
      if (useless && view_.unusable.ok()) {
        view_.unusable = {Code::kUnprotected, s.fault_text};
      }
    }
  }

  // A member that somebody sees.
  FileView TakeFile(std::uint32_t rank) {
    FileView file = local_.contains(rank) ? std::move(local_[rank]) : FileView();
    Fill(file, members_.at(rank));
    file.path = ExpandPattern(ref_.path, rank);
    file.owner = owners_.at(rank);
    return file;
  }

  // Nothing to go by: one ensemble of all that is there, in rank order (Protect deals groups itself).
  Status TakeAll() {
    Warn();
    Ensemble& ensemble = view_.ensembles.emplace_back();
    ensemble.key = context_.options.key;
    for (const auto& [rank, s] : members_) ensemble.files.push_back(TakeFile(rank));
    return Status::Ok();
  }

  // Groups as their sidecars tell them, and who of them is not there.
  Status ReadGroups() {
    LZY_RETURN_IF_ERROR(DropDissenters(members_));
    Warn();
    for (const auto& [rank, s] : members_) {
      if (s.fault != SidecarFault::kNone) continue;
      LZY_ASSIGN_OR_RETURN(InfoRecord info, DecodeInfo(s.info));
      if (info.groups.size() != 1 || info.members.size() != info.groups[0].size()) {
        return {Code::kUnprotected,
                fmt::format("{}: its sidecar does not describe a group", ExpandPattern(ref_.path, rank))};
      }
      if (groups_.empty()) view_.info = info;
      groups_.emplace(info.groups[0], std::move(info));
    }
    std::set<std::uint32_t> known;
    for (const auto& [ranks, info] : groups_) {
      for (std::uint32_t rank : ranks) {
        if (rank >= view_.superblock.members || !known.insert(rank).second) {
          return {Code::kUnprotected,
                  fmt::format("{}: sidecars disagree about who is coded with rank {}", ref_.path, rank)};
        }
        if (!members_.contains(rank)) missing_.push_back(rank);
      }
    }
    view_.unknown_ranks = UnknownRanks(known, view_.superblock.members);
    for (const auto& [rank, s] : members_) {
      if (!known.contains(rank)) view_.extras.push_back(TakeFile(rank));
    }
    return Status::Ok();
  }

  // About: metadata as of the others.
  std::uint64_t BytesOf(const InfoRecord& info, const MemberRecord& record) const {
    std::uint64_t metadata = 0;
    for (const MemberRecord& other : info.members) {
      const auto at = members_.find(other.rank);
      if (at == members_.end() || at->second.fault != SidecarFault::kNone) continue;
      metadata = std::max(metadata, at->second.sidecar_bytes - std::min(at->second.sidecar_bytes, other.parity_size));
    }
    return record.size + record.parity_size + metadata;
  }

  // A process for each member nobody sees.
  Status PlaceMissing() {
    if (missing_.empty()) return Status::Ok();
    std::vector<LostMember> lost;
    std::map<std::uint32_t, std::uint32_t> group_of;
    std::uint32_t group = 0;
    for (const auto& [ranks, info] : groups_) {
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        group_of[ranks[i]] = group;
        if (!members_.contains(ranks[i])) lost.push_back({ranks[i], group, BytesOf(info, info.members[i])});
      }
      ++group;
    }
    LZY_ASSIGN_OR_RETURN(Places places, GatherPlaces(context_, ref_, lost, seen_, group_of));
    if (!places.residents.empty()) view_.nodes = places.nodes;
    LZY_ASSIGN_OR_RETURN(missing_owner_, PlaceLost(std::move(places), lost, request_.placing));
    return Status::Ok();
  }

  FileView MissingFile(std::uint32_t rank) const {
    FileView file;
    file.rank = rank;
    file.path = ExpandPattern(ref_.path, rank);
    file.owner = missing_owner_.at(rank);
    if (auto sidecar_path = SidecarPath(file.path); sidecar_path.ok()) file.sidecar_path = *sidecar_path;
    return file;
  }

  Status MakeEnsembles() {
    for (const auto& [ranks, info] : groups_) {
      Ensemble& ensemble = view_.ensembles.emplace_back();
      ensemble.key = context_.options.key;
      ensemble.records = info.members;
      GeometryParameters parameters;
      parameters.kind = DatasetKind::kSet;
      parameters.placement = ParityPlacement::kPerDevice;
      parameters.block_size = view_.superblock.block_size;
      parameters.unit = view_.superblock.unit;
      parameters.parity = view_.superblock.parity;
      parameters.groups.emplace_back();
      std::vector<std::uint64_t> sizes;
      for (std::uint32_t i = 0; i < ranks.size(); ++i) {
        parameters.groups[0].push_back(i);
        sizes.push_back(info.members[i].size);
        FileView file = members_.contains(ranks[i]) ? TakeFile(ranks[i]) : MissingFile(ranks[i]);
        if (!file.sidecar_usable() && file.sidecar) file.held = Sidecar::ReleaseFile(std::move(file.sidecar));
        file.stamp.size = info.members[i].size;
        file.stamp.mtime_ns = info.members[i].mtime_ns;
        ensemble.files.push_back(std::move(file));
      }
      auto layout = Layout::Create(std::move(parameters), std::move(sizes));
      if (!layout.ok()) return {Code::kUnprotected, layout.status().message()};
      for (std::uint32_t i = 0; i < ranks.size(); ++i) {
        if (layout->parity_size(i) != info.members[i].parity_size) {
          return {Code::kUnprotected, fmt::format("{}: the sidecar's geometry contradicts itself", ref_.path)};
        }
      }
      ensemble.layout = std::move(layout).value();
    }
    return Status::Ok();
  }

  // Groups are independent: each works on a communicator of its owners.
  Status SplitGroups() {
    if (view_.ensembles.size() < 2 || comm_.size() < 2) return Status::Ok();
    std::vector<std::set<int>> parts;
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] {
      for (const Ensemble& ensemble : view_.ensembles) {
        auto& owners = parts.emplace_back();
        for (const FileView& file : ensemble.files) owners.insert(file.owner);
      }
    }));
    LZY_ASSIGN_OR_RETURN(auto comms, SplitIntoParts(comm_, parts));
    for (std::size_t i = 0; i < comms.size(); ++i) view_.ensembles[i].group_comm = std::move(comms[i]);
    return Status::Ok();
  }

  const Context& context_;
  Communicator& comm_;
  const DatasetRef& ref_;
  const OpenRequest& request_;
  DatasetView view_;
  std::vector<std::vector<std::uint32_t>> seen_;  // by process: members
  std::map<std::uint32_t, int> owners_;
  std::map<std::uint32_t, FileView> local_;  // of members that this rank owns
  std::vector<Summary> mine_;
  std::map<std::uint32_t, Summary> members_;
  std::map<std::vector<std::uint32_t>, InfoRecord> groups_;  // by ranks
  std::vector<std::uint32_t> missing_;
  std::map<std::uint32_t, int> missing_owner_;
};

}  // namespace

Result<DatasetView> OpenSet(const Context& context, const DatasetRef& ref, const OpenRequest& request) {
  return SetOpener(context, ref, request).Run();
}

}  // namespace lzy
