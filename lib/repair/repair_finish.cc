// The second pass of a repair (repair/repairer.h): checks new files as a whole, and gives them their access, times and names.
//
// The order of steps in Finish makes a restore safe at any crash: check roots, set access and times, sync, write the
// sidecar, rename, sync the directory. A file that has its name is complete.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "base/printable.h"
#include "comm/records.h"
#include "dataset/parts.h"
#include "dataset/seen_late.h"
#include "names/content_match.h"
#include "names/peek.h"
#include "repair/repairer.h"
#include "repair/restored_access.h"
#include "sidecar/commit_clock.h"
#include "sidecar/names.h"
#include "sidecar/scratch.h"

namespace lzy {
namespace {

constexpr std::uint64_t kPiece = 64u << 10;  // of one read

// A salvage replaces a file of which nothing is proven. Its old bytes are better than gaps.
Status KeepWhatCannotBeHad(File& was, FileRepair& repair) {
  for (const ByteRange& range : repair.plan->unrepaired) LZY_RETURN_IF_ERROR(CopyReadable(was, range, *repair.new_data));
  return Status::Ok();
}

// Calls `take(offset, bytes)` for all bytes of the range that can be read. A bad sector must not hide its neighbours.
template <class Take>
Status ForEachReadable(File& from, const ByteRange& range, const Take& take) {
  constexpr std::uint64_t kSector = 512;
  std::vector<std::uint8_t> piece(kPiece);
  const std::uint64_t end = range.offset + range.length;
  std::uint64_t by_sectors = 0;  // up to here
  for (std::uint64_t at = range.offset; at < end;) {
    std::uint64_t length = at < by_sectors ? std::min(kSector - at % kSector, end - at) : std::min(kPiece, end - at);
    const auto count = from.ReadAt(at, MutableByteSpan(piece).first(length));
    if (count.status().code() == Code::kUnreadable && at >= by_sectors && length > kSector) {
      by_sectors = at + length;
      continue;
    }
    if (!count.ok() && count.status().code() != Code::kUnreadable) return count.status();
    if (count.ok() && *count > 0) LZY_RETURN_IF_ERROR(take(at, ByteSpan(piece).first(*count)));
    at += length;
  }
  return Status::Ok();
}

// True if both files have the same bytes. Those of bad sectors are not worth keeping.
Result<bool> AreEqual(File& was, File& rebuilt) {
  LZY_ASSIGN_OR_RETURN(const FileStat stat, was.Stat());
  LZY_ASSIGN_OR_RETURN(const FileStat made, rebuilt.Stat());
  if (stat.size != made.size) return false;
  bool equal = true;
  std::vector<std::uint8_t> other(kPiece);
  const Status compared = ForEachReadable(was, {0, stat.size}, [&](std::uint64_t at, ByteSpan bytes) -> Status {
    if (!equal) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(const std::size_t there, rebuilt.ReadAt(at, MutableByteSpan(other).first(bytes.size())));
    equal = std::ranges::equal(bytes, ByteSpan(other).first(there));
    return Status::Ok();
  });
  return compared.ok() && equal;
}

}  // namespace

Status CopyReadable(File& from, const ByteRange& range, File& to) {
  return ForEachReadable(from, range, [&](std::uint64_t at, ByteSpan bytes) { return to.WriteAt(at, bytes); });
}

// Only writers finish files. The other ranks take part in the agreement.
Status Repairer::FinishEnsemble(std::size_t e, bool only_in_place) {
  Ensemble& ensemble = view_.ensembles[e];
  return ForEachFile(ensemble, [&](std::uint32_t f) {
    const FilePlan& plan = *repairs_[e][f].plan;
    const bool skip = !plan.any() || (only_in_place && (plan.rebuild_data || plan.rebuild_sidecar));
    return Writer(ensemble.files[f]) && !skip ? Finish(ensemble, e, f) : Status::Ok();
  });
}

// With force, the writes of the epoch are taken back, so its intent does not count.
bool Repairer::InEpoch(const FileView& file) const {
  return file.intent && !IsOfRepair(*file.intent) && !request_.force;
}

// Compares inode, size and mtime with those that Examine saw. Called before anything is opened, and again just before the
// rename.
Status Repairer::CheckUnchanged(const FileView& file, const FileRepair& repair) const {
  const auto now = StatNewest(context_.fs, repair.target);
  const bool same = now.ok() ? file.present && now->inode == file.stat.inode && now->size == file.stat.size &&
                                   now->mtime_ns == file.stat.mtime_ns
                             : !file.present && now.status().code() == Code::kNotFound;
  if (same) return Status::Ok();
  return {Code::kBusy, fmt::format("{}: something else writes the file; it was not repaired", file.path)};
}

// The sidecar must name the directories in which the parts were found or are now made.
SidecarContents Repairer::Moved(const FileView& file, SidecarContents contents) {
  for (std::size_t d = 0; d < file.part_paths.size(); ++d) contents.info.parts.directories[d] = DirectoryOf(file.part_paths[d]);
  return contents;
}

// If the sidecar has no space for a longer name, the recorded one stays. That costs a search later, but nothing else.
void Repairer::NoteHome(const FileView& file, const FileRepair& repair, SidecarContents& contents) const {
  if (file.part_paths.empty() || contents.info.parts.home == repair.target) return;
  SidecarContents noted = contents;
  noted.info.parts.home = OwnsParts(context_.fs, repair.target, file.sidecar->contents()) ? repair.target : "";
  if (file.sidecar->HasRoom(Moved(file, noted))) contents.info.parts.home = noted.info.parts.home;
}

// Copies the superblock and the info record of a surviving member, then sets what differs by member.
SidecarContents Repairer::FreshContents(const Ensemble& ensemble, std::uint32_t f) const {
  const Layout& layout = *ensemble.layout;
  SidecarContents contents;
  contents.key = context_.options.key;
  contents.superblock = view_.superblock;
  contents.superblock.extents.clear();
  contents.superblock.rank = ensemble.files[f].rank;
  contents.superblock.parity_size = layout.parity_size(f);
  contents.superblock.stamp.size = layout.file_size(f);
  contents.info = view_.info;
  contents.info.groups.assign(1, {});
  for (const FileView& member : ensemble.files) contents.info.groups[0].push_back(member.rank);
  contents.info.members = ensemble.records;
  contents.info.written_on = {view_.written_on, {}};
  for (const FileView& member : ensemble.files) contents.info.written_on.nodes.push_back(member.written_on);
  // The path from this member's root to the root of the dataset, from the roots that survivors record.
  std::vector<Hash> roots(view_.superblock.members);
  std::uint64_t bytes = 0;
  for (const Ensemble& other : view_.ensembles) {
    for (const MemberRecord& record : other.records) {
      if (record.rank < roots.size()) roots[record.rank] = record.data_root;
      bytes += record.size;
    }
  }
  contents.info.path = Tree::Build(TreeKind::kDataset, roots, bytes).Prove(ensemble.files[f].rank);
  if (roots.size() == 1) contents.info.path.pages.clear();
  contents.data_tree = Tree::OfShape(TreeKind::kData, layout.data_blocks(f), layout.file_size(f));
  contents.parity_tree = Tree::OfShape(TreeKind::kParity, layout.parity_blocks(f), layout.parity_size(f));
  return contents;
}

// Checks the roots first: they prove that all blocks together are as committed. After a salvage the file has gaps, so its
// roots cannot be right.
Status Repairer::Finish(Ensemble& ensemble, std::size_t e, std::uint32_t f) {
  FileView& file = ensemble.files[f];
  FileRepair& repair = repairs_[e][f];
  SidecarContents contents = CommittedContents(ensemble, e, f);
  if (!shared() && !plan_.beyond) {
    // Data may be finished without a sidecar, whose parity then waits for the next commit.
    const bool has_parity = repair.plan->rebuild_sidecar || file.sidecar != nullptr;
    if (contents.data_tree.Root() != ensemble.records[f].data_root ||
        (has_parity && contents.parity_tree.Root() != ensemble.records[f].parity_root)) {
      return {Code::kWriteFailed,
              fmt::format("{}: rebuilt, but not what was committed; it was not put in place", file.path)};
    }
  }
  if (repair.plan->rehash_parity && contents.parity_tree.Root() != file.sidecar->contents().superblock.parity_root) {
    return {Code::kWriteFailed, fmt::format("{}: the hashes of its parity, computed again, are not those that were committed", file.path)};
  }
  // Mode, owner and mtime are as recorded. A shared file without a record keeps those of a new file.
  const MemberRecord record = !shared()                        ? ensemble.records[f]
                              : contents.info.members.empty() ? MemberRecord()
                                                              : contents.info.members[0];
  LZY_ASSIGN_OR_RETURN(const FileStat stat, FinishData(ensemble, repair, f, record));
  // The stamp must match the file as it is now. With gaps, it keeps the committed mtime, which the file does not have.
  const bool as_committed = repair.plan->rebuild_data && !repair.plan->leaves_gaps(file);
  contents.superblock.stamp.mtime_ns = as_committed ? stat.mtime_ns : file.stamp.mtime_ns;
  NoteHome(file, repair, contents);
  SetIdentity(contents.superblock.stamp, stat);
  LZY_RETURN_IF_ERROR(PutInPlace(file, repair, contents));
  LZY_RETURN_IF_ERROR(EndRepairIntent(file, *repair.plan));
  return context_.fs.SyncDirectory(DirectoryOf(repair.target));
}

// The commit clock in view_ is another member's, and might make this member's mtime look racy. A new file cannot be edited
// before it has its name, so the present clock is right. An existing file may have been edited since it was read, so its
// clock must be earlier by the time that reading took, and by two seconds, the longest tick of a file system.
std::int64_t Repairer::ClockOfRestored(const FileView& file, const FileRepair& repair, std::int64_t mtime_ns) const {
  // Asks a file without a name if possible. Asking a sidecar reads and writes a byte of its parity, and failing storage may
  // return a wrong one.
  const std::unique_ptr<File> scratch = repair.new_sidecar ? ScratchBeside(context_.fs, repair.target)() : nullptr;
  File* const asked = scratch ? scratch.get() : repair.new_sidecar ? &repair.new_sidecar->file() : nullptr;
  const auto now = asked != nullptr ? FileSystemClock(*asked) : Result<std::int64_t>(Code::kNotFound, "");
  const std::int64_t of_commit = view_.superblock.commit_clock_ns;
  if (!now.ok()) return std::max(of_commit, mtime_ns);
  if (repair.plan->rebuild_data || !file.present) return std::max(of_commit, *now);
  return std::max(of_commit, *now - static_cast<std::int64_t>((findings_.seconds + 2) * 1e9));
}

// Expected trees are those of the commit. Others are built from computed leaves.
SidecarContents Repairer::CommittedContents(const Ensemble& ensemble, std::size_t e, std::uint32_t f) {
  const FileView& file = ensemble.files[f];
  const Layout& layout = *ensemble.layout;
  FileRepair& repair = repairs_[e][f];
  SidecarContents contents = repair.plan->rebuild_sidecar ? FreshContents(ensemble, f)
                             : file.sidecar             ? file.sidecar->contents()
                                                        : SidecarContents();
  if (repair.plan->rebuild_sidecar) {
    contents.superblock.commit_clock_ns = ClockOfRestored(file, repair, file.stamp.mtime_ns);
  }
  // A block that was not rebuilt is a gap of a salvage, and has no leaf.
  const auto gap = [](std::uint64_t) { return true; };
  const auto tree = [&](TreeKind kind, const RepairOutput& out, std::uint64_t bytes) {
    if (out.expected != nullptr) return *out.expected;
    Tree made;
    (void)MakeTree(kind, out.leaves, nullptr, bytes, gap, repair.scratch, made);  // fails only if a leaf is missing
    return made;
  };
  contents.data_tree = tree(TreeKind::kData, repair.out->data, layout.file_size(f));
  contents.parity_tree = tree(TreeKind::kParity, repair.out->parity, layout.parity_size(f));
  return contents;
}

// Every rank adds the same warnings, from agreed facts: owners of sidecars and recorded users.
void Repairer::WarnOfOwners() {
  if (shared()) return;
  for (std::size_t e = 0; e < repairs_.size(); ++e) {
    const Ensemble& ensemble = view_.ensembles[e];
    const std::set<std::uint32_t> owners = OwnersOfSidecars(ensemble);
    for (std::uint32_t f = 0; f < repairs_[e].size(); ++f) {
      const std::uint32_t uid = ensemble.records[f].uid;
      if (!repairs_[e][f].plan->rebuild_data || owners.size() != 1 || owners.contains(uid)) continue;
      report_.warnings.push_back(
          fmt::format("{}: it belonged to user {}, but the sidecars that say so belong to user {}; it was not given to that user",
                      ensemble.files[f].path, uid, *owners.begin()));
    }
  }
}

// Only the writer of a file knows its new access, and what was there before.
Status Repairer::ShareWarnings() {
  LZY_ASSIGN_OR_RETURN(const auto all, UniteRecords(comm_, warnings_));
  std::ranges::copy(all, std::back_inserter(report_.warnings));
  return Status::Ok();
}

// A new file gets access and times before it gets its name. A file that was repaired in place gets its committed mtime
// again, so that it matches its stamp, unless edits stay in it.
Result<FileStat> Repairer::FinishData(Ensemble& ensemble, FileRepair& repair, std::uint32_t f, const MemberRecord& record) {
  FileView& file = ensemble.files[f];
  const std::uint64_t size = ensemble.layout->file_size(f);
  const FilePlan& plan = *repair.plan;
  if (plan.rebuild_data) {
    if (file.data) LZY_RETURN_IF_ERROR(KeepWhatCannotBeHad(*file.data, repair));
    LZY_RETURN_IF_ERROR(GiveAccess(ensemble, file, record, *repair.new_data, warnings_));
    // With gaps, the file must not have the committed mtime, because other programs go by times.
    if (!plan.leaves_gaps(file)) LZY_RETURN_IF_ERROR(repair.new_data->SetTimes(record.mtime_ns, record.mtime_ns));
    LZY_RETURN_IF_ERROR(repair.new_data->Sync());
    return repair.new_data->Stat();
  }
  if (!plan.data_in_place && !plan.cut_tail && !plan.finish_repair) return file.stat;
  if (plan.cut_tail) LZY_RETURN_IF_ERROR(file.data->Truncate(size));
  if (!InEpoch(file)) {
    const std::int64_t mtime_ns = plan.edits_left ? file.stat.mtime_ns : file.stamp.mtime_ns;
    LZY_RETURN_IF_ERROR(file.data->SetTimes(file.stat.atime_ns, mtime_ns));
  }
  LZY_RETURN_IF_ERROR(file.data->Sync());
  return file.data->Stat();
}

bool Repairer::IsOfAnotherDataset(const FileView& file) const {
  if (!file.present || file.sidecar_usable()) return false;
  const auto peek = PeekSidecar(context_.fs, file.sidecar_path);
  if (!peek.ok() || peek->uuid == view_.superblock.uuid) return false;
  const auto holds = HoldsCommitted(context_.fs, FollowLink(context_.fs, file.path), file.sidecar_path, context_.options.key.get());
  return holds.ok() && *holds;
}

// The content is kept if another dataset committed it, because it may exist nowhere else. It is also kept if somebody may have
// put it there: an older commit, another version, or another file with the committed mtime.
Repairer::Kept Repairer::KeptOf(const FileView& file, const FileRepair& repair) const {
  const std::string name = repair.target + ".replaced";
  if (file.identity.Is(Identity::Kind::kProven)) return {name, fmt::format("it held what '{}' was at its last commit", file.identity.name)};
  if (file.IsOfThePast()) {
    const auto older = PeekSidecar(context_.fs, file.sidecar_path);
    return {fmt::format("{}.commit-{}", repair.target, older.ok() ? older->generation : 0), "it was as an older commit of its set left it"};
  }
  if (repair.of_another) return {name, "it was as another dataset committed it"};
  if (file.identity.Is(Identity::Kind::kRenamed)) return {name, fmt::format("it was what '{}' was at its last commit, damaged since", file.identity.name)};
  if (repair.plan->undoes_edits) return {name, "it was edited after its last commit"};
  if (!file.sidecar_usable()) return {name, "it had no sidecar, and it was not what was committed"};
  return {name, file.stat.size == 0 ? "it was empty, and it may be another file" : "it was not what was committed, and it may be another file"};
}

// Why the file that will be replaced is kept under another name; nullopt if it is not worth keeping, or stays under another name.
Result<std::optional<Repairer::Kept>> Repairer::WhyToKeep(const FileView& file, const FileRepair& repair) const {
  if (!file.present || !MustKeep(file, repair) || (request_.force && file.stat.links > 1)) return std::optional<Kept>();
  if (file.data != nullptr && repair.new_data) {
    LZY_ASSIGN_OR_RETURN(const bool equal, AreEqual(*file.data, *repair.new_data));
    if (equal) return std::optional<Kept>();
  }
  return std::optional<Kept>(KeptOf(file, repair));
}

// Keeps the file under a name that does not match the pattern of the set.
Status Repairer::Keep(const Kept& kept, const FileView& file, const FileRepair& repair, std::vector<std::string>& warnings) const {
  std::string name = kept.name;
  for (int i = 2; context_.fs.Stat(name, /*follow=*/false).status().code() != Code::kNotFound; ++i) {
    if (i > 100) return {Code::kIo, fmt::format("{}: {}. It is to be kept, but {} and all names like that are taken", file.path, kept.why, kept.name)};
    name = fmt::format("{}.{}", kept.name, i);
  }
  // Without hard links, the name of the file is free for a moment.
  if (!context_.fs.MakeHardLink(repair.target, name).ok()) LZY_RETURN_IF_ERROR(context_.fs.Rename(repair.target, name));
  warnings.push_back(fmt::format("{}: {}; that is kept as {}. Remove it if you do not need it",
                               file.path, kept.why, ShellQuote(JoinPath(DirectoryOf(file.path), BaseNameOf(name)))));
  return Status::Ok();
}

// First writes the sidecar, then renames the data, then the sidecar. Between the two renames, the data have their old
// sidecar or none. Verify then proves them by the other members of the group.
Status Repairer::PutInPlace(FileView& file, FileRepair& repair, const SidecarContents& contents) {
  const FilePlan& plan = *repair.plan;
  if (plan.rebuild_sidecar) {
    if (repair.new_data) LZY_RETURN_IF_ERROR(repair.new_sidecar->file().CopyAccess(*repair.new_data));
    LZY_RETURN_IF_ERROR(repair.new_sidecar->WriteAll(contents));
  }
  if (plan.rebuild_data) {
    LZY_RETURN_IF_ERROR(CheckUnchanged(file, repair));
    // Gaps differ from the committed data. Because of the intent, they count as damage and not as edits.
    if (plan.leaves_gaps(file)) LZY_RETURN_IF_ERROR(file.sidecar->SetIntent(NewIntent(kIntentRepair, Merged(plan.unrepaired))));
    LZY_ASSIGN_OR_RETURN(const std::optional<Kept> kept, WhyToKeep(file, repair));
    if (kept) LZY_RETURN_IF_ERROR(Keep(*kept, file, repair, warnings_));
    LZY_RETURN_IF_ERROR(context_.fs.Rename(NewDataPath(repair.target), repair.target));
  }
  if (plan.rebuild_sidecar) {
    LZY_ASSIGN_OR_RETURN(const std::string own, SidecarPath(repair.target));
    // Lookups find it under a temporary name, until lzy-info --prune finds that it is not needed.
    if (repair.sets_aside) LZY_RETURN_IF_ERROR(context_.fs.Rename(own, TemporarySidecarPath(own)));
    return context_.fs.Rename(NewSidecarPath(repair.target), own);
  }
  if (!file.sidecar) return Status::Ok();
  // The file may have got its sidecar by its name alone. From now on, its inode and birth are recorded.
  const Stamp& stamp = contents.superblock.stamp;
  const bool known = file.stamp.inode == stamp.inode && file.stamp.birth_ns == stamp.birth_ns;
  const bool rewrite = plan.repair_metadata || plan.rebuild_data || (!known && file.sidecar->knows_all_leaves());
  if (!rewrite) return Status::Ok();
  if (file.part_paths.empty()) return file.sidecar->WriteAll(contents);
  LZY_RETURN_IF_ERROR(file.sidecar->WriteAll(Moved(file, contents)));
  return RenewParts(context_.fs, *file.sidecar, PartsToRepair(file));
}

// The last step of a repair in place. If the process dies before it, the next repair finds the intent and finishes.
Status Repairer::EndRepairIntent(FileView& file, const FilePlan& plan) const {
  if (!file.sidecar || plan.rebuild_sidecar || plan.leaves_gaps(file)) return Status::Ok();
  const std::optional<Intent>& intent = file.sidecar->intent();
  if (!intent && !plan.repair_metadata && !plan.data_in_place && !plan.cut_tail) return Status::Ok();
  return InEpoch(file) ? Status::Ok() : file.sidecar->ClearIntent();
}

// Only the writer created them, so only the writer removes them. Removing a temporary name that was renamed fails and does
// no harm.
void Repairer::RemoveTemporaries() {
  for (std::size_t e = 0; e < repairs_.size(); ++e) {
    for (std::uint32_t f = 0; f < repairs_[e].size(); ++f) {
      if (!Writer(view_.ensembles[e].files[f])) continue;
      if (repairs_[e][f].new_data) (void)context_.fs.Remove(repairs_[e][f].new_data->path());
      if (repairs_[e][f].new_sidecar) (void)context_.fs.Remove(repairs_[e][f].new_sidecar->path());
    }
  }
}

}  // namespace lzy
