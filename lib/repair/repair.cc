#include "repair/repair.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/acl.h"
#include "base/many_writers.h"
#include "base/reflink.h"
#include "comm/records.h"
#include "dataset/parts.h"
#include "dataset/seen_late.h"
#include "encode/rebuild.h"
#include "repair/repairer.h"
#include "repair/other_names.h"
#include "repair/replica.h"
#include "rows/retry.h"
#include "names/peek.h"
#include "names/set_names.h"
#include "sidecar/names.h"
#include "sidecar/scratch.h"

// The first pass of a repair (repair/repairer.h): plans, opens the outputs, rebuilds, reads back.

namespace lzy {
namespace {

// Keeps the leaves that some copy of the sidecar has. A leaf of zeros is in no copy.
void KeepKnownLeaves(const Tree& parity, FileRepair& repair) {
  for (std::uint64_t i = 0; i < parity.leaf_count(); ++i) {
    const Hash leaf = parity.leaf(i);
    if (!leaf.IsZero()) repair.out->parity.leaves.Set(i, leaf);
  }
}

// Parts contain the metadata, so they are opened also if only metadata are repaired.
bool WritesParts(const FileView& file, const FilePlan& plan) {
  return !file.part_paths.empty() && (plan.parity_in_place || plan.repair_metadata);
}

// Makes streams read blocks of the replica from there, or, if it is on another node, from where they were copied to. Returns
// true if there are any such blocks.
bool UseReplica(const Ensemble& ensemble, const std::vector<FileFindings>& findings, const std::vector<FileRepair>& repairs,
                RowStreams& streams, std::vector<std::unique_ptr<PatchedFile>>& patched) {
  bool any = false;
  for (std::size_t f = 0; f < ensemble.files.size(); ++f) {
    const FileView& file = ensemble.files[f];
    any = any || !findings[f].in_replica.empty();
    File* const replica = file.replica ? file.replica.get() : repairs[f].out->data.file;
    if (findings[f].in_replica.empty() || replica == nullptr) continue;
    std::vector<Interval> bytes;
    for (const Interval& blocks : findings[f].in_replica) {
      bytes.push_back({blocks.begin * ensemble.layout->block_size(), blocks.end * ensemble.layout->block_size()});
    }
    patched.push_back(std::make_unique<PatchedFile>(file.path, file.data.get(), *replica, std::move(bytes)));
    streams.data[f].file = patched.back().get();
    streams.data[f].synced = false;
  }
  return any;
}

// A failure to write what a repair makes, for example on a full disk: the repair was tried and failed.
Status OfWriting(const Status& status) { return status.code() == Code::kIo ? Status(Code::kWriteFailed, status.message()) : status; }

// Writes parity to `sidecar`, through this rank's handle `file`.
void PutParityInto(const Sidecar& sidecar, File& file, FileRepair& repair) {
  repair.out->parity.file = &file;
  repair.out->parity.base = sidecar.ParityFileOffset(0);
}

}  // namespace

std::vector<ByteRange> Merged(const std::vector<ByteRange>& ranges) {
  IntervalSet all;
  for (const ByteRange& range : ranges) all.Add({range.offset, range.offset + range.length});
  std::vector<ByteRange> merged;
  for (const Interval& one : all.intervals()) merged.push_back({one.begin, one.end - one.begin});
  return merged;
}

// InEachEnsemble goes through all ensembles and agrees at the end, so all ranks make the same collective calls whatever
// fails. Only after that may files get their names.
Status Repairer::Run() {
  LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { return Plan(); }));
  if (plan_.beyond && !request_.salvage) {
    return {Code::kBeyondRepair,
            fmt::format("{}: rows have lost more blocks than parity {} can repair; nothing was written", view_.ref.path,
                        view_.superblock.parity)};
  }
  // No new file gets its name before all files are right.
  std::vector<Status> rebuilt(view_.ensembles.size());
  (void)InEachEnsemble([&](std::size_t e) { return rebuilt[e] = OpenEnsemble(e); });  // the next steps return the failures
  CopyFromReplica(rebuilt);
  Status status = InEachEnsemble([&](std::size_t e) {
    if (rebuilt[e].ok()) rebuilt[e] = RebuildEnsemble(e);
    return rebuilt[e];
  });
  if (status.ok()) {
    status = InEachEnsemble([&](std::size_t e) { return FinishEnsemble(e, /*only_in_place=*/false); });
  } else {
    // Repairs in place in other groups are finished all the same.
    (void)InEachEnsemble(
        [&](std::size_t e) { return rebuilt[e].ok() ? FinishEnsemble(e, /*only_in_place=*/true) : Status::Ok(); });
  }
  if (!status.ok()) {
    RemoveTemporaries();
    RemoveParts(context_.fs, made_parts_);
  }
  LZY_RETURN_IF_ERROR(status);
  WarnOfOwners();
  LZY_RETURN_IF_ERROR(ShareWarnings());
  WarnOfParts();
  LZY_ASSIGN_OR_RETURN(const std::uint64_t again, comm_.AllReduceMax(stats_.rows_again));
  if (again > 0) report_.warnings.push_back(AgainText(again));
  MarkRepaired(view_, plan_, request_, report_);
  report_.from_replica = BytesFromReplica(plan_);
  return Status::Ok();
}

