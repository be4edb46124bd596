// Encodes a set, and commits it in two phases (docs/design/commit.md "Sets").
//
// Phase one makes every sidecar durable: prepared in place, or complete under a temporary name. Phase two makes each
// sidecar count. As soon as one member counts, the commit is decided: a process that finds a committed member and a
// prepared one completes the prepared one (dataset/roll_forward). So a crash never leaves a set of two generations.

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/many_writers.h"
#include "comm/records.h"
#include "commit/file_set.h"
#include "encode/capture.h"
#include "encode/coverage.h"
#include "encode/one_node.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"

namespace lzy {

// In place, the parity of untouched rows stays; old_parity tells MakeTrees so. A new file gets its final size, and bytes
// that are not written are a hole.
Status FileSet::OpenOutputs() {
  return ForEachOwn([&](const Group& group, std::uint32_t f, std::uint32_t, OwnMember& member) -> Status {
    FileJob& job = member.job;
    Sidecar* out = member.file->sidecar.get();
    if (incremental_) {
      LZY_RETURN_IF_ERROR(out->Separate());
      job.old_parity = &out->contents().parity_tree;
    } else {
      LZY_ASSIGN_OR_RETURN(const std::string path, FreshPath(member.file->path));
      LZY_ASSIGN_OR_RETURN(member.fresh, Sidecar::Create(context_.fs, path, member.contents, *member.file->data));
      out = member.fresh.get();
      job.parity_is_fresh = true;
      const std::uint64_t size = group.layout->parity_size(f);
      if (size > 0) LZY_RETURN_IF_ERROR(out->file().Truncate(out->ParityFileOffset(0) + size));
      ExpectWritersOfRanks(out->file(), ThreadsFor(context_), comm_.size(), facts_.size());
    }
    job.parity_out = &out->file();
    job.parity_base = out->ParityFileOffset(0);
    return Status::Ok();
  });
}

// A group with all ranks as owners uses the communicator of the dataset. Group::owner has ranks of the group's
// communicator.
Status FileSet::SplitGroups() {
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

// comm_ does nothing if no group used it.
Status FileSet::MeasureExchange(double seconds) {
  Status status;
  // After an error too, because ranks of the next group wait for this one.
  for (const Group& group : groups_) {
    const Status measured = group.comm ? group.comm->MeasureExchange(seconds) : Status::Ok();
    if (status.ok()) status = measured;
  }
  const Status measured = comm_.MeasureExchange(seconds);
  return status.ok() ? measured : status;
}

// Syncs the data and checks for changes before anything is committed.
Status FileSet::Encode() {
  LZY_RETURN_IF_ERROR(EncodeGroups(touched_, !incremental_));
  LZY_RETURN_IF_ERROR(HandleRot());
  const Status taken = TakeCaptured();
  return AgreeOn(comm_, [&]() -> Status {
    LZY_RETURN_IF_ERROR(taken);
    Stopwatch watch;
    for (auto& [rank, member] : own_) LZY_RETURN_IF_ERROR(member.job.data->Sync());
    LZY_RETURN_IF_ERROR(ForEachOwn([&](const Group& group, std::uint32_t f, std::uint32_t rank, OwnMember& member) -> Status {
      LZY_RETURN_IF_ERROR(member.job.MakeTrees(*group.layout, f));
      LZY_RETURN_IF_ERROR(CheckQuiet(rank, member.job));
      return member.job.CheckUnchanged();
    }));
    watch.AddTo(report_.phases.sync);
    return Status::Ok();
  });
}

// A capture only saves work, so a failure here must not fail the commit.
void FileSet::UseCapture() {
  Capture* const capture = request_.capture;
  if (!request_.touched || capture == nullptr || own_.size() != 1) return;
  auto& [rank, member] = *own_.begin();
  FileJob& job = member.job;
  const Status used = NoThrow([&]() -> Status {
    const Sidecar* const now = member.file->sidecar.get();
    const bool another = now == nullptr || now->contents().superblock.uuid != request_.departs_from ||
                         now->generation() != request_.departs_from_generation;
    if (another || facts_.at(rank).other_writer || IsEdited()) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(const Layout layout, Layout::Create(capture->parameters(), {job.before.size}));
    (void)capture->Finish(layout);  // always true: this is the geometry of the capture
    if (!HasFirstBlock(*capture, job)) return Status::Ok();
    capture->CloseOpen([](std::uint64_t) { return Capture::Fate::kCaptured; });
    // verify-writes compares leaves with the file, whatever the block size is.
    if (layout.block_size() == block_size_) captured_ = capture->Captured(std::numeric_limits<std::size_t>::max());
    if (!captured_.empty() && capture->only_held()) job.copies = capture;
    report_.captures_count = true;
    return Status::Ok();
  });
  if (used.ok()) return;
  capture->MissAll();
  captured_.clear();
}

// Copies were counted by the pipeline. With parity, blocks without a copy were read and hashed. If this hash differs from
// the captured one, the block was written wrongly. It gets the captured leaf, so it is damaged until verify-writes writes
// it again.
Status FileSet::TakeCaptured() {
  std::vector<std::pair<std::uint32_t, std::uint64_t>> wrong;  // member, block
  Status status = NoThrow([&] {
    RowStats stats;
    for (const Interval& blocks : captured_) {
      auto& [rank, member] = *own_.begin();
      FileJob& job = member.job;
      for (std::uint64_t i = blocks.begin; i < blocks.end; ++i) {
        const Hash leaf = request_.capture->leaf(i);
        if (parity_ > 0 && job.data_leaves.Get(i) != leaf) wrong.emplace_back(rank, i);
        job.data_leaves.Set(i, leaf);
      }
      stats.bytes_captured += std::min(blocks.end * block_size_, job.before.size) - blocks.begin * block_size_;
    }
    if (parity_ == 0) pass_.Add(stats);
  });
  if (parity_ == 0 || std::ranges::none_of(facts_, [](const auto& f) { return f.second.captured; })) return status;
  const auto all = UniteRecords(comm_, wrong);
  if (status.ok()) status = all.status();
  if (!status.ok()) return status;
  return NoThrow([&] {
    RottenBlocks lost;
    for (const auto& [rank, block] : *all) lost[rank].insert(block);
    Forsake(lost);
  });
}

// Parity of these rows was made from contents that differ from the leaves, so no repair may use it.
void FileSet::Forsake(const RottenBlocks& by_rank) {
  for (Group& group : groups_) {
    RottenBlocks lost;
    std::vector<FileJob*> own;
    for (std::uint32_t f = 0; f < group.ranks.size(); ++f) {
      if (auto at = by_rank.find(group.ranks[f]); at != by_rank.end()) lost[f] = at->second;
      const auto mine = own_.find(group.ranks[f]);
      own.push_back(mine == own_.end() ? nullptr : &mine->second.job);
    }
    ForsakeParity(*group.layout, lost, own);
  }
}

// A rank skips groups without a member of its own. Groups with a common rank go one after the other, in the same order on
// all ranks, so no two ranks wait for each other.
Status FileSet::EncodeGroups(const std::map<std::uint32_t, IntervalSet>& touched, bool all) {
  if (IsHashedAlone()) return AgreeOn(comm_, [&] { return HashMembers(touched, all); });
  Status status;
  for (Group& group : groups_) {
    if (!group.mine) continue;
    const Status encoded = EncodeGroup(group, touched, all);
    if (status.ok()) status = encoded;
  }
  return Agree(comm_, status);
}

// On one node, ranks read each other's members. Otherwise the ranks add up parity by messages.
Status FileSet::EncodeGroup(Group& group, const std::map<std::uint32_t, IntervalSet>& touched, bool all) {
  Communicator& comm = group.comm ? *group.comm : comm_;
  std::vector<FileJob*> jobs;
  std::vector<GroupMember> members;
  std::vector<const IntervalSet*> by_file;
  LZY_RETURN_IF_ERROR(AgreeOn(comm, [&] {
    for (std::uint32_t rank : group.ranks) {
      const auto edits = touched.find(rank);
      by_file.push_back(edits == touched.end() ? nullptr : &edits->second);
      const auto own = own_.find(rank);
      jobs.push_back(own == own_.end() ? nullptr : &own->second.job);
      members.push_back({group.owner[members.size()], jobs.back()});
    }
  }));
  return InStretches(*group.layout, [&](Interval stretch) -> Status {
    std::vector<RowRun> runs;
    LZY_RETURN_IF_ERROR(AgreeOn(comm, [&]() -> Status {
      LZY_ASSIGN_OR_RETURN(runs, RowsToEncode(*group.layout, *group.plans, by_file, all, stretch));
      return Status::Ok();
    }));
    LZY_ASSIGN_OR_RETURN(const bool done, EncodeOnOneNode(context_, pass_, *group.layout, comm, members, runs));
    return done ? Status::Ok() : pass_.Run(*group.layout, comm, group.owner, jobs, runs);
  });
}

// Encodes each member as a group of its own, in which each row is one block.
Status FileSet::HashMembers(const std::map<std::uint32_t, IntervalSet>& touched, bool all) {
  return ForEachOwn([&](const Group& group, std::uint32_t f, std::uint32_t rank, OwnMember& member) -> Status {
    const std::uint64_t size = group.layout->file_size(f);
    LZY_ASSIGN_OR_RETURN(const Layout alone, Layout::Create(GroupGeometry(block_size_, group.layout->unit(), 0, 1), {size}));
    PlanCache plans(alone);
    const auto edits = touched.find(rank);
    IntervalSet read = edits == touched.end() ? IntervalSet() : edits->second;
    if (all) read.AddWhole();
    if (!captured_.empty()) {
      const auto blocks = Without(TouchedBlocks(read, block_size_, alone.data_blocks(0)), captured_);
      read.Clear();
      for (const Interval& one : blocks) read.Add({one.begin * block_size_, one.end * block_size_});
    }
    return InStretches(alone, [&](Interval stretch) -> Status {
      LZY_ASSIGN_OR_RETURN(const auto runs, RowsToEncode(alone, plans, {&read}, read.whole(), stretch));
      const auto self = SelfCommunicator();
      return pass_.Run(alone, *self, {0}, {&member.job}, runs);
    });
  });
}

// Presents the file as its former dataset. Borrows data, sidecar and parts from the view, and gives them back before it
// returns.
Status FileSet::RebuildFromFormer() {
  for (auto& [rank, member] : own_) {
    FileView& file = *member.file;
    const Sidecar* const former = FormerOf(file);
    if (former == nullptr || former->contents().superblock.kind != DatasetKind::kShared || !rot_.all.contains(rank)) continue;
    auto layout = LayoutOf(former->contents());
    if (!layout.ok()) continue;
    std::unique_ptr<Sidecar>& sidecar = file.former ? file.former : file.sidecar;
    Ensemble before;
    before.key = context_.options.key;
    before.layout = std::move(layout).value();
    FileView& one = before.files.emplace_back();
    static_cast<FileFacts&>(one) = file;
    one.fault = SidecarFault::kNone;
    one.stamp = former->contents().superblock.stamp;
    one.data.swap(file.data);
    one.sidecar.swap(sidecar);
    one.parts.swap(file.parts);
    const auto self = SelfCommunicator();
    const Status rebuilt = NoThrow([&] {
      return RebuildRot(context_, before, *self, std::vector<int>(before.layout->devices(), 0), rot_.all, {{rank, member.touched}},
                        {{rank, &member.job}});
    });
    one.data.swap(file.data);
    one.sidecar.swap(sidecar);
    one.parts.swap(file.parts);
    LZY_RETURN_IF_ERROR(rebuilt);
  }
  return Status::Ok();
}

// Rebuilds rotten blocks with the groups of the last commit, then encodes their rows in the groups of this commit. If a
// block cannot be rebuilt, its row is recorded as without parity.
Status FileSet::HandleRot() {
  std::map<std::uint32_t, FileJob*> jobs;
  for (auto& [rank, member] : own_) jobs[rank] = &member.job;
  LZY_ASSIGN_OR_RETURN(rot_, GatherRot(comm_, jobs));
  LZY_RETURN_IF_ERROR(CheckReadings(rot_));
  if (rot_.all.empty()) return Status::Ok();
  if (!incremental_) {
    Status status;
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { return RebuildFromFormer(); }));
    for (const Ensemble& ensemble : view_.ensembles) {
      if (!view_.committed) break;  // there are no old groups
      const bool mine = std::ranges::count(ensemble.files, comm_.rank(), &FileView::owner) != 0;
      if (!mine && ensemble.group_comm == nullptr && view_.ensembles.size() > 1) continue;
      Communicator& comm = ensemble.group_comm ? *ensemble.group_comm : comm_;
      const Status one = RebuildRot(context_, ensemble, comm, OwnersIn(ensemble, comm), rot_.all, touched_, jobs);
      if (status.ok()) status = one;
    }
    LZY_RETURN_IF_ERROR(Agree(comm_, status));
    for (auto& [rank, job] : jobs) job->parity_is_fresh = false;  // the parity was written once, so it is not zero any more
    std::map<std::uint32_t, IntervalSet> blocks;
    for (const auto& [rank, indices] : rot_.all) blocks[rank] = TouchedBlocks(indices, block_size_);
    LZY_RETURN_IF_ERROR(EncodeGroups(blocks, false));
    LZY_ASSIGN_OR_RETURN(rot_, GatherRot(comm_, jobs));
  }
  return AgreeOn(comm_, [&] { Forsake(rot_.lost); });
}

