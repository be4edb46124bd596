// Protecting a set: each member is read by its owner, parity is made by Reduce_scatter within each group, and all
// sidecars are committed in two phases (docs/design.md "Sets").

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "commit/protector.h"
#include "encode/one_node.h"
#include "geometry/grouping.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// What every rank knows of a member.
struct MemberFacts {
  FileStat before;
  std::string domain;
  int owner = 0;
  std::uint64_t old_size = 0;  // as committed before
  const FileView* file = nullptr;
  bool other_writer = false;  // beside this program
};

// One group: its members, its layout, its communicator.
struct Group {
  std::vector<std::uint32_t> ranks;
  std::optional<Layout> layout;
  std::optional<PlanCache> plans;
  std::unique_ptr<Communicator> comm;  // null: all ranks of the dataset take part (or this one does not)
  std::vector<int> owner;              // by device: rank in the communicator
  bool mine = false;                   // this rank owns one of its members
};

// A member that this rank owns.
struct OwnMember {
  FileView* file = nullptr;
  FileJob job;
  SidecarContents contents;
  std::unique_ptr<Sidecar> fresh;
};

class FileSet : public Protector {
 public:
  using Protector::Protector;

 protected:
  Status Protect() override {
    if (request_.touched) {
      LZY_RETURN_IF_ERROR(TakeRequestedRanges());
      // Of members without an entry nothing changed but, perhaps, the size.
      for (const Ensemble& ensemble : view_.ensembles) {
        for (const FileView& file : ensemble.files) {
          if (auto [at, added] = touched_.try_emplace(file.rank); added) at->second.whole = false;
        }
      }
    }
    LZY_RETURN_IF_ERROR(ChooseSet());
    if (!request_.touched && view_.committed) {
      LZY_ASSIGN_OR_RETURN(const bool done, JudgeExisting(options_));
      if (done && !(grown_ && report_.state == DatasetState::kIntact)) return Status::Ok();
    }
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { return FindMembers(); }));
    LZY_RETURN_IF_ERROR(GatherFacts());
    uuid_ = view_.superblock.uuid;
    if (!same_set_) {
      LZY_ASSIGN_OR_RETURN(uuid_, CommonUuid());
    }
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&]() -> Status {
      LZY_RETURN_IF_ERROR(ChooseGroups());
      LZY_RETURN_IF_ERROR(MakeLayouts());
      return MakeShapes();
    }));
    LZY_RETURN_IF_ERROR(ChooseWay());
    Status status = AgreeOn(comm_, [&] { return OpenOutputs(); });
    if (status.ok()) status = SplitGroups();
    if (status.ok()) status = Encode();
    if (status.ok()) status = Commit();
    if (!status.ok()) RemoveTemporaries();
    return status;
  }

 private:
  // Is this the set whose sidecars are there, or a new one that replaces it?
  Status ChooseSet() {
    std::uint64_t present = 0;
    for (const Ensemble& ensemble : view_.ensembles) {
      for (const FileView& file : ensemble.files) present += file.present ? 1 : 0;
    }
    same_set_ = view_.committed;
    // New files that match the pattern make it another set; what is left of an older, larger one does not.
    for (FileView& file : view_.extras) {
      const bool leftover = file.fault == SidecarFault::kForeign || file.fault == SidecarFault::kOutdated;
      if (file.present && (request_.touched || !leftover)) added_.push_back(&file);
    }
    present += added_.size();
    grown_ = !added_.empty();
    if (view_.committed && !request_.touched && !request_.force && !view_.unknown_ranks.empty()) {
      return {Code::kBeyondRepair, fmt::format("{}: a whole group of the set is missing", ref_.path)};
    }
    // A program with another number of ranks makes a new set; members of the old one are never mixed in.
    if (request_.touched &&
        (present != view_.superblock.members || static_cast<std::uint32_t>(comm_.size()) != view_.superblock.members)) {
      same_set_ = false;
    }
    if (grown_) same_set_ = false;
    // By force what is left makes a set of its own.
    if (request_.force && present != view_.superblock.members) same_set_ = false;
    options_ = view_.committed && !request_.touched ? EffectiveOptions() : same_set_ ? EffectiveOptions() : context_.options;
    return Status::Ok();
  }

  Status FindMembers() {
    std::map<std::uint32_t, FileView*> present;
    for (Ensemble& ensemble : view_.ensembles) {
      for (FileView& file : ensemble.files) {
        if (file.present) present[file.rank] = &file;
      }
    }
    for (FileView* file : added_) present[file->rank] = file;
    if (present.empty()) return {Code::kNotFound, fmt::format("{}: no member of the set exists", ref_.path)};
    std::uint32_t expected = 0;
    for (const auto& [rank, file] : present) {
      if (rank != expected++) {
        return {Code::kIo, fmt::format("{}: the member of rank {} is missing ({}); a set has members 0 to p-1",
                                       ref_.path, expected - 1, ExpandPattern(ref_.path, expected - 1))};
      }
    }
    for (const auto& [rank, file] : present) {
      facts_[rank].old_size = file->stamp.size;
      facts_[rank].file = file;
      facts_[rank].other_writer = HasOtherWriter(*file);
      if (file->owner != comm_.rank()) continue;
      OwnMember& member = own_[rank];
      member.file = file;
      member.job.data = file->data.get();
      LZY_RETURN_IF_ERROR(member.job.Settle());
    }
    return Status::Ok();
  }

  // What would come out wrong if ranks did not agree on it: each may have options of its own.
  std::array<std::pair<const char*, std::uint64_t>, 4> Geometry() const {
    return {{{"parity", options_.parity},
             {"group", options_.group},
             {"block-size", options_.block_size},
             {"stripe", options_.stripe}}};
  }

  Status GatherFacts() {
    ByteWriter out;
    const auto geometry = Geometry();
    for (const auto& [name, value] : geometry) out.Put(value);
    for (const auto& [rank, member] : own_) {
      const FileStat& stat = member.job.before;
      out.Put(rank);
      out.Put(stat.size);
      out.Put(stat.mtime_ns);
      out.Put(stat.mode);
      out.Put(stat.uid);
      out.Put(stat.gid);
      out.Put(member.file->sidecar ? member.file->sidecar->generation() : std::uint64_t{0});
      out.PutString(context_.options.domain.empty() ? comm_.ProcessorName() : context_.options.domain);
    }
    LZY_ASSIGN_OR_RETURN(const auto all, comm_.AllGather(out.bytes()));
    for (std::size_t p = 0; p < all.size(); ++p) {
      ByteReader in(all[p]);
      ByteReader first(all[0]);
      for (const auto& [name, value] : geometry) {
        const auto theirs = in.Get<std::uint64_t>(), wanted = first.Get<std::uint64_t>();
        if (theirs == wanted) continue;
        return {Code::kInvalidArgument,
                fmt::format("{}: {} is {} on rank 0 and {} on rank {}: the ranks must agree on it", ref_.path, name, wanted,
                            theirs, p)};
      }
      while (in.remaining() > 0) {
        MemberFacts& f = facts_[in.Get<std::uint32_t>()];
        f.before.size = in.Get<std::uint64_t>();
        f.before.mtime_ns = in.Get<std::int64_t>();
        f.before.mode = in.Get<std::uint32_t>();
        f.before.uid = in.Get<std::uint32_t>();
        f.before.gid = in.Get<std::uint32_t>();
        generation_ = std::max(generation_, in.Get<std::uint64_t>() + 1);
        f.domain = in.GetString(kMaxNameBytes);
        f.owner = static_cast<int>(p);
        if (!in.ok()) return {Code::kInternal, "facts of a rank's members are malformed"};
      }
    }
    return Status::Ok();
  }

  // As they are, or dealt across failure domains.
  Status ChooseGroups() {
    regroup_ = !same_set_ || options_.parity != view_.superblock.parity || options_.group != view_.info.group_option;
    if (!regroup_) {
      parity_ = options_.parity;
      for (const Ensemble& ensemble : view_.ensembles) {
        Group& group = groups_.emplace_back();
        for (const FileView& file : ensemble.files) group.ranks.push_back(file.rank);
      }
      WarnOfMoves();
      return Status::Ok();
    }
    std::vector<std::string> domains;
    for (const auto& [rank, f] : facts_) domains.push_back(f.domain);
    const Grouping dealt = DealGroups(domains, options_.group, options_.parity);
    parity_ = dealt.parity;
    for (const auto& ranks : dealt.groups) groups_.emplace_back().ranks = ranks;
    if (dealt.too_few_devices && (!request_.touched || options_.fail_on_error)) {
      return {Code::kInvalidArgument, fmt::format("{}: {} members cannot carry parity {}: at least {} are needed",
                                                  ref_.path, facts_.size(), options_.parity, options_.parity + 1)};
    }
    Warn(dealt, std::set<std::string>(domains.begin(), domains.end()).size());
    return Status::Ok();
  }

  void Warn(const Grouping& dealt, std::size_t domains) {
    auto& warnings = report_.warnings;
    if (dealt.too_few_devices) {
      warnings.push_back(fmt::format("{}: {} members cannot carry parity {}; hashes only, nothing can be rebuilt",
                                     ref_.path, facts_.size(), options_.parity));
    }
    if (dealt.groups_grown) {
      warnings.push_back(fmt::format("{}: groups are larger than {}, since smaller ones could not hold {} members each",
                                     ref_.path, options_.group, options_.parity + 1));
    }
    // On a single node there is nothing to choose, and nothing to be surprised by.
    if (domains > 1 && dealt.worst_domain_share > dealt.parity) {
      warnings.push_back(
          fmt::format("{}: {} members of one {domain} are in one group; losing that {domain} cannot be mended with parity {}",
                      ref_.path, dealt.worst_domain_share, dealt.parity,
                      fmt::arg("domain", context_.options.domain.empty() ? "node" : "failure domain")));
    }
  }

  // Groups that are kept stay as they were dealt: members may have come together in a domain since. Once, since the new domains
  // are recorded.
  void WarnOfMoves() {
    std::uint32_t most = 0;
    std::set<std::string> domains;
    for (const Ensemble& ensemble : view_.ensembles) {
      std::map<std::string, std::uint32_t> before, now;
      std::uint32_t most_before = 0, most_now = 0;
      for (std::size_t i = 0; i < ensemble.files.size(); ++i) {
        const std::string& domain = facts_.at(ensemble.files[i].rank).domain;
        domains.insert(domain);
        most_before = std::max(most_before, ++before[ensemble.records[i].domain]);
        most_now = std::max(most_now, ++now[domain]);
      }
      if (most_now > most_before) most = std::max(most, most_now);
    }
    // All in one: a single node, on which there is nothing to choose.
    if (most <= parity_ || (domains.size() == 1 && context_.options.domain.empty())) return;
    const char* const what = context_.options.domain.empty() ? "node" : "failure domain";
    report_.warnings.push_back(fmt::format("{}: {} members of one {} are in one group now, more than when groups were "
                                           "dealt; losing that {} cannot be mended with parity {}; another parity or group, or a "
                                           "set without sidecars, is dealt anew",
                                           ref_.path, most, what, what, parity_));
  }

  // One layout a group, all with the unit that the largest member gives.
  Status MakeLayouts() {
    std::uint64_t largest_member = 0;
    for (const auto& [rank, f] : facts_) {
      largest_member = std::max(largest_member, f.before.size);
      total_bytes_ += f.before.size;
    }
    for (const Group& group : groups_)
      largest_group_ = std::max(largest_group_, static_cast<std::uint32_t>(group.ranks.size()));
    GeometryParameters parameters;
    parameters.kind = DatasetKind::kSet;
    parameters.placement = ParityPlacement::kPerDevice;
    parameters.block_size = options_.block_size;
    parameters.parity = parity_;
    parameters.unit =
        ChooseUnit(DatasetKind::kSet, options_.block_size, options_.stripe, largest_group_, largest_member);
    for (Group& group : groups_) {
      GeometryParameters own = parameters;
      own.groups.assign(1, {});
      std::vector<std::uint64_t> sizes;
      for (std::uint32_t i = 0; i < group.ranks.size(); ++i) {
        own.groups[0].push_back(i);
        sizes.push_back(facts_.at(group.ranks[i]).before.size);
        group.mine = group.mine || own_.count(group.ranks[i]) != 0;
      }
      LZY_ASSIGN_OR_RETURN(group.layout, Layout::Create(std::move(own), std::move(sizes)));
      group.plans.emplace(*group.layout);
    }
    return Status::Ok();
  }

  // Contents of the new sidecars as far as known before encoding; trees have their size already.
  Status MakeShapes() {
    const Tree placeholder = Tree::Build(TreeKind::kDataset, std::vector<Hash>(facts_.size()), total_bytes_);
    return ForEachOwn([&](const Group& group, std::uint32_t f, std::uint32_t rank, OwnMember& member) {
      const Layout& layout = *group.layout;
      member.job.InitLeaves(layout, f);
      member.job.key = context_.options.key.get();
      member.contents.key = context_.options.key;
      Superblock& sb = member.contents.superblock;
      sb.uuid = uuid_;
      sb.generation = generation_;
      sb.members = static_cast<std::uint32_t>(facts_.size());
      sb.largest_group = largest_group_;
      sb.rank = rank;
      FillSuperblock(member.contents, layout, member.job, f);
      InfoRecord& info = member.contents.info;
      info.name = PatternTail(ref_.path);
      info.stripe_option = options_.stripe;
      info.group_option = options_.group;
      info.groups = {group.ranks};
      for (std::uint32_t i = 0; i < group.ranks.size(); ++i) {
        const MemberFacts& m = facts_.at(group.ranks[i]);
        info.members.push_back({group.ranks[i],
                                m.before.mode,
                                m.before.uid,
                                m.before.gid,
                                m.before.mtime_ns,
                                m.before.size,
                                {},
                                layout.parity_size(i),
                                {},
                                m.domain});
      }
      SetPath(info, placeholder, rank);
      member.contents.data_tree = Tree::Build(TreeKind::kData, member.job.data_leaves, layout.file_size(f));
      member.contents.parity_tree = Tree::Build(TreeKind::kParity, member.job.parity_leaves, layout.parity_size(f));
      return Status::Ok();
    });
  }

  static void SetPath(InfoRecord& info, const Tree& members, std::uint32_t rank) {
    info.path = members.Prove(rank);
    if (members.leaf_count() == 1) info.path.pages.clear();
  }

  // Only the touched rows, in place, if the sidecars that are there can serve as the rest; otherwise everything, in new
  // ones.
  Status ChooseWay() {
    for (const auto& [rank, f] : facts_) {
      const auto at = touched_.try_emplace(rank).first;
      if (f.other_writer) at->second = Touched{};
      if (!holds_) continue;
      CheckJudged(*f.file, f.before);
      AddResize(at->second, f.old_size, f.before.size, options_.block_size);
    }
    bool fits = holds_ && same_set_ && !regroup_ && request_.touched.has_value();
    for (auto& [rank, member] : own_) {
      const Sidecar* sidecar = member.file->sidecar.get();
      // Also where the set is another one now: what a member's own sidecar says of its blocks holds all the same.
      const bool trusted = holds_ && sidecar != nullptr && sidecar->committed() &&
                           sidecar->contents().superblock.kind == DatasetKind::kSet &&
                           sidecar->contents().superblock.rank == rank && !touched_.at(rank).whole;
      if (trusted && sidecar->contents().superblock.block_size == options_.block_size) {
        member.job.old_data = &sidecar->contents().data_tree;
        member.job.touched = &touched_.at(rank);
        const auto& unknown = sidecar->unknown_data_leaves();
        member.job.unknown.insert(unknown.begin(), unknown.end());
      }
      fits = fits && trusted && sidecar->unknown_data_leaves().empty() && sidecar->unknown_parity_leaves().empty() &&
             sidecar->Fits(member.contents);
    }
    LZY_ASSIGN_OR_RETURN(const std::uint64_t obstacles, comm_.AllReduceMax(fits ? 0 : 1));
    incremental_ = obstacles == 0;
    return Status::Ok();
  }

  Status OpenOutputs() {
    return ForEachOwn([&](const Group& group, std::uint32_t f, std::uint32_t, OwnMember& member) -> Status {
      FileJob& job = member.job;
      Sidecar* out = member.file->sidecar.get();
      if (incremental_) {
        job.old_parity = &out->contents().parity_tree;
      } else {
        LZY_ASSIGN_OR_RETURN(const std::string path, FreshPath(member.file->path));
        LZY_ASSIGN_OR_RETURN(member.fresh, Sidecar::Create(context_.fs, path, member.contents, *member.file->data));
        out = member.fresh.get();
        job.parity_is_fresh = true;
        const std::uint64_t size = group.layout->parity_size(f);
        if (size > 0) LZY_RETURN_IF_ERROR(out->file().Truncate(out->ParityFileOffset(0) + size));
      }
      job.parity_out = &out->file();
      job.parity_base = out->ParityFileOffset(0);
      return Status::Ok();
    });
  }

  // Each group gets a communicator of its owners, all of them before any is used, so that groups without a common rank
  // then work side by side.
  Status SplitGroups() {
    std::vector<std::set<int>> parts;
    std::vector<Group*> split;
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] {
      for (Group& group : groups_) {
        std::set<int> owners;
        for (std::uint32_t rank : group.ranks) owners.insert(facts_.at(rank).owner);
        const bool all = owners.size() == static_cast<std::size_t>(comm_.size());
        for (std::uint32_t rank : group.ranks) {
          const int owner = facts_.at(rank).owner;
          group.owner.push_back(all ? owner : static_cast<int>(std::distance(owners.begin(), owners.find(owner))));
        }
        if (all) continue;
        split.push_back(&group);
        parts.push_back(std::move(owners));
      }
    }));
    LZY_ASSIGN_OR_RETURN(auto comms, SplitIntoParts(comm_, parts));
    for (std::size_t i = 0; i < split.size(); ++i) split[i]->comm = std::move(comms[i]);
    return Status::Ok();
  }

  Status Encode() {
    LZY_RETURN_IF_ERROR(EncodeGroups(touched_, !incremental_));
    LZY_RETURN_IF_ERROR(HandleRot());
    return AgreeOn(comm_, [&]() -> Status {
      Stopwatch watch;
      for (auto& [rank, member] : own_) LZY_RETURN_IF_ERROR(member.job.data->Sync());
      LZY_RETURN_IF_ERROR(ForEachOwn([&](const Group& group, std::uint32_t f, std::uint32_t, OwnMember& member) -> Status {
        LZY_RETURN_IF_ERROR(member.job.MakeTrees(*group.layout, f));
        return member.job.CheckUnchanged();
      }));
      watch.AddTo(report_.phases.sync);
      return Status::Ok();
    });
  }

  // Encodes the rows that are touched, or all. Groups without a common rank work side by side, so nobody stops before all are
  // done, and a failure is agreed on by everybody.
  Status EncodeGroups(const std::map<std::uint32_t, Touched>& touched, bool all) {
    Status status;
    for (Group& group : groups_) {
      if (!group.mine) continue;
      const Status encoded = EncodeGroup(group, touched, all);
      if (status.ok()) status = encoded;
    }
    return Agree(comm_, status);
  }

  Status EncodeGroup(Group& group, const std::map<std::uint32_t, Touched>& touched, bool all) {
    Communicator& comm = group.comm ? *group.comm : comm_;
    std::vector<FileJob*> jobs;
    std::vector<GroupMember> members;
    std::vector<RowRun> runs;
    LZY_RETURN_IF_ERROR(AgreeOn(comm, [&]() -> Status {
      std::vector<const Touched*> by_file;
      for (std::uint32_t rank : group.ranks) {
        const auto edits = touched.find(rank);
        by_file.push_back(edits == touched.end() ? nullptr : &edits->second);
        const auto own = own_.find(rank);
        jobs.push_back(own == own_.end() ? nullptr : &own->second.job);
        members.push_back({group.owner[members.size()], jobs.back()});
      }
      LZY_ASSIGN_OR_RETURN(runs, RowsToEncode(*group.layout, *group.plans, by_file, all));
      return Status::Ok();
    }));
    LZY_ASSIGN_OR_RETURN(const bool done, EncodeOnOneNode(context_, pass_, *group.layout, comm, members, runs));
    return done ? Status::Ok() : pass_.Run(*group.layout, comm, group.owner, jobs, runs);
  }

  // Encodes rows with rotten blocks again, with their right contents where the parity of before still gives them.
  Status HandleRot() {
    std::map<std::uint32_t, FileJob*> jobs;
    for (auto& [rank, member] : own_) jobs[rank] = &member.job;
    LZY_ASSIGN_OR_RETURN(rot_, GatherRot(comm_, jobs));
    LZY_RETURN_IF_ERROR(CheckReadings(rot_));
    if (rot_.all.empty()) return Status::Ok();
    if (!incremental_) {
      Status status;
      for (const Ensemble& ensemble : view_.ensembles) {
        const bool mine = std::any_of(ensemble.files.begin(), ensemble.files.end(),
                                      [&](const FileView& file) { return file.owner == comm_.rank(); });
        if (!mine && ensemble.group_comm == nullptr && view_.ensembles.size() > 1) continue;
        Communicator& comm = ensemble.group_comm ? *ensemble.group_comm : comm_;
        const Status one = RebuildRot(context_, ensemble, comm, OwnersIn(ensemble, comm), rot_.all, touched_, jobs);
        if (status.ok()) status = one;
      }
      LZY_RETURN_IF_ERROR(Agree(comm_, status));
      for (auto& [rank, job] : jobs) job->parity_is_fresh = false;  // it has been written once
      std::map<std::uint32_t, Touched> blocks;
      for (const auto& [rank, indices] : rot_.all) blocks[rank] = TouchedBlocks(indices, options_.block_size);
      LZY_RETURN_IF_ERROR(EncodeGroups(blocks, false));
      LZY_ASSIGN_OR_RETURN(rot_, GatherRot(comm_, jobs));
    }
    for (Group& group : groups_) {
      RottenBlocks lost;
      std::vector<FileJob*> own;
      for (std::uint32_t f = 0; f < group.ranks.size(); ++f) {
        if (auto at = rot_.lost.find(group.ranks[f]); at != rot_.lost.end()) lost[f] = at->second;
        const auto mine = jobs.find(group.ranks[f]);
        own.push_back(mine == jobs.end() ? nullptr : mine->second);
      }
      ForsakeParity(*group.layout, lost, own);
    }
    return Status::Ok();
  }

  // Roots of all members, the tree over them, and the two phases.
  Status Commit() {
    Stopwatch watch;
    LZY_RETURN_IF_ERROR(FillContents());
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&]() -> Status {
      std::set<std::string> directories;
      for (auto& [rank, member] : own_) {
        if (incremental_) {
          LZY_RETURN_IF_ERROR(member.file->sidecar->Prepare(member.contents));
        } else {
          LZY_RETURN_IF_ERROR(member.fresh->WriteAll(member.contents));
          LZY_RETURN_IF_ERROR(KeepOtherIntent(*member.file, *member.fresh));
          directories.insert(DirectoryOf(member.fresh->path()));
        }
      }
      // Another member's directory may be durable first: then this member is completed from what is prepared here.
      for (const std::string& directory : directories) LZY_RETURN_IF_ERROR(context_.fs.SyncDirectory(directory));
      return Status::Ok();
    }));
    // From the first of these on the new generation counts, and whoever finds it completes it; so nothing is removed
    // any more.
    publishing_ = true;
    std::uint64_t sidecar_bytes = 0;
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] {
      Status status;
      for (auto& [rank, member] : own_) {
        Sidecar& sidecar = incremental_ ? *member.file->sidecar : *member.fresh;
        const Status one = incremental_ ? sidecar.FinishPrepared() : Publish(member.file->path);
        if (status.ok()) status = one;
        sidecar_bytes += sidecar.file_size();
      }
      return status;
    }));
    LZY_ASSIGN_OR_RETURN(report_.sidecar_bytes, comm_.AllReduceSum(sidecar_bytes));
    watch.AddTo(report_.phases.write);
    FillReport(any_contents_, static_cast<std::uint32_t>(groups_.size()), total_bytes_);
    for (const Group& group : groups_) {
      for (std::uint32_t f = 0; f < group.ranks.size(); ++f) {
        ReportRot(*facts_.at(group.ranks[f]).file, *group.layout, f, rot_);
      }
    }
    return Status::Ok();
  }

  Status FillContents() {
    ByteWriter out;
    for (const auto& [rank, member] : own_) {
      out.Put(rank);
      out.PutBytes(member.job.data_tree.Root().bytes);
      out.PutBytes(member.job.parity_tree.Root().bytes);
    }
    LZY_ASSIGN_OR_RETURN(const auto all, comm_.AllGather(out.bytes()));
    std::vector<Hash> data_roots(facts_.size()), parity_roots(facts_.size());
    for (const auto& bytes : all) {
      ByteReader in(bytes);
      while (in.remaining() > 0) {
        const auto rank = in.Get<std::uint32_t>();
        for (auto* roots : {&data_roots, &parity_roots}) {
          const ByteSpan raw = in.GetBytes(16);
          if (!in.ok() || rank >= roots->size()) return {Code::kInternal, "roots of a rank's members are malformed"};
          std::copy(raw.begin(), raw.end(), (*roots)[rank].bytes.begin());
        }
      }
    }
    const Tree members = Tree::Build(TreeKind::kDataset, data_roots, total_bytes_);
    LZY_ASSIGN_OR_RETURN(const std::uint64_t wall, comm_.AllReduceMax(static_cast<std::uint64_t>(WallClockNs())));
    Superblock& any = any_contents_.superblock;
    any.kind = DatasetKind::kSet;
    any.block_size = groups_[0].layout->block_size();
    any.unit = groups_[0].layout->unit();
    any.parity = parity_;
    any.members = static_cast<std::uint32_t>(facts_.size());
    any.largest_group = largest_group_;
    any.generation = generation_;
    any.wall_time_ns = static_cast<std::int64_t>(wall);
    any.dataset_root = DatasetRootOf(any, members.Root());
    for (auto& [rank, member] : own_) {
      member.contents.superblock.wall_time_ns = any.wall_time_ns;
      member.contents.superblock.dataset_root = any.dataset_root;
      for (MemberRecord& record : member.contents.info.members) {
        record.data_root = data_roots[record.rank];
        record.parity_root = parity_roots[record.rank];
      }
      SetPath(member.contents.info, members, rank);
      member.contents.data_tree = std::move(member.job.data_tree);
      member.contents.parity_tree = std::move(member.job.parity_tree);
    }
    return Status::Ok();
  }

  void RemoveTemporaries() {
    if (publishing_) return;
    for (auto& [rank, member] : own_) {
      if (member.fresh) (void)context_.fs.Remove(member.fresh->path());
    }
  }

  // fn(group, index of the member in it, rank, member) for each member that this rank owns, until one fails.
  template <class Fn>
  Status ForEachOwn(const Fn& fn) {
    for (const Group& group : groups_) {
      for (std::uint32_t f = 0; f < group.ranks.size(); ++f) {
        const auto at = own_.find(group.ranks[f]);
        if (at != own_.end()) LZY_RETURN_IF_ERROR(fn(group, f, group.ranks[f], at->second));
      }
    }
    return Status::Ok();
  }

  Options options_;
  bool same_set_ = false;
  bool grown_ = false;
  std::vector<FileView*> added_;  // members that the committed set did not have
  bool regroup_ = true;
  bool incremental_ = false;
  bool publishing_ = false;
  std::uint32_t parity_ = 0;
  std::uint32_t largest_group_ = 0;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t generation_ = 1;
  std::map<std::uint32_t, MemberFacts> facts_;
  std::map<std::uint32_t, OwnMember> own_;
  Rot rot_;
  std::vector<Group> groups_;
  Uuid uuid_{};
  SidecarContents any_contents_;
};

}  // namespace

std::unique_ptr<Protector> SetProtector(const Context& context, const DatasetRef& ref, const ProtectRequest& request,
                                        DatasetReport& report) {
  return std::make_unique<FileSet>(context, ref, request, report);
}

}  // namespace lzy
