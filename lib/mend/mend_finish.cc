// Second pass of a repair (mend/mender.h): what was built is checked as a whole, and gets its access, its times and its
// name.
//
// The order of steps in Finish is what makes a restore safe at any crash: roots, then access and times, then sync, then
// the sidecar's bytes, then the names, then the directory. What has its name is complete.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "base/printable.h"
#include "comm/records.h"
#include "dataset/parts.h"
#include "dataset/seen_late.h"
#include "mend/access.h"
#include "encode/resemblance.h"
#include "mend/mender.h"
#include "names/peek.h"
#include "sidecar/commit_clock.h"
#include "sidecar/names.h"
#include "sidecar/scratch.h"

namespace lzy {
namespace {

constexpr std::uint64_t kPiece = 64u << 10;  // of one read

// Salvage replaces a file of which nothing is proven; but what was there is better than nothing.
Status KeepWhatCannotBeHad(File& was, FileMend& mend) {
  for (const ByteRange& range : mend.plan->unmended) LZY_RETURN_IF_ERROR(CopyReadable(was, range, *mend.new_data));
  return Status::Ok();
}

// Whether `was` is `rebuilt` with some rot. What cannot be read says nothing; an empty file is another one.
Result<bool> Resembles(File& was, File& rebuilt) {
  LZY_ASSIGN_OR_RETURN(const FileStat stat, was.Stat());
  if (stat.size == 0) return false;
  std::vector<std::uint8_t> one(kPiece), other(kPiece);
  std::uint64_t same = 0, total = 0;
  for (std::uint64_t at = 0; at < stat.size; at += kPiece) {
    const auto count = was.ReadAt(at, one);
    if (!count.ok()) continue;
    LZY_ASSIGN_OR_RETURN(const std::size_t made, rebuilt.ReadAt(at, other));
    for (std::size_t i = 0; i < std::min(*count, made); ++i) same += one[i] == other[i];
    total += *count;
  }
  return total == 0 || AreOfOneFile(same, total);
}

}  // namespace

Status CopyReadable(File& from, const ByteRange& range, File& to) {
  constexpr std::uint64_t kSector = 512;
  std::vector<std::uint8_t> piece(kPiece);
  const std::uint64_t end = range.offset + range.length;
  for (std::uint64_t at = range.offset; at < end;) {
    std::uint64_t length = std::min(kPiece, end - at);
    auto count = from.ReadAt(at, MutableByteSpan(piece).first(length));
    if (count.status().code() == Code::kUnreadable && length > kSector) {  // a bad sector must not hide its neighbours
      length = std::min(kSector - at % kSector, end - at);
      count = from.ReadAt(at, MutableByteSpan(piece).first(length));
    }
    if (!count.ok() && count.status().code() != Code::kUnreadable) return count.status();
    if (count.ok() && *count > 0) LZY_RETURN_IF_ERROR(to.WriteAt(at, ByteSpan(piece).first(*count)));
    at += length;
  }
  return Status::Ok();
}

// Only writers have something to finish. The others take part in the agreement.
Status Mender::FinishEnsemble(std::size_t e, bool only_in_place) {
  Ensemble& ensemble = view_.ensembles[e];
  return ForEachFile(ensemble, [&](std::uint32_t f) {
    const FilePlan& plan = *mends_[e][f].plan;
    const bool skip = !plan.any() || (only_in_place && (plan.rebuild_data || plan.rebuild_sidecar));
    return Writer(ensemble.files[f]) && !skip ? Finish(ensemble, e, f) : Status::Ok();
  });
}

// With force, what an epoch left is taken back, so its intent does not count.
bool Mender::InEpoch(const FileView& file) const {
  return file.intent && !IsOfRepair(*file.intent) && !request_.force;
}

// Inode, size and mtime as Examine saw them. Asked before anything is opened, and again right before the rename.
Status Mender::CheckUnchanged(const FileView& file, const FileMend& mend) const {
  const auto now = StatNewest(context_.fs, mend.target);
  const bool same = now.ok() ? file.present && now->inode == file.stat.inode && now->size == file.stat.size &&
                                   now->mtime_ns == file.stat.mtime_ns
                             : !file.present && now.status().code() == Code::kNotFound;
  if (same) return Status::Ok();
  return {Code::kBusy, fmt::format("{}: something else writes the file; it was not repaired", file.path)};
}

// `part_paths` are where the parts were found or are made now; the sidecar has to name these.
SidecarContents Mender::Moved(const FileView& file, SidecarContents contents) {
  for (std::size_t d = 0; d < file.part_paths.size(); ++d) contents.info.parts.directories[d] = DirectoryOf(file.part_paths[d]);
  return contents;
}

// Left as it was if the sidecar has no room for a longer name: a missing note costs a search, nothing else.
void Mender::NoteHome(const FileView& file, const FileMend& mend, SidecarContents& contents) const {
  if (file.part_paths.empty() || contents.info.parts.home == mend.target) return;
  SidecarContents noted = contents;
  noted.info.parts.home = OwnsParts(context_.fs, mend.target, file.sidecar->contents()) ? mend.target : "";
  if (file.sidecar->HasRoom(Moved(file, noted))) contents.info.parts.home = noted.info.parts.home;
}

// The superblock and the info record of a surviving member are the model. What differs by member is filled in.
SidecarContents Mender::FreshContents(const Ensemble& ensemble, std::uint32_t f) const {
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
  // The path of this member to the root of the dataset, from the roots that survivors record.
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

// Roots first: they are the proof that all blocks together are what was committed. A salvage has gaps, so its roots
// cannot be right.
Status Mender::Finish(Ensemble& ensemble, std::size_t e, std::uint32_t f) {
  FileView& file = ensemble.files[f];
  FileMend& mend = mends_[e][f];
  SidecarContents contents = CommittedContents(ensemble, e, f);
  if (!shared() && !plan_.beyond) {
    // Data without a sidecar of its own, where parity waits for the next commit, are as good as committed without it.
    const bool has_parity = mend.plan->rebuild_sidecar || file.sidecar != nullptr;
    if (contents.data_tree.Root() != ensemble.records[f].data_root ||
        (has_parity && contents.parity_tree.Root() != ensemble.records[f].parity_root)) {
      return {Code::kWriteFailed,
              fmt::format("{}: rebuilt, but not what was committed; it was not put in place", file.path)};
    }
  }
  if (mend.plan->rehash_parity && contents.parity_tree.Root() != file.sidecar->contents().superblock.parity_root) {
    return {Code::kWriteFailed, fmt::format("{}: the hashes of its parity, computed again, are not those that were committed", file.path)};
  }
  // Mode, owner and mtime as recorded. A shared file that was never a member of a record keeps those of a new file.
  const MemberRecord record = !shared()                        ? ensemble.records[f]
                              : contents.info.members.empty() ? MemberRecord()
                                                              : contents.info.members[0];
  LZY_ASSIGN_OR_RETURN(const FileStat stat, FinishData(ensemble, mend, f, record));
  // The stamp must tell what the file is now. With gaps it keeps the committed mtime, which the file does not have.
  const bool as_committed = mend.plan->rebuild_data && !mend.plan->leaves_gaps(file);
  contents.superblock.stamp.mtime_ns = as_committed ? stat.mtime_ns : file.stamp.mtime_ns;
  NoteHome(file, mend, contents);
  SetIdentity(contents.superblock.stamp, stat);
  LZY_RETURN_IF_ERROR(PutInPlace(file, mend, contents));
  LZY_RETURN_IF_ERROR(EndRepairIntent(file, *mend.plan));
  return context_.fs.SyncDirectory(DirectoryOf(mend.target));
}

// The superblock at hand is another member's; by its clock this member's mtime might look racy. A file that was built aside
// can be edited only when it has its name, which is later than now. One that was there may have been edited since it was
// read: the clock of that time is as much earlier as reading took, and two seconds, the longest tick that there is.
std::int64_t Mender::ClockOfRestored(const FileView& file, const FileMend& mend, std::int64_t mtime_ns) const {
  // Of a file without a name if there can be one: to ask a sidecar reads and writes a byte of its parity, and a storage that is about
  // to fail may tell a wrong one.
  const std::unique_ptr<File> scratch = mend.new_sidecar ? ScratchBeside(context_.fs, mend.target)() : nullptr;
  File* const asked = scratch ? scratch.get() : mend.new_sidecar ? &mend.new_sidecar->file() : nullptr;
  const auto now = asked != nullptr ? FileSystemClock(*asked) : Result<std::int64_t>(Code::kNotFound, "");
  const std::int64_t of_commit = view_.superblock.commit_clock_ns;
  if (!now.ok()) return std::max(of_commit, mtime_ns);
  if (mend.plan->rebuild_data || !file.present) return std::max(of_commit, *now);
  return std::max(of_commit, *now - static_cast<std::int64_t>((findings_.seconds + 2) * 1e9));
}

// Expected trees are those of the commit. Others are built from the leaves that were computed.
SidecarContents Mender::CommittedContents(const Ensemble& ensemble, std::size_t e, std::uint32_t f) {
  const FileView& file = ensemble.files[f];
  const Layout& layout = *ensemble.layout;
  FileMend& mend = mends_[e][f];
  SidecarContents contents = mend.plan->rebuild_sidecar ? FreshContents(ensemble, f)
                             : file.sidecar             ? file.sidecar->contents()
                                                        : SidecarContents();
  if (mend.plan->rebuild_sidecar) {
    contents.superblock.commit_clock_ns = ClockOfRestored(file, mend, file.stamp.mtime_ns);
  }
  // What was not rebuilt is a gap that a salvage left, and has no leaf.
  const auto gap = [](std::uint64_t) { return true; };
  const auto tree = [&](TreeKind kind, const MendOutput& out, std::uint64_t bytes) {
    if (out.expected != nullptr) return *out.expected;
    Tree made;
    (void)MakeTree(kind, out.leaves, nullptr, bytes, gap, mend.scratch, made);  // fails only if a leaf is missing
    return made;
  };
  contents.data_tree = tree(TreeKind::kData, mend.out->data, layout.file_size(f));
  contents.parity_tree = tree(TreeKind::kParity, mend.out->parity, layout.parity_size(f));
  return contents;
}

// Told by every rank alike, from agreed facts: owners of sidecars and recorded users.
void Mender::WarnOfOwners() {
  if (shared()) return;
  for (std::size_t e = 0; e < mends_.size(); ++e) {
    const Ensemble& ensemble = view_.ensembles[e];
    const std::set<std::uint32_t> owners = OwnersOfSidecars(ensemble);
    for (std::uint32_t f = 0; f < mends_[e].size(); ++f) {
      const std::uint32_t uid = ensemble.records[f].uid;
      if (!mends_[e][f].plan->rebuild_data || owners.size() != 1 || owners.contains(uid)) continue;
      report_.warnings.push_back(
          fmt::format("{}: it belonged to user {}, but the sidecars that say so belong to user {}; it was not given to that user",
                      ensemble.files[f].path, uid, *owners.begin()));
    }
  }
}

// Only the writer of a file knows what became of its access, and of what was there.
Status Mender::ShareWarnings() {
  LZY_ASSIGN_OR_RETURN(const auto all, UniteRecords(comm_, warnings_));
  std::ranges::copy(all, std::back_inserter(report_.warnings));
  return Status::Ok();
}

// A rebuilt file gets access and times before it gets its name. A file mended in place gets its committed mtime back,
// so that it matches its stamp again, unless edits stay in it.
Result<FileStat> Mender::FinishData(Ensemble& ensemble, FileMend& mend, std::uint32_t f, const MemberRecord& record) {
  FileView& file = ensemble.files[f];
  const std::uint64_t size = ensemble.layout->file_size(f);
  const FilePlan& plan = *mend.plan;
  if (plan.rebuild_data) {
    if (file.data) LZY_RETURN_IF_ERROR(KeepWhatCannotBeHad(*file.data, mend));
    LZY_RETURN_IF_ERROR(GiveAccess(ensemble, file, record, *mend.new_data, warnings_));
    // With gaps it must not look as committed to what goes by times.
    if (!plan.leaves_gaps(file)) LZY_RETURN_IF_ERROR(mend.new_data->SetTimes(record.mtime_ns, record.mtime_ns));
    LZY_RETURN_IF_ERROR(mend.new_data->Sync());
    return mend.new_data->Stat();
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

// What another dataset committed, which may be nowhere else; or what was written over the file, perhaps with its time.
Mender::Kept Mender::KeptOf(const FileView& file, const FileMend& mend) {
  const std::string name = mend.target + ".replaced";
  if (!file.identity.Is(Identity::Kind::kUnlike)) return {name, fmt::format("it held what '{}' was at its last commit", file.identity.name)};
  return {name, file.stat.size == 0 ? "it was empty, and it may be another file" : "most of it was not what was committed, and it may be another file"};
}

// Why the file that is to be replaced is kept under another name; nullopt: nothing in it is worth that. One that its own, older sidecar
// proves may have been put back on purpose. One without a usable sidecar may be another file that has the mtime of the commit by chance:
// nothing proves it, nor that it is rot. Rot changes few of its bytes, and those are worth nothing.
Result<std::optional<Mender::Kept>> Mender::WhyToKeep(const FileView& file, const FileMend& mend) const {
  if (!file.present) return std::optional<Kept>();
  const Identity& identity = file.identity;
  if (identity.Is(Identity::Kind::kProven) && file.stat.links == 1) return std::optional<Kept>(KeptOf(file, mend));
  if (request_.force) return std::optional<Kept>();
  if (identity.Is(Identity::Kind::kUnlike)) return std::optional<Kept>(KeptOf(file, mend));
  if (file.IsOfThePast()) {
    const auto older = PeekSidecar(context_.fs, file.sidecar_path);
    return std::optional<Kept>({fmt::format("{}.commit-{}", mend.target, older.ok() ? older->generation : 0), "it was as an older commit of its set left it"});
  }
  if (file.sidecar_usable() || file.data == nullptr) return std::optional<Kept>();
  LZY_ASSIGN_OR_RETURN(const bool rotten, Resembles(*file.data, *mend.new_data));
  if (rotten) return std::optional<Kept>();
  return std::optional<Kept>({mend.target + ".replaced", "it had no sidecar, and most of it was not what was committed"});
}

// A name of which no pattern of its set says that it is a member.
Status Mender::Keep(const Kept& kept, const FileView& file, const FileMend& mend, std::vector<std::string>& warnings) const {
  std::string name = kept.name;
  for (int i = 2; context_.fs.Stat(name, /*follow=*/false).status().code() != Code::kNotFound; ++i) {
    if (i > 100) return {Code::kIo, fmt::format("{}: {}. It is to be kept, but {} and all names like that are taken", file.path, kept.why, kept.name)};
    name = fmt::format("{}.{}", kept.name, i);
  }
  // Where there are no hard links, its own name is free for a moment.
  if (!context_.fs.MakeHardLink(mend.target, name).ok()) LZY_RETURN_IF_ERROR(context_.fs.Rename(mend.target, name));
  warnings.push_back(fmt::format("{}: {}; that is kept as {}. Remove it if you do not need it",
                               file.path, kept.why, ShellQuote(JoinPath(DirectoryOf(file.path), BaseNameOf(name)))));
  return Status::Ok();
}

// Sidecar bytes, then the data's name, then the sidecar's name. Between the two renames, the data file is there with
// its old or without a sidecar; verify then finds it through the others of its group.
Status Mender::PutInPlace(FileView& file, FileMend& mend, const SidecarContents& contents) {
  const FilePlan& plan = *mend.plan;
  if (plan.rebuild_sidecar) {
    if (mend.new_data) LZY_RETURN_IF_ERROR(mend.new_sidecar->file().CopyAccess(*mend.new_data));
    LZY_RETURN_IF_ERROR(mend.new_sidecar->WriteAll(contents));
  }
  if (plan.rebuild_data) {
    LZY_RETURN_IF_ERROR(CheckUnchanged(file, mend));
    // Gaps differ from what was committed: by the intent they count as damage, not as an edit, until somebody fills
    // them.
    if (plan.leaves_gaps(file)) LZY_RETURN_IF_ERROR(file.sidecar->SetIntent(NewIntent(kIntentRepair, Merged(plan.unmended))));
    LZY_ASSIGN_OR_RETURN(const std::optional<Kept> kept, WhyToKeep(file, mend));
    if (kept) LZY_RETURN_IF_ERROR(Keep(*kept, file, mend, warnings_));
    LZY_RETURN_IF_ERROR(context_.fs.Rename(NewDataPath(mend.target), mend.target));
  }
  if (plan.rebuild_sidecar) {
    LZY_ASSIGN_OR_RETURN(const std::string own, SidecarPath(mend.target));
    // Under a temporary name it is still found, until lzy-info --prune finds that nobody needs it.
    if (mend.sets_aside) LZY_RETURN_IF_ERROR(context_.fs.Rename(own, TemporarySidecarPath(own)));
    return context_.fs.Rename(NewSidecarPath(mend.target), own);
  }
  if (!file.sidecar) return Status::Ok();
  // What was mended in place may be a file that got its sidecar by its name: from now on it is known by itself.
  const Stamp& stamp = contents.superblock.stamp;
  const bool known = file.stamp.inode == stamp.inode && file.stamp.birth_ns == stamp.birth_ns;
  const bool rewrite = plan.heal_metadata || plan.rebuild_data || (!known && file.sidecar->knows_all_leaves());
  if (!rewrite) return Status::Ok();
  if (file.part_paths.empty()) return file.sidecar->WriteAll(contents);
  LZY_RETURN_IF_ERROR(file.sidecar->WriteAll(Moved(file, contents)));
  return RenewParts(context_.fs, *file.sidecar, PartsToMend(file));
}

// Last step of a repair in place. If the process dies before it, the next repair finds the note and finishes.
Status Mender::EndRepairIntent(FileView& file, const FilePlan& plan) const {
  if (!file.sidecar || plan.rebuild_sidecar || plan.leaves_gaps(file)) return Status::Ok();
  const std::optional<Intent>& intent = file.sidecar->intent();
  if (!intent && !plan.heal_metadata && !plan.data_in_place && !plan.cut_tail) return Status::Ok();
  return InEpoch(file) ? Status::Ok() : file.sidecar->ClearIntent();
}

// Only the writer made them, so only it removes them. A temporary that has been renamed is not there any more, and
// Remove then finds nothing.
void Mender::RemoveTemporaries() {
  for (std::size_t e = 0; e < mends_.size(); ++e) {
    for (std::uint32_t f = 0; f < mends_[e].size(); ++f) {
      if (!Writer(view_.ensembles[e].files[f])) continue;
      if (mends_[e][f].new_data) (void)context_.fs.Remove(mends_[e][f].new_data->path());
      if (mends_[e][f].new_sidecar) (void)context_.fs.Remove(mends_[e][f].new_sidecar->path());
    }
  }
}

}  // namespace lzy