Status Repairer::Plan() {
  LZY_ASSIGN_OR_RETURN(plan_, PlanRepair(view_, findings_, request_));
  for (const EnsemblePlan& ensemble : plan_.ensembles) {
    auto& repairs = repairs_.emplace_back(ensemble.files.size());
    for (std::size_t f = 0; f < repairs.size(); ++f) repairs[f].plan = &ensemble.files[f];
  }
  return Status::Ok();
}

// The ranks of the group agree on each step before the next one, because no block may be written if a file could not be
// opened.
Status Repairer::OpenEnsemble(std::size_t e) {
  Ensemble& ensemble = view_.ensembles[e];
  // Checks before any intent is set whether files can be written. OpenData opens a file that cannot be written for reading.
  LZY_RETURN_IF_ERROR(ForEachFile(ensemble, [&](std::uint32_t f) {
    const FilePlan& plan = *repairs_[e][f].plan;
    const bool writes = Writer(ensemble.files[f]) && (plan.data_in_place || plan.cut_tail);
    return writes ? context_.fs.Open(ensemble.files[f].path, OpenMode::kReadWrite, /*follow=*/shared()).status() : Status::Ok();
  }));
  LZY_RETURN_IF_ERROR(AskOtherSidecars(ensemble, e));
  LZY_RETURN_IF_ERROR(ForEachFile(ensemble, [&](std::uint32_t f) {
    return Mine(ensemble.files[f]) && repairs_[e][f].plan->any() ? OpenOutputs(ensemble, e, f) : Status::Ok();
  }));
  return shared() ? OpenSharedOutputs(ensemble, e) : Status::Ok();
}

Status Repairer::RebuildEnsemble(std::size_t e) {
  Ensemble& ensemble = view_.ensembles[e];
  Communicator& comm = CommOf(ensemble);
  LZY_RETURN_IF_ERROR(Agree(comm, copied_[e]));
  RepairGuests guests;
  LZY_RETURN_IF_ERROR(ExecutePlan(ensemble, e, comm, guests));
  LZY_RETURN_IF_ERROR(
      ForEachFile(ensemble, [&](std::uint32_t f) { return VerifyWritten(repairs_[e][f], ensemble.files[f]); }));
  return GatherComputed(ensemble, e, comm);
}

// Order matters. Changes of the target are looked for after its lock is held, and before anything is opened for writing. The
// intent of the repair comes last, because from then on differing blocks count as damage.
Status Repairer::OpenOutputs(Ensemble& ensemble, std::size_t e, std::uint32_t f) {
  FileView& file = ensemble.files[f];
  FileRepair& repair = repairs_[e][f];
  if (repair.plan->rebuild_data) LZY_RETURN_IF_ERROR(MakeWayFor(file));
  LZY_ASSIGN_OR_RETURN(repair.target, context_.fs.RealPath(file.path));
  repair.out->data.expected = file.data_tree();
  const bool unheld = repair.plan->rehash_parity || (repair.plan->rebuild_sidecar && !file.sidecar);
  repair.out->parity.expected = unheld ? nullptr : file.parity_tree();
  repair.scratch = ScratchBeside(context_.fs, repair.target);
  repair.out->MakeRoom(*ensemble.layout, f, repair.scratch);
  if (!Writer(file)) return Status::Ok();
  if (repair.plan->rehash_parity) KeepKnownLeaves(*file.parity_tree(), repair);
  LZY_RETURN_IF_ERROR(CheckUnchanged(file, repair));
  if (file.sidecar && !repair.plan->rebuild_sidecar) LZY_RETURN_IF_ERROR(file.sidecar->Separate());
  if (NeedsOwn(file, repair)) LZY_RETURN_IF_ERROR(MakeOwn(file, repair));
  LZY_RETURN_IF_ERROR(OpenDataOutput(file, repair, ensemble.layout->file_size(f)));
  LZY_RETURN_IF_ERROR(OpenParityOutput(ensemble, f, repair));
  // If edits stay, the intent of a repair would turn them into damage. It would do the same to what a program writes in an
  // open epoch.
  if ((repair.plan->data_in_place || repair.plan->cut_tail) && file.sidecar && !repair.plan->edits_left && !InEpoch(file)) {
    LZY_RETURN_IF_ERROR(OfWriting(file.sidecar->SetIntent(NewIntent(kIntentRepair, Merged(repair.plan->changed)))));
  }
  return Status::Ok();
}

