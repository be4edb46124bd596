// Opens a set. The owner of each member opens it. Then all ranks have the same summaries, and derive the same view from
// them: the generation that counts, the groups, the missing members, and the processes that make those again.

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <set>
#include <tuple>

#include "base/printable.h"
#include "dataset/by_servers.h"
#include "dataset/lock.h"
#include "dataset/member.h"
#include "dataset/rehome.h"
#include "dataset/roll_forward.h"
#include "dataset/sights.h"
#include "names/lookup.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// One call of OpenSet. Members of this class are agreed (the same on every rank) but for local_ and mine_.
class SetOpener {
 public:
  SetOpener(const Context& context, const DatasetRef& ref, const OpenRequest& request, bool has_renamed = false)
      : context_(context), comm_(context.comm), ref_(ref), request_(request), has_renamed_(has_renamed) {}

  Result<DatasetView> Run() {
    view_.ref = ref_;
    // First find who sees and owns each member, then judge the sidecars, then make groups and layouts.
    LZY_ASSIGN_OR_RETURN(Sights sights, GatherSights(comm_, ref_));
    seen_ = std::move(sights.seen);
    nodes_ = std::move(sights.nodes);
    LZY_RETURN_IF_ERROR(DropOldSights(context_, ref_, seen_));
    owners_ = AssignOwners(seen_);
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { return OpenOwn(); }));
    LZY_ASSIGN_OR_RETURN(members_, ExchangeSummaries(comm_, mine_));
    LZY_RETURN_IF_ERROR(RefuseHardLinks());
    LZY_RETURN_IF_ERROR(CompleteCommits());
    LZY_ASSIGN_OR_RETURN(const bool moved, RenameMisplaced());
    if (moved) return SetOpener(context_, ref_, request_, /*has_renamed=*/true).Run();
    LZY_RETURN_IF_ERROR(TakeStraySidecars());
    for (const auto& [rank, s] : members_) {
      if (s.other_key && !view_.committed) return {Code::kInvalidArgument, s.fault_text};
    }
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { return view_.committed ? ReadGroups() : TakeAll(); }));
    if (view_.committed) {
      FindElsewhere();
      LZY_RETURN_IF_ERROR(PlaceMissing());
      NameNodes();
      LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { return MakeEnsembles(); }));
      LZY_RETURN_IF_ERROR(SplitGroups());
    }
    return std::move(view_);
  }

 private:
  // Opens the members that this rank owns. Refuses two names of one file: these members would be lost together.
  Status OpenOwn() {
    std::map<std::string, std::string> places;
    // Release the locks of members that another rank owns now, because that rank locks them.
    if (request_.held != nullptr) std::erase_if(*request_.held, [&](const auto& one) { return !Owns(one.first); });
    for (const auto& [rank, path] : ref_.members) {
      if (owners_.at(rank) != comm_.rank()) continue;
      if (const auto place = context_.fs.RealPath(path); place.ok()) {
        const auto [at, added] = places.emplace(*place, path);
        if (!added) return {Code::kIo, fmt::format("{}: it is the same file as {}", path, at->second)};
      }
      LZY_ASSIGN_OR_RETURN(Summary summary, OpenMember(context_, ref_.kind, path, request_.write, local_[rank], request_.held));
      summary.rank = rank;
      if (request_.stripes) summary.stripes = StripesOfFile(context_.fs, local_[rank]);
      mine_.push_back(std::move(summary));
    }
    return Status::Ok();
  }

  bool Owns(const std::string& path) const {
    const auto rank = MatchPattern(ref_.path, path);
    const auto owner = rank ? owners_.find(*rank) : owners_.end();
    return owner != owners_.end() && owner->second == comm_.rank();
  }

  // Refuses hard links between members, whatever ranks own them. Ranks look at members only if two have the same inode
  // number, because file system ids mean something on one node only.
  Status RefuseHardLinks() {
    std::map<std::uint64_t, std::vector<std::uint32_t>> by_inode;
    for (const auto& [rank, s] : members_) {
      if (s.present && s.stat.inode != 0) by_inode[s.stat.inode].push_back(rank);
    }
    std::erase_if(by_inode, [](const auto& one) { return one.second.size() < 2; });
    if (by_inode.empty()) return Status::Ok();
    return AgreeOn(comm_, [&]() -> Status {
      // Compares file system and inode, and also size and birth, because some file systems invent inodes.
      std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::int64_t>, std::string> names;
      for (const std::uint32_t rank : by_inode | std::views::values | std::views::join) {
        const auto member = ref_.members.find(rank);
        if (member == ref_.members.end()) continue;
        const std::string& path = member->second;
        const auto stat = context_.fs.Stat(path, /*follow=*/false);
        if (!stat.ok()) continue;
        const auto [at, added] = names.emplace(std::tuple(stat->file_system, stat->inode, stat->size, stat->birth_ns), path);
        if (!added) return OneFile(path, at->second);
      }
      return Status::Ok();
    });
  }

  // The error for two members that are one file. A copy helps only if the files have two names, not one name that two paths
  // reach.
  Status OneFile(const std::string& path, const std::string& other) const {
    const auto real = context_.fs.RealPath(path), other_real = context_.fs.RealPath(other);
    const std::string same = fmt::format("{}: it is the same file as {}", path, other);
    if (!real.ok() || !other_real.ok() || *real == *other_real) return {Code::kIo, same};
    std::string free = path + ".copy";
    while (context_.fs.Stat(free, /*follow=*/false).ok()) free += "1";
    const std::string quoted = ShellQuote(path), copy = ShellQuote(free);
    return {Code::kIo, fmt::format("{}, by a hard link. Make it a file of its own, then verify the set: cp -p {} {} && mv {} {}", same,
                                   quoted, copy, copy, quoted)};
  }

  // Completes interrupted commits and judges the generations of the members. A rank completes only members that it owns. If
  // any rank completed one, all ranks exchange the summaries again and judge again.
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
        if (!advanced) s.prepared = 0;  // another generation than that of the set: not usable
        if (!advanced && request_.write) LZY_RETURN_IF_ERROR(KeepFormer(s, local_[s.rank]));
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

  // The newest sidecar of member `rank` that has the name of another member. It has that name if files of the two members
  // were exchanged or copied over each other.
  const Summary* MisplacedOf(std::uint32_t rank) const {
    const Summary* newest = nullptr;
    for (const auto& [other, s] : members_) {
      const Superblock& sb = s.superblock;
      if (s.fault != SidecarFault::kForeign || sb.uuid != view_.superblock.uuid || sb.rank != rank) continue;
      if (newest == nullptr || newest->superblock.generation < sb.generation) newest = &s;
    }
    return newest;
  }
  bool HasUsableSidecar(std::uint32_t rank) const {
    const auto at = members_.find(rank);
    return at != members_.end() && at->second.fault == SidecarFault::kNone;
  }

  // For writing, gives misplaced sidecars their own names, so that the locks of this set are those of its members. Returns
  // true if there were any; then the set must be opened again.
  Result<bool> RenameMisplaced() {
    bool any = false;
    for (std::uint32_t rank = 0; view_.committed && request_.write && !has_renamed_ && rank < view_.superblock.members; ++rank) {
      any = any || (!HasUsableSidecar(rank) && MisplacedOf(rank) != nullptr);
    }
    if (!any) return false;
    local_.clear();  // and with it the locks
    std::map<std::uint32_t, std::string> members;
    for (std::uint32_t rank = 0; rank < view_.superblock.members; ++rank) members.emplace(rank, ExpandPattern(ref_.path, rank));
    const bool renamed = ref_.companion == 0 && RehomeMembers(context_.fs, members, view_.superblock.uuid, context_.options.timeout_seconds);
    LZY_RETURN_IF_ERROR(comm_.AllReduceMax(renamed).status());
    return true;
  }

  // True if the sidecar of this member may have another name: the member is lost, or was protected alone elsewhere, or its
  // sidecar has the name of another member.
  bool MayHaveStraySidecar(const Summary& s) const {
    const bool alone = s.superblock.kind == DatasetKind::kShared && s.superblock.state == SidecarState::kCommitted;
    return s.fault != SidecarFault::kNone && (!s.present || alone || MisplacedOf(s.rank) != nullptr);
  }

  // For reading. After a set was renamed, the sidecar of a member that was lost later still has its old name. For writing,
  // Rehome has renamed it already.
  Status TakeStraySidecars() {
    const bool wanted = view_.committed && !request_.write && std::ranges::any_of(members_, [&](const auto& member) {
      return MayHaveStraySidecar(member.second);
    });
    if (!wanted) return Status::Ok();
    bool any = false;
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&]() -> Status {
      for (Summary& s : mine_) {
        if (MayHaveStraySidecar(members_.at(s.rank))) any = TakeStray(s) || any;
      }
      return Status::Ok();
    }));
    LZY_ASSIGN_OR_RETURN(const std::uint64_t found, comm_.AllReduceMax(any));
    if (found == 0) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(members_, ExchangeSummaries(comm_, mine_));
    std::set<std::uint32_t> roll_forward;
    view_.committed = false;
    JudgeGenerations(view_, members_, roll_forward);
    return Status::Ok();
  }

  // Takes a stray sidecar for member `s`, and returns true. A sidecar that cannot be read does not count.
  bool TakeStray(Summary& s) {
    const std::string directory = DirectoryOf(ExpandPattern(ref_.path, s.rank));
    const Summary* const misplaced = MisplacedOf(s.rank);
    const auto path = misplaced != nullptr
                          ? std::optional(misplaced->sidecar_path)
                          : FindSidecarOfMember(context_.fs, directory, view_.superblock.uuid, s.rank, /*temporary_only=*/false);
    auto sidecar = path ? Sidecar::Load(context_.fs, *path, OpenMode::kRead) : Result<std::unique_ptr<Sidecar>>(Code::kNotFound, "");
    const bool usable = sidecar.ok() && CheckContents((*sidecar)->contents()).ok() && (*sidecar)->Unseal(context_.options.key).ok() &&
                        (*sidecar)->generation() == view_.superblock.generation;
    if (!usable) return false;
    local_[s.rank].sidecar = std::move(sidecar).value();
    s.sidecar_path = *path;
    s.prepared = 0;
    return FillFromSidecar(local_[s.rank], s).ok();
  }

  // Keeps a sidecar of another dataset, because a commit will replace it: what it records of the file must be compared
  // first.
  Status KeepFormer(const Summary& s, FileView& file) {
    const bool of_another = s.fault == SidecarFault::kNone && s.superblock.state != SidecarState::kNeverCommitted &&
                            s.superblock.uuid != view_.superblock.uuid;
    if (!of_another || !file.held) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(auto former, Sidecar::Load(std::move(file.held), OpenMode::kReadWrite));
    LZY_RETURN_IF_ERROR(former->Unseal(context_.options.key));
    file.former = std::move(former);
    return Status::Ok();
  }

  // Warns of sidecars that exist but do not count.
  void Warn() {
    for (const auto& [rank, s] : members_) {
      if (s.fault == SidecarFault::kForeign || s.fault == SidecarFault::kOutdated) {
        view_.warnings.push_back(
            fmt::format("{}: the sidecar {}; it is not used", ExpandPattern(ref_.path, rank), s.fault_text));
      }
      const bool unreadable = s.fault == SidecarFault::kUnreadable;
      const bool useless = s.fault == SidecarFault::kDestroyed || s.fault == SidecarFault::kUnsealed || unreadable;
      if (useless && (view_.unusable.ok() || unreadable)) {
        view_.unusable = {unreadable ? Code::kUnreadable : Code::kUnprotected, s.fault_text};
      }
    }
  }

  // The view of a member that a rank sees.
  FileView TakeFile(std::uint32_t rank) {
    FileView file = local_.contains(rank) ? std::move(local_[rank]) : FileView();
    Fill(file, members_.at(rank));
    file.path = ExpandPattern(ref_.path, rank);
    file.owner = owners_.at(rank);
    return file;
  }

  // Without a committed sidecar: makes one ensemble of all files, in the order of ranks. (Protect deals the groups.)
  Status TakeAll() {
    Warn();
    Ensemble& ensemble = view_.ensembles.emplace_back();
    ensemble.key = context_.options.key;
    for (const auto& [rank, s] : members_) ensemble.files.push_back(TakeFile(rank));
    return Status::Ok();
  }

  // Reads the groups from the sidecars, and finds the members that are missing.
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
      member_nodes_.Add(rank, info.groups[0], s.written_on);
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

  // Finds absent members that may be on disks that no process sees (docs/design/commit.md §6, "Members that are not visible").
  void FindElsewhere() {
    view_.written_on = member_nodes_.count;
    const std::set<std::string> here(nodes_.begin(), nodes_.end());
    if (!MayBeElsewhere(member_nodes_, here, request_.lost)) return;
    const std::set<std::string> lost(request_.lost.named.begin(), request_.lost.named.end());
    for (const std::uint32_t rank : missing_) {
      const auto told = member_nodes_.told.find(rank);
      if (told == member_nodes_.told.end() || HasNode(here, told->second) || HasNode(lost, told->second)) continue;
      elsewhere_.emplace(rank, told->second);
    }
    // No sidecar records where the other members are.
    view_.unknown_elsewhere = here.size() + lost.size() < member_nodes_.count && !view_.UnknownFilesAreThere();
  }

  // Names the nodes on which the next command needs a process.
  void NameNodes() {
    std::set<std::uint32_t> all;
    for (const auto& ranks : seen_) all.insert(ranks.begin(), ranks.end());
    const bool apart = std::ranges::none_of(seen_, [&](const auto& ranks) { return ranks.size() == all.size(); });
    if (!apart && elsewhere_.empty() && !view_.unknown_elsewhere) return;
    std::set<std::string> names;
    for (const auto& [rank, owner] : owners_) names.insert(nodes_[static_cast<std::size_t>(owner)]);
    for (const auto& [rank, owner] : missing_owner_) {
      if (!elsewhere_.contains(rank)) names.insert(nodes_[static_cast<std::size_t>(owner)]);
    }
    for (const auto& [rank, node] : elsewhere_) names.insert(node);
    view_.needed_nodes.assign(names.begin(), names.end());
  }

  // The approximate size of a member with its sidecar. Its metadata are assumed to be as large as those of the others.
  std::uint64_t BytesOf(const InfoRecord& info, const MemberRecord& record) const {
    std::uint64_t metadata = 0;
    for (const MemberRecord& other : info.members) {
      const auto at = members_.find(other.rank);
      if (at == members_.end() || at->second.fault != SidecarFault::kNone) continue;
      metadata = std::max(metadata, at->second.sidecar_bytes - std::min(at->second.sidecar_bytes, other.parity_size));
    }
    return record.size + record.parity_size + metadata;
  }

  // Chooses a process for each member that no process sees. Readers need this too: a dry run names the places that the
  // restore would choose.
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

  // The view of a member that no rank sees.
  FileView MissingFile(std::uint32_t rank) const {
    FileView file;
    file.rank = rank;
    file.path = ExpandPattern(ref_.path, rank);
    file.owner = missing_owner_.at(rank);
    if (const auto at = elsewhere_.find(rank); at != elsewhere_.end()) {
      file.not_visible = true;
      file.written_on = at->second;
    }
    if (auto sidecar_path = SidecarPath(file.path); sidecar_path.ok()) file.sidecar_path = *sidecar_path;
    return file;
  }

  // The commit clock for a member whose own is lost. Clocks of whole seconds are read within about a second of each other,
  // and a second is long enough for an edit. Finer clocks say nothing: other members are still written while a clock is
  // read, and clocks of nodes differ.
  std::int64_t ClockOfOthers() const {
    std::int64_t last = 0;
    for (const auto& [rank, s] : members_) {
      if (s.fault == SidecarFault::kNone) last = std::max(last, s.superblock.commit_clock_ns);
    }
    return last % kNsPerSecond == 0 ? last : 0;
  }

  // Sizes are those that the group recorded, not those of a member's own sidecar. A layout that contradicts the records is
  // refused, because parity would be written to wrong places. Times are those of the member's own sidecar if it is of this
  // commit: after a copy, it may have a renewed stamp (commit/renew_stamps).
  Status MakeEnsembles() {
    for (const auto& [ranks, info] : groups_) {
      Ensemble& ensemble = view_.ensembles.emplace_back();
      ensemble.key = context_.options.key;
      ensemble.records = info.members;
      const Superblock& sb = view_.superblock;
      std::vector<std::uint64_t> sizes;
      for (std::uint32_t i = 0; i < ranks.size(); ++i) {
        sizes.push_back(info.members[i].size);
        FileView file = members_.contains(ranks[i]) ? TakeFile(ranks[i]) : MissingFile(ranks[i]);
        if (!file.sidecar_usable() && file.sidecar) file.held = Sidecar::ReleaseFile(std::move(file.sidecar));
        file.stamp.size = info.members[i].size;
        if (const auto own = member_nodes_.own.find(ranks[i]); own != member_nodes_.own.end()) file.written_on = own->second;
        if (file.written_on.empty()) file.written_on = nodes_[static_cast<std::size_t>(file.owner)];
        if (!file.sidecar_usable()) {
          file.stamp.mtime_ns = info.members[i].mtime_ns;
          file.commit_clock_ns = ClockOfOthers();
        }
        // The recorded inode and birth are those of another member.
        if (file.fault == SidecarFault::kForeign) file.stamp.inode = file.stamp.birth_ns = 0;
        ensemble.files.push_back(std::move(file));
      }
      auto layout = Layout::Create(GroupGeometry(sb.block_size, sb.unit, sb.parity, ranks.size()), std::move(sizes));
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

  // Groups are independent, so each gets a communicator of its owners.
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
  const bool has_renamed_;  // RenameMisplaced was tried
  DatasetView view_;
  std::vector<std::vector<std::uint32_t>> seen_;  // by process: members
  std::map<std::uint32_t, int> owners_;
  std::map<std::uint32_t, FileView> local_;  // members that this rank owns
  std::vector<Summary> mine_;
  std::map<std::uint32_t, Summary> members_;
  std::map<std::vector<std::uint32_t>, InfoRecord> groups_;  // by ranks
  std::vector<std::uint32_t> missing_;
  std::map<std::uint32_t, int> missing_owner_;
  std::vector<std::string> nodes_;  // by process
  MemberNodes member_nodes_;
  std::map<std::uint32_t, std::string> elsewhere_;  // members that may be on other nodes, with these
};

}  // namespace

Result<DatasetView> OpenSet(const Context& context, const DatasetRef& ref, const OpenRequest& request) {
  return SetOpener(context, ref, request).Run();
}

}  // namespace lzy
