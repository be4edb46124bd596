#include "engine/view.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <thread>

#include "sidecar/names.h"

namespace lzy {
namespace {

// What the owner of a member tells the others about it.
struct Summary {
  std::uint32_t rank = 0;
  bool present = false;
  FileStat stat;
  SidecarFault fault = SidecarFault::kMissing;
  std::string fault_text;
  std::string sidecar_path;
  std::uint64_t sidecar_bytes = 0;
  std::uint64_t parity_base = 0;
  std::optional<Intent> intent;
  std::uint64_t prepared = 0;
  Superblock superblock;  // as in the sidecar
  std::vector<std::uint8_t> info;
};

void PutSummary(ByteWriter& out, const Summary& s) {
  out.Put(s.rank);
  out.Put<std::uint8_t>(s.present);
  out.Put(s.stat.size);
  out.Put(s.stat.device);
  out.Put(s.stat.inode);
  out.Put(s.stat.mtime_ns);
  out.Put(s.stat.atime_ns);
  out.Put(s.stat.mode);
  out.Put(s.stat.uid);
  out.Put(s.stat.gid);
  out.Put(static_cast<std::uint8_t>(s.fault));
  out.PutString(s.fault_text);
  out.PutString(s.sidecar_path);
  out.Put(s.sidecar_bytes);
  out.Put(s.parity_base);
  out.Put<std::uint8_t>(s.intent.has_value());
  if (s.intent) out.PutBytes(EncodeIntent(*s.intent, 0));
  out.Put(s.prepared);
  if (s.fault == SidecarFault::kNone) {
    Superblock plain = s.superblock;
    plain.copy = 0;
    plain.extents.clear();
    out.PutBytes(EncodeSuperblock(plain));
    out.Put(static_cast<std::uint32_t>(s.info.size()));
    out.PutBytes(s.info);
  }
}

Result<Summary> GetSummary(ByteReader& in) {
  Summary s;
  s.rank = in.Get<std::uint32_t>();
  s.present = in.Get<std::uint8_t>() != 0;
  s.stat.size = in.Get<std::uint64_t>();
  s.stat.device = in.Get<std::uint64_t>();
  s.stat.inode = in.Get<std::uint64_t>();
  s.stat.mtime_ns = in.Get<std::int64_t>();
  s.stat.atime_ns = in.Get<std::int64_t>();
  s.stat.mode = in.Get<std::uint32_t>();
  s.stat.uid = in.Get<std::uint32_t>();
  s.stat.gid = in.Get<std::uint32_t>();
  s.fault = static_cast<SidecarFault>(in.Get<std::uint8_t>());
  s.fault_text = in.GetString(1 << 16);
  s.sidecar_path = in.GetString(1 << 16);
  s.sidecar_bytes = in.Get<std::uint64_t>();
  s.parity_base = in.Get<std::uint64_t>();
  if (in.Get<std::uint8_t>() != 0) {
    auto intent = DecodeIntent(in.GetBytes(kIntentPageSize), 0);
    if (intent.ok()) s.intent = *intent;
  }
  s.prepared = in.Get<std::uint64_t>();
  if (s.fault == SidecarFault::kNone) {
    LZY_ASSIGN_OR_RETURN(s.superblock, DecodeSuperblock(in.GetBytes(kSuperblockSize), 0));
    ByteSpan info = in.GetBytes(in.Get<std::uint32_t>());
    s.info.assign(info.begin(), info.end());
  }
  if (!in.ok()) return {Code::kInternal, "a rank's summary of its members is malformed"};
  return s;
}

Result<std::unique_ptr<File>> OpenData(FileSystem& fs, const std::string& path, bool write) {
  auto file = fs.Open(path, write ? OpenMode::kReadWrite : OpenMode::kRead);
  // Restoring parity of a read-only file needs no more than reading it; a repair will say what it lacks.
  if (!file.ok() && write && file.status().code() == Code::kIo) return fs.Open(path, OpenMode::kRead);
  return file;
}

constexpr int kLooks = 5;

// Opens one member's files on its owner; absence is not a failure.
Result<Summary> OpenMember(const Context& context, const std::string& path, bool write, FileView& view) {
  Summary s;
  FileSystem& fs = context.fs;
  auto data = OpenData(fs, path, write);
  if (data.ok()) {
    view.data = std::move(data).value();
    LZY_ASSIGN_OR_RETURN(s.stat, view.data->Stat());
    s.present = true;
  } else if (data.status().code() != Code::kNotFound) {
    return data.status();
  }
  auto found = FindSidecar(fs, path);
  Result<std::unique_ptr<Sidecar>> sidecar = found.status();
  // Somebody may give it another name just now.
  for (int again = 0; found.ok(); ++again) {
    s.sidecar_path = *found;
    sidecar = write ? LockSidecar(fs, *found, view.data.get(), nullptr, context.options.timeout_seconds)
                    : Sidecar::Load(fs, *found, OpenMode::kRead);
    if (sidecar.status().code() != Code::kNotFound || again == kLooks) break;
    found = FindSidecar(fs, path);
  }
  if (!found.ok() && found.status().code() != Code::kNotFound) return found.status();
  if (found.ok() && sidecar.status().code() != Code::kNotFound) {
    if (sidecar.ok()) {
      view.sidecar = std::move(sidecar).value();
      s.fault = SidecarFault::kNone;
      s.superblock = view.sidecar->contents().superblock;
      s.info = EncodeInfo(view.sidecar->contents().info);
      s.intent = view.sidecar->intent();
      s.prepared = view.sidecar->prepared_generation();
      s.sidecar_bytes = view.sidecar->file_size();
      s.parity_base = view.sidecar->ParityFileOffset(0);
    } else if (sidecar.status().code() == Code::kIo || sidecar.status().code() == Code::kBusy ||
               sidecar.status().code() == Code::kNewerFormat) {
      return sidecar.status();
    } else {
      s.fault = SidecarFault::kDestroyed;
      s.fault_text = sidecar.status().message();
    }
  } else {
    LZY_ASSIGN_OR_RETURN(s.sidecar_path, SidecarPath(path));
  }
  return s;
}

void Fill(FileView& view, const Summary& s) {
  view.rank = s.rank;
  view.present = s.present;
  view.seen = s.present || s.fault != SidecarFault::kMissing;
  view.stat = s.stat;
  view.fault = s.fault;
  view.fault_text = s.fault_text;
  view.sidecar_path = s.sidecar_path;
  view.sidecar_bytes = s.sidecar_bytes;
  view.parity_base = s.parity_base;
  view.intent = s.intent;
  view.stamp = s.superblock.stamp;
  view.commit_clock_ns = s.superblock.commit_clock_ns;
}

// ------------------------------------------------------------------------------------------------------------- shared

Result<DatasetView> OpenShared(const Context& context, const DatasetRef& ref, const OpenRequest& request) {
  DatasetView view;
  view.ref = ref;
  Ensemble& ensemble = view.ensembles.emplace_back();
  FileView& file = ensemble.files.emplace_back();
  // Rank 0 takes the lock; the others read what it leaves.
  const bool first = context.comm.rank() == 0;
  Status opened;
  Summary summary;
  auto open = [&](bool write) {
    auto result = OpenMember(context, ref.path, write, file);
    if (result.ok()) summary = std::move(result).value();
    return result.status();
  };
  if (first) opened = open(request.write);
  LZY_RETURN_IF_ERROR(Agree(context.comm, opened));
  if (!first) {
    opened = open(false);
    if (opened.ok() && request.write && file.data != nullptr) {
      if (auto writable = OpenData(context.fs, ref.path, true); writable.ok()) file.data = std::move(writable).value();
    }
  }
  LZY_RETURN_IF_ERROR(Agree(context.comm, opened));
  Communicator::Bytes bytes;
  if (first) {
    ByteWriter out;
    PutSummary(out, summary);
    bytes = std::move(out.bytes());
  }
  LZY_RETURN_IF_ERROR(context.comm.Broadcast(bytes, 0));
  ByteReader in(bytes);
  LZY_ASSIGN_OR_RETURN(summary, GetSummary(in));
  Fill(file, summary);
  file.path = ref.path;
  if (!file.sidecar_usable()) {
    if (!file.fault_text.empty()) view.unusable = {Code::kUnprotected, file.fault_text};
    return view;
  }
  view.superblock = summary.superblock;
  view.superblock.parity_size = summary.superblock.parity_size;
  LZY_ASSIGN_OR_RETURN(view.info, DecodeInfo(summary.info));
  view.committed = view.superblock.state == SidecarState::kCommitted && view.superblock.kind == DatasetKind::kShared;
  Status same;
  if (view.committed) {
    if (!file.sidecar || file.sidecar->generation() != view.superblock.generation) {
      same = {Code::kIo,
              fmt::format("{}: ranks see different sidecars; is the directory shared by all of them?", ref.path)};
    } else if (auto layout = LayoutOf(file.sidecar->contents()); layout.ok()) {
      ensemble.layout = std::move(layout).value();
    } else {
      view.committed = false;
      view.unusable = {Code::kUnprotected, layout.status().message()};
    }
  }
  LZY_RETURN_IF_ERROR(Agree(context.comm, same));
  return view;
}

// ---------------------------------------------------------------------------------------------------------------- sets

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
  out.Put(static_cast<std::uint32_t>(mine.size()));
  for (const Summary& s : mine) PutSummary(out, s);
  LZY_ASSIGN_OR_RETURN(const auto all, comm.AllGather(out.bytes()));
  std::map<std::uint32_t, Summary> merged;
  for (const auto& bytes : all) {
    ByteReader in(bytes);
    for (auto count = in.Get<std::uint32_t>(); count > 0; --count) {
      LZY_ASSIGN_OR_RETURN(Summary s, GetSummary(in));
      merged.emplace(s.rank, std::move(s));
    }
  }
  return merged;
}

// A process for each member nobody sees: its own number if there is one and its directory is there, else one that can
// reach the member's directory.
Result<std::map<std::uint32_t, int>> AssignMissing(const Context& context, const DatasetRef& ref,
                                                   const std::vector<std::uint32_t>& missing) {
  std::vector<std::uint8_t> reachable(missing.size());
  for (std::size_t i = 0; i < missing.size(); ++i) {
    auto stat = context.fs.Stat(DirectoryOf(ExpandPattern(ref.path, missing[i])));
    reachable[i] = stat.ok() && stat->type == FileStat::Type::kDirectory;
  }
  LZY_ASSIGN_OR_RETURN(const auto all, context.comm.AllGather(reachable));
  std::map<std::uint32_t, int> owner;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const int wish = static_cast<int>(missing[i] % static_cast<std::uint32_t>(context.comm.size()));
    int chosen = wish;
    if (all[wish].size() <= i || all[wish][i] == 0) {
      for (int p = 0; p < context.comm.size(); ++p) {
        if (all[p].size() > i && all[p][i] != 0) {
          chosen = p;
          break;
        }
      }
    }
    owner[missing[i]] = chosen;
  }
  return owner;
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
  view.committed = true;
  view.superblock = newest->superblock;
  const Uuid uuid = newest->superblock.uuid;
  const std::uint64_t generation = newest->superblock.generation;
  for (auto& [rank, s] : members) {
    if (s.fault != SidecarFault::kNone) continue;
    if (s.superblock.uuid != uuid || s.superblock.kind != DatasetKind::kSet || s.superblock.rank != rank) {
      s.fault = SidecarFault::kForeign;
      s.fault_text =
          fmt::format("belongs to another set (uuid {}, rank {})", UuidText(s.superblock.uuid), s.superblock.rank);
    } else if (s.superblock.generation != generation || s.superblock.state != SidecarState::kCommitted) {
      if (s.prepared == generation) {
        roll_forward.insert(rank);
      } else {
        s.fault = SidecarFault::kOutdated;
        s.fault_text = fmt::format("is of generation {}, the set of {}", s.superblock.generation, generation);
      }
    }
  }
}