// Anything else that has the name of a lost file is there on purpose, and is not replaced.
Status Repairer::MakeWayFor(const FileView& file) {
  const auto there = context_.fs.Stat(file.path, /*follow=*/false);
  // This node may not know yet that another one has removed it; an open asks the server.
  const bool nothing = there.ok() && (context_.fs.Stat(file.path).status().code() == Code::kNotFound ||
                                      (there->type == FileStat::Type::kRegular &&
                                       context_.fs.Open(file.path, OpenMode::kRead, /*follow=*/false).status().code() == Code::kNotFound));
  const bool removed = nothing && !context_.fs.ReadLink(file.path).ok();
  const bool dangles = nothing && !removed;
  if (!file.present && there.ok() && !nothing) {
    const char* const what = there->type == FileStat::Type::kDirectory ? "a directory"
                             : context_.fs.ReadLink(file.path).ok() ? "a symbolic link"
                             : there->type == FileStat::Type::kRegular ? "a file of another dataset"
                                                                       : "not a regular file";
    return {Code::kIo, fmt::format("{}: is {}; the lost file cannot have its name", file.path, what)};
  }
  if (!file.present && dangles) {
    return {Code::kIo, fmt::format("{}: it is a symbolic link whose target does not exist, so nothing was restored. Remove "
                                   "the link, or create its target", file.path)};
  }
  return context_.fs.MakeDirectories(DirectoryOf(file.path));
}

// Links and plans are the same on all ranks. A shared file has no sidecar but that of its dataset.
Status Repairer::AskOtherSidecars(Ensemble& ensemble, std::size_t e) {
  const auto asked = [&](std::uint32_t f) {
    const FilePlan& plan = *repairs_[e][f].plan;
    return ensemble.files[f].present && ensemble.files[f].stat.links > 1 && (plan.data_in_place || plan.cut_tail);
  };
  std::vector<std::string>& warnings = warnings_;
  LZY_RETURN_IF_ERROR(ForEachFile(ensemble, [&](std::uint32_t f) -> Status {
    const FileView& file = ensemble.files[f];
    if (!Writer(file)) return Status::Ok();
    FileRepair& repair = repairs_[e][f];
    repair.of_another = !shared() && repair.plan->any() && IsOfAnotherDataset(file);
    if (!asked(f) || file.data_tree() == nullptr) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(const std::string real, context_.fs.RealPath(file.path));
    repair.differs = SidecarThatDiffers(context_.fs, real, file.stat,
                                        {repair.plan->changed, ensemble.layout->file_size(f), ensemble.layout->block_size(),
                                         *file.data_tree()});
    if (repair.differs.empty()) return Status::Ok();
    warnings.push_back(fmt::format("{}: it has other names, and '{}' was committed with other content. So only this name has the repaired "
                                   "content now, in a file of its own", file.path, repair.differs));
    return Status::Ok();
  }));
  return shared() && asked(0) ? BroadcastRecord(comm_, repairs_[e][0].differs) : Status::Ok();
}

bool Repairer::NeedsOwn(const FileView& file, const FileRepair& repair) const {
  const FilePlan& plan = *repair.plan;
  if (!repair.differs.empty()) return true;
  return file.present && (plan.data_in_place || plan.cut_tail) && MustKeep(file, repair);
}

// A file without a usable sidecar has no stamp, and nothing proves what is behind its end.
bool Repairer::MustKeep(const FileView& file, const FileRepair& repair) const {
  return !file.identity.Is(Identity::Kind::kCommitted) || file.IsOfThePast() || repair.of_another || repair.plan->undoes_edits ||
         !file.sidecar_usable() || !MayBe(file.stat, file.stamp);
}

// The copy gets its name before anything is written to it. After a crash, the original is there under its name or one more
// name. Without hard links, it may have only the other name for a moment.
Status Repairer::MakeOwn(FileView& file, FileRepair& repair) {
  const std::string temporary = NewDataPath(repair.target);
  const Status made = MakeCopy(file, temporary);
  // Otherwise it keeps its other names.
  const bool keeps = file.stat.links == 1;
  const Status named = [&]() -> Status {
    LZY_RETURN_IF_ERROR(made);
    if (keeps) LZY_RETURN_IF_ERROR(Keep(KeptOf(file, repair), file, repair, warnings_));
    return context_.fs.Rename(temporary, repair.target);
  }();
  if (!named.ok()) {
    (void)context_.fs.Remove(temporary);
    return named;
  }
  LZY_ASSIGN_OR_RETURN(file.data, context_.fs.Open(repair.target, OpenMode::kReadWrite, /*follow=*/false));
  LZY_ASSIGN_OR_RETURN(file.stat, file.data->Stat());
  return context_.fs.SyncDirectory(DirectoryOf(repair.target));
}