// All ranks agree between the two phases: no sidecar may count before all are durable.
Status FileSet::Commit() {
  Stopwatch watch;
  LZY_RETURN_IF_ERROR(FillContents());
  std::set<Uuid> replaced;
  const bool keeps = !incremental_ && KeepsOthers();
  if (keeps) {
    LZY_ASSIGN_OR_RETURN(replaced, ReplacedSets());
  }
  LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&]() -> Status {
    std::set<std::string> directories;
    for (auto& [rank, member] : own_) {
      if (incremental_) {
        LZY_RETURN_IF_ERROR(member.file->sidecar->Prepare(member.contents));
      } else {
        LZY_RETURN_IF_ERROR(member.fresh->WriteAll(member.contents));
        LZY_RETURN_IF_ERROR(KeepOtherIntent(*member.file, *member.fresh));
        if (keeps) LZY_RETURN_IF_ERROR(KeepForOthers(member.file->path, replaced));
        directories.insert(DirectoryOf(member.fresh->path()));
      }
    }
    // The directory of another member may become durable first. Then this member is completed from its prepared sidecar.
    for (const std::string& directory : directories) LZY_RETURN_IF_ERROR(context_.fs.SyncDirectory(directory));
    return Status::Ok();
  }));
  // From the first FinishPrepared or Publish on, the new generation counts, and other processes may complete it. So nothing
  // may be removed any more.
  publishing_ = true;
  std::uint64_t sidecar_bytes = 0;
  LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] {
    Status status;
    for (auto& [rank, member] : own_) {
      Sidecar& sidecar = incremental_ ? *member.file->sidecar : *member.fresh;
      const Status one = incremental_ ? sidecar.FinishPrepared() : Publish(member.file->path);
      if (incremental_) RenewAccess(*member.file, sidecar);
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

// All ranks use one wall time, because dataset/roll_forward recognises members of one commit by it.
Status FileSet::FillContents() {
  using Roots = std::tuple<std::uint32_t, Hash, Hash>;  // of a member: rank, data, parity
  std::vector<Roots> mine;
  for (const auto& [rank, member] : own_) mine.emplace_back(rank, member.job.data_tree.Root(), member.job.parity_tree.Root());
  LZY_ASSIGN_OR_RETURN(const auto all, UniteRecords(comm_, mine));
  std::vector<Hash> data_roots(facts_.size()), parity_roots(facts_.size());
  for (const auto& [rank, data, parity] : all) {
    data_roots.at(rank) = data;
    parity_roots.at(rank) = parity;
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
  any.uuid = uuid_;
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

Result<std::set<Uuid>> FileSet::ReplacedSets() {
  std::set<Uuid> out{uuid_};
  std::vector<std::tuple<Uuid, std::uint32_t, std::uint32_t>> mine;  // of old sidecars: set, rank, members
  for (const auto& [rank, member] : own_) {
    const Sidecar* const old = LeavesOf(*member.file);
    if (old == nullptr || old->contents().superblock.kind != DatasetKind::kSet) continue;
    const Superblock& sb = old->contents().superblock;
    const bool unedited = member.contents.data_tree.Root() == old->contents().data_tree.Root();
    if (unedited || sb.uuid == view_.superblock.uuid) mine.emplace_back(sb.uuid, sb.rank, sb.members);
  }
  LZY_ASSIGN_OR_RETURN(const auto all, UniteRecords(comm_, mine));
  std::map<Uuid, std::set<std::uint32_t>> ranks;
  for (const auto& [uuid, rank, members] : all) {
    ranks[uuid].insert(rank);
    if (ranks[uuid].size() == members) out.insert(uuid);
  }
  return out;
}

// Once publishing has begun, a temporary sidecar may be the only copy of a generation that counts.
void FileSet::RemoveTemporaries() {
  if (publishing_) return;
  RemoveKept();
  for (auto& [rank, member] : own_) {
    if (member.fresh) (void)context_.fs.Remove(member.fresh->path());
  }
}

}  // namespace lzy