// Completes the commit of a member that was prepared when another member of its set already had the generation
// committed: then all had it prepared, so it counts (docs/format.md §9). True when there was one.
Result<bool> RollForward(FileSystem& fs, FileView& file, Summary& s, const std::string& data_path,
                         const Superblock& newest, bool write, std::uint32_t timeout_seconds) {
  const OpenMode mode = write ? OpenMode::kReadWrite : OpenMode::kRead;
  auto is_it = [&](const Result<std::unique_ptr<Sidecar>>& sidecar) {
    return sidecar.ok() && (*sidecar)->contents().superblock.uuid == newest.uuid &&
           (*sidecar)->generation() == newest.generation && (*sidecar)->contents().superblock.rank == s.rank &&
           // A commit given up earlier may have had the same number.
           (*sidecar)->contents().superblock.dataset_root == newest.dataset_root &&
           (*sidecar)->contents().superblock.wall_time_ns == newest.wall_time_ns;
  };
  std::string path = s.sidecar_path;
  file.sidecar.reset();  // and with it the lock, which is taken again with what was prepared
  auto sidecar = write ? LockSidecar(fs, path, file.data.get(), nullptr, timeout_seconds, /*accept_prepared=*/true)
                       : Sidecar::Load(fs, path, mode, /*accept_prepared=*/true);
  if (is_it(sidecar)) {
    if (write) LZY_RETURN_IF_ERROR((*sidecar)->CompletePrepared());
  } else {
    const std::string fresh = NewSidecarPath(data_path);
    sidecar = Sidecar::Load(fs, fresh, mode);
    if (!is_it(sidecar)) return false;
    path = fresh;
    if (write) {
      LZY_ASSIGN_OR_RETURN(path, SidecarPath(data_path));
      LZY_RETURN_IF_ERROR(fs.Rename(fresh, path));
      LZY_RETURN_IF_ERROR(fs.SyncDirectory(DirectoryOf(path)));
      sidecar = LockSidecar(fs, path, file.data.get(), nullptr, timeout_seconds);
      if (!sidecar.ok()) return sidecar.status();
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
  s.prepared = 0;
  s.sidecar_bytes = file.sidecar->file_size();
  s.parity_base = file.sidecar->ParityFileOffset(0);
  return true;
}

Result<DatasetView> OpenSet(const Context& context, const DatasetRef& ref, const OpenRequest& request) {
  Communicator& comm = context.comm;
  DatasetView view;
  view.ref = ref;
  LZY_ASSIGN_OR_RETURN(const auto seen, GatherSeen(comm, ref));
  const auto owners = AssignOwners(seen);

  std::map<std::uint32_t, FileView> local;
  std::vector<Summary> mine;
  Status opened;
  for (const auto& [rank, path] : ref.members) {
    if (owners.at(rank) != comm.rank()) continue;
    auto summary = OpenMember(context, path, request.write, local[rank]);
    if (!summary.ok()) {
      opened = summary.status();
      break;
    }
    summary->rank = rank;
    mine.push_back(std::move(summary).value());
  }
  LZY_RETURN_IF_ERROR(Agree(comm, opened));
  LZY_ASSIGN_OR_RETURN(auto members, ExchangeSummaries(comm, mine));

  std::set<std::uint32_t> roll_forward;
  JudgeGenerations(view, members, roll_forward);
  bool rolled = false;
  for (Summary& s : mine) {
    if (!view.committed || (members.at(s.rank).fault == SidecarFault::kNone && roll_forward.count(s.rank) == 0))
      continue;
    auto advanced =
        RollForward(context.fs, local[s.rank], s, ExpandPattern(ref.path, s.rank), view.superblock, request.write,
                                context.options.timeout_seconds);
    if (!advanced.ok()) opened = advanced.status();
    if (advanced.ok() && *advanced) rolled = true;
    if (advanced.ok() && !*advanced && s.prepared != 0) {
      s.prepared = 0;  // not what the others have: of no use
      rolled = true;
    }
  }
  LZY_RETURN_IF_ERROR(Agree(comm, opened));
  LZY_ASSIGN_OR_RETURN(const std::uint64_t any_rolled, comm.AllReduceMax(rolled));
  if (any_rolled != 0) {
    LZY_ASSIGN_OR_RETURN(members, ExchangeSummaries(comm, mine));
    roll_forward.clear();
    view.committed = false;
    JudgeGenerations(view, members, roll_forward);
  }
  for (const auto& [rank, s] : members) {
    if (s.fault == SidecarFault::kForeign || s.fault == SidecarFault::kOutdated) {
      view.warnings.push_back(
          fmt::format("{}: the sidecar {}; it is not used", ExpandPattern(ref.path, rank), s.fault_text));
    }
    if (s.fault == SidecarFault::kDestroyed && view.unusable.ok()) view.unusable = {Code::kUnprotected, s.fault_text};
  }

  if (!view.committed) {
    // Nothing to go by: one ensemble of all that is there, in rank order (Protect deals groups itself).
    Ensemble& ensemble = view.ensembles.emplace_back();
    for (const auto& [rank, s] : members) {
      FileView file = local.count(rank) != 0 ? std::move(local[rank]) : FileView();
      Fill(file, s);
      file.path = ExpandPattern(ref.path, rank);
      file.owner = owners.at(rank);
      ensemble.files.push_back(std::move(file));
    }
    return view;
  }

  // Groups as their sidecars tell them.
  std::map<std::vector<std::uint32_t>, InfoRecord> groups;
  for (const auto& [rank, s] : members) {
    if (s.fault != SidecarFault::kNone) continue;
    LZY_ASSIGN_OR_RETURN(InfoRecord info, DecodeInfo(s.info));
    if (info.groups.size() != 1 || info.members.size() != info.groups[0].size()) {
      return {Code::kUnprotected,
              fmt::format("{}: its sidecar does not describe a group", ExpandPattern(ref.path, rank))};
    }
    if (groups.empty()) view.info = info;
    groups.emplace(info.groups[0], std::move(info));
  }
  std::vector<std::uint32_t> missing;
  std::vector<bool> known(view.superblock.members, false);
  for (const auto& [ranks, info] : groups) {
    for (std::uint32_t rank : ranks) {
      if (rank >= known.size() || known[rank]) {
        return {Code::kUnprotected,
                fmt::format("{}: sidecars disagree about who is coded with rank {}", ref.path, rank)};
      }
      known[rank] = true;
      if (members.count(rank) == 0) missing.push_back(rank);
    }
  }
  for (std::uint32_t rank = 0; rank < known.size(); ++rank) {
    if (!known[rank]) view.unknown_ranks.push_back(rank);
  }
  for (const auto& [rank, s] : members) {
    if (rank < known.size() && known[rank]) continue;
    FileView file = local.count(rank) != 0 ? std::move(local[rank]) : FileView();
    Fill(file, s);
    file.path = ExpandPattern(ref.path, rank);
    file.owner = owners.at(rank);
    view.extras.push_back(std::move(file));
  }
  LZY_ASSIGN_OR_RETURN(const auto missing_owner, AssignMissing(context, ref, missing));

  for (auto& [ranks, info] : groups) {
    Ensemble& ensemble = view.ensembles.emplace_back();
    ensemble.records = info.members;
    GeometryParameters parameters;
    parameters.kind = DatasetKind::kSet;
    parameters.placement = ParityPlacement::kPerDevice;
    parameters.block_size = view.superblock.block_size;
    parameters.unit = view.superblock.unit;
    parameters.parity = view.superblock.parity;
    parameters.groups.emplace_back();
    std::vector<std::uint64_t> sizes;
    for (std::uint32_t i = 0; i < ranks.size(); ++i) {
      parameters.groups[0].push_back(i);
      sizes.push_back(info.members[i].size);
      const std::uint32_t rank = ranks[i];
      FileView file = local.count(rank) != 0 ? std::move(local[rank]) : FileView();
      if (auto at = members.find(rank); at != members.end()) {
        Fill(file, at->second);
        file.owner = owners.at(rank);
      } else {
        file.rank = rank;
        file.owner = missing_owner.at(rank);
        auto sidecar_path = SidecarPath(ExpandPattern(ref.path, rank));
        if (sidecar_path.ok()) file.sidecar_path = *sidecar_path;
      }
      file.path = ExpandPattern(ref.path, rank);
      if (!file.sidecar_usable()) file.sidecar.reset();
      file.stamp.size = info.members[i].size;
      file.stamp.mtime_ns = info.members[i].mtime_ns;
      ensemble.files.push_back(std::move(file));
    }
    auto layout = Layout::Create(std::move(parameters), std::move(sizes));
    if (!layout.ok()) return {Code::kUnprotected, layout.status().message()};
    for (std::uint32_t i = 0; i < ranks.size(); ++i) {
      if (layout->parity_size(i) != info.members[i].parity_size) {
        return {Code::kUnprotected, fmt::format("{}: the sidecar's geometry contradicts itself", ref.path)};
      }
    }
    ensemble.layout = std::move(layout).value();
  }
  if (view.ensembles.size() > 1 && comm.size() > 1) {
    for (Ensemble& ensemble : view.ensembles) {
      const bool part = std::any_of(ensemble.files.begin(), ensemble.files.end(),
                                    [&](const FileView& f) { return f.owner == comm.rank(); });
      LZY_ASSIGN_OR_RETURN(ensemble.group_comm, comm.Split(part ? 0 : -1));
    }
  }
  return view;
}

}  // namespace

std::uint64_t DatasetView::data_bytes() const {
  std::uint64_t total = 0;
  for (const Ensemble& ensemble : ensembles) {
    for (const FileView& file : ensemble.files) total += committed ? file.stamp.size : file.stat.size;
  }
  return total;
}

Result<DatasetView> OpenDataset(const Context& context, const DatasetRef& ref, const OpenRequest& request) {
  return ref.kind == DatasetKind::kShared ? OpenShared(context, ref, request) : OpenSet(context, ref, request);
}

Result<Layout> LayoutOf(const SidecarContents& contents) {
  const Superblock& sb = contents.superblock;
  GeometryParameters parameters;
  parameters.kind = sb.kind;
  parameters.placement = sb.placement;
  parameters.block_size = sb.block_size;
  parameters.unit = sb.unit;
  parameters.parity = sb.parity;
  parameters.groups = contents.info.groups;
  std::vector<std::uint64_t> sizes{sb.stamp.size};
  if (sb.kind == DatasetKind::kSet) {
    parameters.groups.assign(1, {});
    sizes.clear();
    for (std::uint32_t i = 0; i < contents.info.members.size(); ++i) {
      parameters.groups[0].push_back(i);
      sizes.push_back(contents.info.members[i].size);
    }
  }
  auto layout = Layout::Create(std::move(parameters), std::move(sizes));
  if (!layout.ok()) return {Code::kCorrupt, layout.status().message()};
  if (sb.kind == DatasetKind::kShared &&
      (layout->parity_size(0) != sb.parity_size || layout->parity_blocks(0) != contents.parity_tree.leaf_count())) {
    return {Code::kCorrupt, "the sidecar's geometry contradicts itself"};
  }
  return layout;
}

BlockStream DataStream(const Layout& layout, std::uint32_t file, File* data, const Tree* expected) {
  const std::uint64_t block = layout.block_size();
  const std::uint64_t size = layout.file_size(file);
  return {data, 0, HashTag::kDataLeaf, expected, [block, size](std::uint64_t index) {
            const std::uint64_t offset = index * block;
            const std::uint64_t left = offset < size ? size - offset : 0;
            return BlockPlace{offset, static_cast<std::uint32_t>(std::min(block, left)), index};
          }};
}

BlockStream ParityStream(const Layout& layout, std::uint32_t region, File* sidecar, std::uint64_t base,
                         const Tree* expected) {
  return {sidecar, base, HashTag::kParityLeaf, expected, [&layout, region](std::uint64_t index) {
            const Layout::DeviceRow at = layout.LocateParity(region, index);
            if (at.row.unit_row >= layout.unit_rows(at.row.group)) return BlockPlace{0, 0, index};
            return layout.ParityBlock(at.device, at.row.unit_row, at.row.slice);
          }};
}

unsigned ThreadsFor(const Context& context) {
  if (context.options.threads > 0) return context.options.threads;
  cpu_set_t cpus;
  unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) cores = std::max(1, CPU_COUNT(&cpus));
  unsigned local = static_cast<unsigned>(context.comm.size());
  for (const char* name : {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"}) {
    if (const char* text = std::getenv(name)) local = std::max(1u, static_cast<unsigned>(std::atoi(text)));
  }
  return std::max(1u, cores / std::max(1u, local));
}

}  // namespace lzy