// The rest of what File::CopyAccess leaves out. What a file system refuses, the original still has.
Status Repairer::TakeOverAccess(File& from, File& to) {
  LZY_ASSIGN_OR_RETURN(const FileStat was, from.Stat());
  LZY_ASSIGN_OR_RETURN(const Acl acl, from.AccessAcl());
  LZY_ASSIGN_OR_RETURN(const FileStat has, to.Stat());
  if (const auto attributes = from.UserAttributes(); attributes.ok()) (void)to.SetUserAttributes(*attributes);
  LZY_RETURN_IF_ERROR(to.SetAccess(WithExecute(has.mode, NarrowedMode(was.mode, acl)), was.uid, was.gid));
  if (acl.empty()) return Status::Ok();
  LZY_ASSIGN_OR_RETURN(const Acl now, to.AccessAcl());
  if (WithoutExecute(now) == WithoutExecute(acl)) (void)to.SetUserAttributes({{kAccessAcl, std::string(acl.begin(), acl.end())}});
  return Status::Ok();
}

// Unreadable bytes become a hole in the copy. They are among the blocks that are rebuilt.
Status Repairer::MakeCopy(const FileView& file, const std::string& temporary) {
  if (Status removed = context_.fs.Remove(temporary); !removed.ok() && removed.code() != Code::kNotFound) return removed;
  LZY_ASSIGN_OR_RETURN(auto own, context_.fs.Open(temporary, OpenMode::kCreateNew, /*follow=*/false, 0600));
  (void)own->Lock();  // as in OpenDataOutput
  LZY_RETURN_IF_ERROR(own->CopyAccess(*file.data));
  // A reflink takes neither time nor space.
  if (!Reflink(*file.data, *own)) {
    LZY_RETURN_IF_ERROR(own->Truncate(file.stat.size));
    LZY_RETURN_IF_ERROR(OfWriting(CopyReadable(*file.data, {0, file.stat.size}, *own)));
  }
  LZY_RETURN_IF_ERROR(TakeOverAccess(*file.data, *own));
  LZY_RETURN_IF_ERROR(own->SetTimes(file.stat.atime_ns, file.stat.mtime_ns));
  return OfWriting(own->Sync());
}

// First removes the temporary file of a restore that was killed. The new file has its full size from the start, so blocks
// can be written in any order, and zeros need not be written.
Status Repairer::OpenDataOutput(FileView& file, FileRepair& repair, std::uint64_t size) {
  repair.out->data.file = file.data.get();
  if (!repair.plan->rebuild_data) return Status::Ok();
  const std::string temporary = NewDataPath(repair.target);
  LZY_RETURN_IF_ERROR(context_.fs.MakeDirectories(DirectoryOf(repair.target)));  // the directory that a symbolic link leads to
  if (Status removed = context_.fs.Remove(temporary); !removed.ok() && removed.code() != Code::kNotFound) return removed;
  LZY_ASSIGN_OR_RETURN(repair.new_data, context_.fs.Open(temporary, OpenMode::kCreateNew, /*follow=*/false, 0600));
  (void)repair.new_data->Lock();  // so that lzy-info --prune does not remove it
  LZY_RETURN_IF_ERROR(OfWriting(repair.new_data->Truncate(size)));
  repair.out->data.file = repair.new_data.get();
  return Status::Ok();
}

// The new sidecar gets the name of its file. If files or sidecars were moved, a sidecar of another dataset or member may
// have this name. It may be the only record of what its file contained.
Result<bool> Repairer::HasForeignOccupant(const FileView& file, const FileRepair& repair) const {
  LZY_ASSIGN_OR_RETURN(const std::string own, SidecarPath(repair.target));
  const auto peek = PeekSidecar(context_.fs, own);
  const bool its_own = peek.ok() && peek->uuid == view_.superblock.uuid && peek->rank == file.rank;  // of an older commit
  const bool foreign = !request_.force && peek.ok() && peek->committed && !its_own;
  if (!foreign || !file.identity.Is(Identity::Kind::kProven)) return foreign;
  // That sidecar is the only proof of the present content of the file.
  return Status(Code::kIo, fmt::format("{}: it is the sidecar of another file or set, and may be the last to know what that was; so {} was "
                                       "not restored. If files exchanged their names, rename them back, then restore again", own, file.path));
}

// Parity is written to a new sidecar, to parts in device directories, or to the existing sidecar.
Status Repairer::OpenParityOutput(Ensemble& ensemble, std::uint32_t f, FileRepair& repair) {
  FileView& file = ensemble.files[f];
  if (repair.plan->rebuild_sidecar) {
    File* like = repair.new_data ? repair.new_data.get() : file.data.get();
    if (like == nullptr) return {Code::kIo, fmt::format("{}: the file is missing, so its sidecar alone cannot be rebuilt", file.path)};
    LZY_ASSIGN_OR_RETURN(repair.sets_aside, HasForeignOccupant(file, repair));
    auto made = Sidecar::Create(context_.fs, NewSidecarPath(repair.target), FreshContents(ensemble, f), *like);
    // If the data could be made there, it is not for lack of permission.
    if (!made.ok()) return repair.new_data ? OfWriting(made.status()) : made.status();
    repair.new_sidecar = std::move(made).value();
    (void)repair.new_sidecar->file().Lock();  // as in OpenDataOutput
    PutParityInto(*repair.new_sidecar, repair.new_sidecar->file(), repair);
    const std::uint64_t size = ensemble.layout->parity_size(f);
    return size > 0 ? OfWriting(repair.out->parity.file->Truncate(repair.out->parity.base + size)) : Status::Ok();
  }
  if (WritesParts(file, *repair.plan)) {
    if (!file.sidecar->HasRoom(Moved(file, file.sidecar->contents()))) {
      return {Code::kIo, fmt::format("{}: its sidecar has no room for the names of these device directories; to make a new sidecar, run lzy-protect",
                                     file.path)};
    }
    LZY_RETURN_IF_ERROR(CreateParts(context_.fs, file.sidecar->contents(), *file.sidecar, PartsToRepair(file), &made_parts_));
    return OpenItsParts(file, repair);
  }
  if (file.sidecar && file.part_paths.empty()) PutParityInto(*file.sidecar, file.sidecar->file(), repair);
  return Status::Ok();
}

// An empty path means that the part is skipped.
std::vector<std::string> Repairer::PartsToRepair(const FileView& file) {
  std::vector<std::string> paths = file.part_paths;
  for (std::size_t d = 0; d < paths.size(); ++d) {
    if (!file.part_obstacles[d].empty()) paths[d].clear();
  }
  return paths;
}

// Warns only of damaged parts, and of each reason once: several parts of one lost disk have the same reason.
void Repairer::WarnOfParts() {
  if (!shared()) return;
  std::set<std::string> told;
  const FileView& file = view_.ensembles[0].files[0];
  for (std::size_t d = 0; d < file.part_obstacles.size(); ++d) {
    const bool hit = std::ranges::any_of(report_.damage, [&](const Damage& one) { return one.path == file.part_paths[d]; });
    if (hit && !file.part_obstacles[d].empty() && told.insert(file.part_obstacles[d]).second) {
      report_.warnings.push_back(file.part_obstacles[d]);
    }
  }
}

Status Repairer::OpenItsParts(const FileView& file, FileRepair& repair) {
  LZY_ASSIGN_OR_RETURN(repair.own_handle, OpenParts(context_.fs, *file.sidecar, PartsToRepair(file), /*write=*/true));
  repair.out->parity.file = repair.own_handle.get();
  return Status::Ok();
}

// Rank 0 has created files and parts in OpenOutputs. The other ranks open them by name, after all ranks agreed that it
// succeeded.
Status Repairer::OpenSharedOutputs(Ensemble& ensemble, std::size_t e) {
  FileRepair& repair = repairs_[e][0];
  FileView& file = ensemble.files[0];
  // Compares the files, because a rank on another node might open the one that MakeOwn has set aside.
  FileStat theirs = file.stat;
  if (repair.plan->data_in_place || repair.plan->cut_tail) LZY_RETURN_IF_ERROR(BroadcastRecord(comm_, theirs));
  return AgreeOn(comm_, [&]() -> Status {
    if (comm_.rank() == 0 || !repair.plan->any()) return Status::Ok();
    if (NeedsOwn(file, repair)) {
      LZY_ASSIGN_OR_RETURN(const FileStat mine, file.data->StatAtOpening());
      const bool by_inode = mine.inode == file.stat.inode;  // file.stat is that of rank 0
      LZY_ASSIGN_OR_RETURN(file.data, OpenSame(context_.fs, repair.target, theirs, by_inode, OpenMode::kReadWrite));
    }
    repair.out->data.file = file.data.get();
    if (repair.plan->rebuild_data) {
      LZY_ASSIGN_OR_RETURN(repair.new_data,
                           context_.fs.Open(NewDataPath(repair.target), OpenMode::kReadWrite, /*follow=*/false));
      repair.out->data.file = repair.new_data.get();
    }
    if (WritesParts(file, *repair.plan)) return OpenItsParts(file, repair);
    if (!file.part_paths.empty()) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(repair.own_handle,
                         context_.fs.Open(file.sidecar_path, OpenMode::kReadWrite, /*follow=*/false));
    PutParityInto(*file.sidecar, *repair.own_handle, repair);
    return Status::Ok();
  });
}

// If a rank sees all files, it rebuilds rows of its own; otherwise all ranks work together row by row. Both ways use the
// same callbacks.
Status Repairer::ExecutePlan(Ensemble& ensemble, std::size_t e, Communicator& comm, RepairGuests& guests) {
  const Layout& layout = *ensemble.layout;
  RowStreams streams = StreamsOf(ensemble);
  std::vector<std::unique_ptr<PatchedFile>> patched;
  const bool from_replica = UseReplica(ensemble, findings_.files[e], repairs_[e], streams, patched);
  // Compares each source with its hash again when it is read for rebuilding. It may have rotted or changed since it was
  // examined, and a wrong source makes wrong blocks.
  const auto source = [&](const RowBlock& block, ByteSpan bytes) -> Status {
    if (IsAsCommitted(streams.of(layout, block), block.place.index, bytes)) return Status::Ok();
    const FileView& file = ensemble.files[layout.HolderOf(block.parity, block.device)];
    return {request_.assumed ? Code::kCorrupt : Code::kBusy,
            fmt::format("{}: block {} was right when it was checked and is not any more; nothing was made from it",
                        block.parity ? file.sidecar_path : file.path, block.place.index)};
  };
  const auto target = [&](std::span<const RowBlock> blocks, ByteSpan bytes) -> Status {
    return WriteBlocks(repairs_[e][layout.HolderOf(blocks[0].parity, blocks[0].device)], blocks, bytes);
  };
  // On one node, ranks open each other's members and divide the rows. Then no block travels.
  const std::span<const RowRun> runs = plan_.ensembles[e].runs;
  // Only the owner of a member has its replica open.
  bool all_here = shared();
  if (!all_here && !from_replica) {
    std::vector<bool> own;
    std::vector<RepairOutputs*> outputs;
    for (std::size_t f = 0; f < ensemble.files.size(); ++f) {
      own.push_back(Mine(ensemble.files[f]));
      outputs.push_back(repairs_[e][f].out);
    }
    LZY_ASSIGN_OR_RETURN(all_here, guests.Open(context_, layout, comm, own, streams, outputs));
    for (std::size_t f = 0; f < outputs.size(); ++f) repairs_[e][f].out = outputs[f];
  }
  ExpectWriters(ensemble, e, all_here ? comm.size() : 1);
  if (!all_here) {
    return RebuildRows(context_, layout, streams, comm, OwnersIn(ensemble, comm), runs, source, target, stats_);
  }
  return AgreeOn(comm, [&] {
    const auto self = SelfCommunicator();
    return RebuildRows(context_, layout, streams, *self, std::vector<int>(layout.devices(), 0), ShareOf(runs, comm),
                       source, target, stats_);
  });
}

void Repairer::ExpectWriters(const Ensemble& ensemble, std::size_t e, int ranks) {
  std::vector<File*> made;
  for (std::size_t f = 0; f < ensemble.files.size(); ++f) {
    const FileRepair& repair = repairs_[e][f];
    if (repair.plan->rebuild_data) made.push_back(repair.out->data.file);
    if (repair.plan->rebuild_sidecar) made.push_back(repair.out->parity.file);
  }
  std::erase(made, nullptr);
  for (File* file : made) ExpectWritersOfRanks(*file, ThreadsFor(context_), ranks, made.size());
}

void Repairer::CopyFromReplica(const std::vector<Status>& opened) {
  copied_.assign(opened.size(), Status::Ok());
  const auto copies = [&](std::size_t e) { return !plan_.ensembles[e].from_replica.empty(); };
  bool any = false;
  for (std::size_t e = 0; e < opened.size(); ++e) any = any || copies(e);
  if (!any) return;
  const auto copy = [&](Caller* caller) {
    for (std::size_t e = 0; e < opened.size(); ++e) {
      if (opened[e].ok() && copies(e)) copied_[e] = NoThrow([&] { return CopyPart(e, caller); });
    }
  };
  if (request_.replica == nullptr || !request_.replica->elsewhere) return copy(nullptr);
  const Status ran = request_.replica->ranks->Run(context_, [&](Caller& caller) { copy(&caller); });
  if (!ran.ok()) copied_.assign(opened.size(), ran);
}

Status Repairer::CopyPart(std::size_t e, Caller* caller) {
  constexpr unsigned kLeastAsking = 8;  // a thread that waits for another rank needs no core
  Ensemble& ensemble = view_.ensembles[e];
  const Layout& layout = *ensemble.layout;
  const std::vector<RowBlock>& all = plan_.ensembles[e].from_replica;
  const RowStreams streams = StreamsOf(ensemble);
  Interval part{0, all.size()};
  if (shared()) {
    const std::vector<int>& readers = request_.replica->readers;
    const auto here = std::ranges::find(readers, comm_.rank());
    if (here == readers.end()) return Status::Ok();
    part = PartOf(all.size(), static_cast<int>(here - readers.begin()), static_cast<int>(readers.size()));
  }
  std::map<std::uint32_t, std::unique_ptr<File>> elsewhere;  // by file of the layout
  for (std::uint64_t i = part.begin; i < part.end; ++i) {
    const std::uint32_t f = layout.file_of(all[i].device);
    const FileView& file = ensemble.files[f];
    if (!Mine(file) || file.replica != nullptr || elsewhere.contains(f)) continue;
    if (caller == nullptr) return {Code::kInternal, fmt::format("{}: its replica is not open", file.path)};
    const std::string path = shared() ? request_.replica->path : ExpandPattern(request_.replica->path, file.rank);
    LZY_ASSIGN_OR_RETURN(elsewhere[f], OpenElsewhere(*caller, *request_.replica->ranks, path));
  }
  ExpectWriters(ensemble, e, shared() ? static_cast<int>(request_.replica->readers.size()) : 1);
  Status status;
  std::uint64_t done = 0;
  const unsigned threads = elsewhere.empty() ? ThreadsFor(context_) : std::max(ThreadsFor(context_), kLeastAsking);
  ParallelParts(part.end - part.begin, threads, [&](std::size_t first, std::size_t last) {
    AlignedBuffer buffer(layout.block_size());
    for (std::size_t i = part.begin + first; i < part.begin + last; ++i) {
      const std::uint32_t f = layout.file_of(all[i].device);
      const FileView& file = ensemble.files[f];
      if (!Mine(file)) continue;
      File& replica = file.replica ? *file.replica : *elsewhere.at(f);
      const Status one = context_.stop && context_.stop() ? Status(Code::kInterrupted, "interrupted")
                                                          : CopyBlock(repairs_[e][f], replica, streams.data[f], all[i], buffer);
      const std::lock_guard lock(mutex_);
      if (!one.ok() && status.ok()) status = one;
      if (!status.ok()) return;
      done += all[i].place.length;
      if (context_.progress) context_.progress("copy", done, (part.end - part.begin) * layout.block_size());
    }
  });
  // Ranks without an open replica read these blocks from here.
  if (status.ok() && shared() && !request_.replica->IsSeenByAll(comm_)) status = repairs_[e][0].out->data.file->Sync();
  return status;
}

// The second read is past the page cache, because a page in memory may be wrong.
Status Repairer::CopyBlock(FileRepair& repair, File& replica, const BlockStream& expected, const RowBlock& block,
                           AlignedBuffer& buffer) {
  const MutableByteSpan bytes(buffer.data(), block.place.length);
  for (const bool uncached : {false, true}) {
    const auto got = uncached ? replica.ReadAtUncached(block.place.offset, bytes) : replica.ReadAt(block.place.offset, bytes);
    const bool right = got.ok() && *got == bytes.size() && IsAsCommitted(expected, block.place.index, bytes);
    if (right) return WriteBlocks(repair, {&block, 1}, bytes);
    if (!got.ok() && uncached && got.status().code() != Code::kUnreadable) return got.status();
  }
  return {Code::kBusy, fmt::format("{}: block {} was right when it was checked and is not any more; it was not taken", replica.path(), block.place.index)};
}

// Gathers only leaves that were not recorded. The owner needs all of them for the root, which proves the whole file.
Status Repairer::GatherComputed(Ensemble& ensemble, std::size_t e, Communicator& comm) {
  if (comm.size() == 1) return Status::Ok();
  const std::vector<int> owner = shared() ? std::vector<int>{0} : OwnersIn(ensemble, comm);
  Status gathered;
  for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) {
    const FilePlan& plan = plan_.ensembles[e].files[f];
    if (!plan.rehash_parity && (shared() || (!plan.rebuild_data && !plan.rebuild_sidecar))) continue;
    RepairOutputs& out = *repairs_[e][f].out;
    const std::uint64_t blocks = ensemble.layout->Blocks(false, f) + ensemble.layout->Blocks(true, f);
    const Status one = GatherLeaves(comm, owner[f], blocks, out.data.leaves, out.parity.leaves);
    if (gathered.ok()) gathered = one;
  }
  return Agree(comm, gathered);
}

// Uses the key of the options. OpenMember rejects a sidecar that is not sealed with it, so the expected leaves were made
// with it.
Hash Repairer::LeafOfBlock(const RowBlock& block, ByteSpan bytes) const {
  return LeafHash(context_.options.key.get(), block.parity ? HashTag::kParityLeaf : HashTag::kDataLeaf, block.place.index, bytes);
}

// Compares a block with its leaf before it is written. If the leaf is not known, stores it, and the root proves all leaves
// at the end (Finish).
Status Repairer::WriteBlocks(FileRepair& repair, std::span<const RowBlock> blocks, ByteSpan bytes) {
  const bool parity = blocks[0].parity;
  RepairOutput& out = repair.out->of(parity);
  if (out.file == nullptr) return Status::Ok();  // its sidecar cannot be made (salvage)
  const bool aside = parity ? repair.plan->rebuild_sidecar : repair.plan->rebuild_data;
  std::size_t at = 0;
  for (const RowBlock& block : blocks) {
    const ByteSpan one = bytes.subspan(at, block.place.length);
    at += block.place.length;
    const Hash leaf = LeafOfBlock(block, one);
    if (out.expected != nullptr && leaf != out.expected->leaf(block.place.index)) {
      return {Code::kWriteFailed, fmt::format("{}: the block rebuilt for offset {} does not have its hash; not written",
                                              out.file->path(), block.place.offset)};
    }
    if (out.expected == nullptr) out.leaves.Set(block.place.index, leaf);
  }
  const bool zero = std::ranges::all_of(bytes, [](std::uint8_t b) { return b == 0; });
  if (aside && zero) return Status::Ok();  // the new file has a hole there
  LZY_RETURN_IF_ERROR(OfWriting(out.file->WriteAt(out.base + blocks[0].place.offset, bytes)));
  std::lock_guard lock(mutex_);
  repair.written.emplace_back(blocks.begin(), blocks.end());
  return Status::Ok();
}

// Syncs first, because the storage does not have what is only in the page cache. An error of Sync is an error.
Status Repairer::VerifyWritten(FileRepair& repair, const FileView& file) {
  if (repair.written.empty()) return Status::Ok();
  for (File* out : {repair.out->data.file, repair.out->parity.file}) {
    if (out != nullptr) LZY_RETURN_IF_ERROR(OfWriting(out->Sync()));
  }
  Status status;
  ParallelParts(repair.written.size(), ThreadsFor(context_), [&](std::size_t first, std::size_t last) {
    AlignedBuffer buffer;
    Status done;
    for (std::size_t i = first; i < last && done.ok(); ++i) {
      const std::vector<RowBlock>& blocks = repair.written[i];
      done = VerifyRun(repair.out->of(blocks[0].parity), blocks, file, buffer);
    }
    const std::lock_guard lock(mutex_);
    if (status.ok()) status = done;
  });
  return status;
}

// Reads consecutive blocks at once. After a short read, the blocks from its end on count as wrong.
Status Repairer::VerifyRun(const RepairOutput& out, const std::vector<RowBlock>& blocks, const FileView& file,
                           AlignedBuffer& buffer) const {
  std::uint64_t length = 0;
  for (const RowBlock& block : blocks) length += block.place.length;
  buffer.Reserve(length);
  const MutableByteSpan all(buffer.data(), length);
  const auto got = out.file->ReadAtUncached(out.base + blocks[0].place.offset, all);
  std::uint64_t at = 0;
  for (const RowBlock& block : blocks) {
    const ByteSpan bytes = all.subspan(at, block.place.length);
    at += block.place.length;
    const auto want = out.expected != nullptr ? out.expected->leaf(block.place.index) : out.leaves.Get(block.place.index);
    if (!got.ok() || *got < at || LeafOfBlock(block, bytes) != want) {
      return {Code::kWriteFailed,
              fmt::format("{}: what was written at {} reads back wrong; the device cannot be trusted",
                          block.parity ? file.sidecar_path : file.path, block.place.offset)};
    }
  }
  return Status::Ok();
}

Status Repair(const Context& context, DatasetView& view, const Findings& findings, const RepairRequest& request,
              DatasetReport& report) {
  return Repairer(context, view, findings, request, report).Run();
}

}  // namespace lzy
