// Writing sidecars. sidecar_load.cc reads them, sidecar_places.cc computes the places of their parts.
//
// A commit in place (not for the compact form) runs
//   WriteOtherCopies (all but copy 0, sync) - NoteDecision (sets) - MakeCount (superblock 0, sync) - FinishCopies.
// Before MakeCount copy 0 is whole and of the old generation; after it copy 1 is whole and of the new one. So after a crash
// at any point Load finds a generation. docs/design/overview.md §11 has the invariants; lib/engine/power_loss_test.cc cuts
// the power between these steps.
#include "sidecar/sidecar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "sidecar/names.h"
#include "sidecar/own_file.h"

namespace lzy {
namespace {

// docs/format.md §12. The seal covers the leaves themselves: all hashes above them are XXH3, for which a forger can
// find other pages with the same hash.
Result<Seal> SealOf(const LeafKey& key, const SidecarContents& contents) {
  return key.SealOf([&](const auto& put) -> Status {
    put(SealedPartOf(contents.superblock));
    put(EncodeInfo(contents.info));
    for (const Tree* tree : {&contents.data_tree, &contents.parity_tree}) {
      if (tree->leaf_count() == 0) continue;
      LZY_RETURN_IF_ERROR(tree->ForEachPiece(0, [&](std::uint64_t, std::span<const Hash> leaves) {
        put(BytesOf(leaves));
        return Status::Ok();
      }));
    }
    return Status::Ok();
  });
}

Status WriteLevel(File& file, const Extent& at, const Tree& tree) {
  return tree.ForEachPiece(at.level, [&](std::uint64_t first, std::span<const Hash> nodes) {
    return file.WriteAt(at.offset + first * sizeof(Hash), BytesOf(nodes));
  });
}

// "unknown" is enough if the system reports no name: the name is only a part of an intent's writer.
std::string HostName() {
  char name[65] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

// If this node still believes in a file that the server no longer has: creates the file under a new name, and renames it,
// because a rename replaces any existing name. Only for NewSidecarPath; other names are random, so no node can know them.
Result<std::unique_ptr<File>> CreateAndRename(FileSystem& fs, const std::string& path) {
  const std::string directory = DirectoryOf(path), name = BaseNameOf(path);
  if (!name.starts_with(kNewSidecarPrefix)) return Status(Code::kIo, fmt::format("{}: open: File exists", path));
  const std::string temporary = TemporarySidecarPath(JoinPath(directory, kSidecarPrefix + name.substr(sizeof(kNewSidecarPrefix) - 1)));
  LZY_ASSIGN_OR_RETURN(const auto made, fs.Open(temporary, OpenMode::kCreateNew, /*follow=*/false, 0600));
  if (const Status renamed = fs.Rename(temporary, path); !renamed.ok()) {
    (void)fs.Remove(temporary);
    return renamed;
  }
  LZY_ASSIGN_OR_RETURN(auto file, fs.Open(path, OpenMode::kReadWrite, /*follow=*/false));
  LZY_ASSIGN_OR_RETURN(const FileStat mine, made->Stat());
  LZY_ASSIGN_OR_RETURN(const FileStat there, file->Stat());
  if (there.inode != mine.inode) return Status(Code::kIo, fmt::format("{}: has just been replaced by another file", path));
  return file;
}

}  // namespace

// --------------------------------------------------------------------------------------------------------------- write

Result<std::unique_ptr<Sidecar>> Sidecar::Create(FileSystem& fs, const std::string& path, const SidecarContents& shape,
                                                 File& like, std::uint64_t least_spacing) {
  // A leftover of a crash may be there, or a link that somebody created. Then remove it, and create a new file. If another
  // node has renamed the leftover, this node may still believe that it is there. The attempt to remove it shows the truth.
  auto file = fs.Open(path, OpenMode::kCreateNew, /*follow=*/false, 0600);
  if (!file.ok()) {
    const bool seems_there = fs.Stat(path, /*follow=*/false).ok();
    const Code removed = fs.Remove(path).code();
    if (removed == Code::kOk || (seems_there && removed == Code::kNotFound)) file = fs.Open(path, OpenMode::kCreateNew, /*follow=*/false, 0600);
    if (!file.ok() && seems_there && removed == Code::kNotFound) file = CreateAndRename(fs, path);
  }
  LZY_RETURN_IF_ERROR(file.status());
  LZY_RETURN_IF_ERROR((*file)->CopyAccess(like));
  return Renew(std::move(file).value(), shape, least_spacing);
}

// Nothing is removed, so the parity stays.
Result<std::unique_ptr<Sidecar>> Sidecar::Renew(std::unique_ptr<File> part, const SidecarContents& shape,
                                                std::uint64_t least_spacing) {
  auto sidecar = std::unique_ptr<Sidecar>(new Sidecar());
  sidecar->file_ = std::move(part);
  sidecar->contents_.superblock = shape.superblock;
  sidecar->contents_.superblock.compact = FitsCompact(shape);
  sidecar->fresh_ = true;
  LZY_RETURN_IF_ERROR(sidecar->PlanExtents(shape, least_spacing));
  return sidecar;
}

// The trees may still read pages of the other file, which nobody changes: they are those of the loaded generation.
Status Sidecar::Separate() {
  if (fresh_ || fs_ == nullptr || names_ == Names::kOne) return Status::Ok();
  if (names_ == Names::kUnknown) {
    LZY_ASSIGN_OR_RETURN(const FileStat stat, file_->Stat());
    if (stat.links <= 1) {
      names_ = Names::kOne;
      return Status::Ok();
    }
    LZY_ASSIGN_OR_RETURN(file_, MakeOwnFile(*fs_, *file_));
    names_ = Names::kReplaced;
    synced_ = true;
  }
  LZY_RETURN_IF_ERROR(fs_->SyncDirectory(DirectoryOf(path())));
  names_ = Names::kOne;
  return Status::Ok();
}

void Sidecar::StandIn() {
  contents_.superblock.rank = 0;
  damage_.clear();  // damage of the part is reported for the part
  NoteDamage({0, 0, "sidecar"});
}

// The seal comes last, because it covers everything else. Without the key, a sealed dataset cannot be committed, because
// its leaves would be made without the key.
Status Sidecar::Complete(SidecarContents& contents) const {
  if (contents.superblock.sealed() && !contents.key) {
    return {Code::kInternal, fmt::format("{}: it is sealed, and its key not known", path())};
  }
  contents.superblock.spacing = contents_.superblock.spacing;
  contents.superblock.copies = contents_.superblock.copies;
  contents.superblock.compact = contents_.superblock.compact;
  contents.superblock.info_hash = HashBytes(HashTag::kInfo, 0, EncodeInfo(contents.info));
  contents.superblock.data_root = contents.data_tree.Root();
  contents.superblock.parity_root = contents.parity_tree.Root();
  contents.superblock.key_id = contents.key ? contents.key->id() : KeyId{};
  contents.superblock.seal = Seal{};
  if (contents.key) {
    LZY_ASSIGN_OR_RETURN(contents.superblock.seal, SealOf(*contents.key, contents));
  }
  return Status::Ok();
}

// First the cases that do not depend on the contents: wrong key, no key, not sealed. The seal itself is compared last.
Status Sidecar::Unseal(std::shared_ptr<const LeafKey> key) {
  const Superblock& sb = contents_.superblock;
  if (!committed() || (!key && !sb.sealed())) return Status::Ok();
  if (!key) {
    return {Code::kInvalidArgument,
            fmt::format("{}: it is sealed with key {}; give the key with --key FILE or LZY_KEY=FILE", path(),
                        KeyText(sb.key_id))};
  }
  if (!sb.sealed())
    return {Code::kUnprotected, fmt::format("{}: it is not sealed with key {}", path(), KeyText(key->id()))};
  if (key->id() != sb.key_id) {
    return {Code::kInvalidArgument, fmt::format("{}: it is sealed with key {}; the one that was given is {}", path(),
                                                KeyText(sb.key_id), KeyText(key->id()))};
  }
  if (!knows_all_leaves()) {
    return {Code::kCorrupt,
            fmt::format("{}: hashes are damaged in all copies, so its seal cannot be checked", path())};
  }
  LZY_ASSIGN_OR_RETURN(const Seal seal, SealOf(*key, contents_));
  if (seal != sb.seal) {
    return {Code::kCorrupt, fmt::format("{}: it is not what was sealed with key {}: somebody has forged it", path(),
                                        KeyText(key->id()))};
  }
  contents_.key = std::move(key);
  return Status::Ok();
}

// After a crash, the order of these writes does not matter: Load verifies every hash, and no code relies on a copy before
// the following sync. But a reader meanwhile, or after the process was killed, must not take half a copy for a damaged one.
// So a copy that is being prepared is marked first, and Load skips it. Copy 0 is never prepared; while its metadata are
// written, its superblock refers to those of copy 1. Intent pages and parity belong to no copy.
Status Sidecar::WriteCopy(std::uint32_t copy, const SidecarContents& contents, SidecarState state) {
  if (state == SidecarState::kPrepared) LZY_RETURN_IF_ERROR(WriteSuperblock(copy, contents, state, extents_[copy]));
  for (const Extent& e : extents_[copy]) {
    switch (e.kind) {
      case ExtentKind::kInfo:
        LZY_RETURN_IF_ERROR(file_->WriteAt(e.offset, EncodeInfo(contents.info)));
        break;
      case ExtentKind::kNodes:
        LZY_RETURN_IF_ERROR(file_->WriteAt(e.offset, EncodeNodes(contents.info)));
        break;
      case ExtentKind::kDataLevel:
        LZY_RETURN_IF_ERROR(WriteLevel(*file_, e, contents.data_tree));
        break;
      case ExtentKind::kParityLevel:
        LZY_RETURN_IF_ERROR(WriteLevel(*file_, e, contents.parity_tree));
        break;
      case ExtentKind::kIntent:
      case ExtentKind::kParity:
        break;
    }
  }
  return state == SidecarState::kPrepared ? Status::Ok() : WriteSuperblock(copy, contents, state, extents_[copy]);
}

Status Sidecar::WriteSuperblock(std::uint32_t copy, const SidecarContents& contents, SidecarState state,
                                const std::vector<Extent>& extents) {
  Superblock sb = contents.superblock;
  sb.copy = copy;
  sb.state = state;
  sb.extents = extents;
  return file_->WriteAt(sb.PlaceOf(copy), EncodeSuperblock(sb));
}

Status Sidecar::SyncFile() {
  LZY_RETURN_IF_ERROR(file_->Sync());
  synced_ = true;
  return Status::Ok();
}

Status Sidecar::WriteOtherCopies(SidecarContents& contents, SidecarState state) {
  // Phase 1: a process that died before its sync may have written the loaded contents. They were visible, but perhaps not
  // durable. They must be durable before another copy is overwritten.
  if (!fresh_ && !synced_) LZY_RETURN_IF_ERROR(SyncFile());
  // Phase 2: copy 0 stays valid while the others are written. If it is not whole, write it first, as it was.
  if (!fresh_ && !copy_whole_[0]) {
    // The place of copy 0 may be lost with its superblock, or be that of another generation. So it is planned anew. The
    // other copies keep their places, because only they are whole.
    LZY_RETURN_IF_ERROR(PlanFirstCopy());
    LZY_RETURN_IF_ERROR(WriteCopy(0, contents_, contents_.superblock.state));
    LZY_RETURN_IF_ERROR(SyncFile());
    copy_whole_[0] = true;
    ReadPagesFrom(0, contents_);
  }
  // Phase 3: the new contents go to all other copies. If they are the same as before, their pages are read from copies
  // that are whole now.
  for (Tree SidecarContents::* tree : {&SidecarContents::data_tree, &SidecarContents::parity_tree}) {
    const bool same = knows_all_leaves() && (contents.*tree).is_large() && (contents.*tree).Root() == (contents_.*tree).Root();
    if (same) contents.*tree = contents_.*tree;
  }
  LZY_RETURN_IF_ERROR(PlanAgain(contents));
  LZY_RETURN_IF_ERROR(Complete(contents));
  for (std::uint32_t c = 1; c < extents_.size(); ++c) LZY_RETURN_IF_ERROR(WriteCopy(c, contents, state));
  ReadPagesFrom(1, contents);
  if (!fresh_) return SyncFile();
  // Writing the pages now reserves their blocks. So an intent can be set later even if the file system is full (on file
  // systems that overwrite in place). The compact form does not do this: its file has intent pages only while an intent is
  // set.
  return contents_.superblock.compact && !intent_ ? Status::Ok() : WriteIntentPages();
}

// Both pages get the same intent, so one bad sector does not hide it. Without an intent they are zero, or cut off in the
// compact form. A torn page is void. That is harmless, because no data change before SetIntent has synced.
Status Sidecar::WriteIntentPages() {
  if (contents_.superblock.compact && !intent_) return CutToLength();
  LZY_ASSIGN_OR_RETURN(const std::uint64_t at, IntentOffset());
  for (std::uint32_t page = 0; page < kIntentPages; ++page) {
    const auto bytes = intent_ ? EncodeIntent(*intent_, page) : std::vector<std::uint8_t>(kIntentPageSize, 0);
    LZY_RETURN_IF_ERROR(file_->WriteAt(at + page * kIntentPageSize, bytes));
  }
  return Status::Ok();
}

// The new generation voids the old intent. If the generation stayed (copies were repaired), the intent still stands.
void Sidecar::Adopt(SidecarContents contents) {
  contents_ = std::move(contents);
  ReadPagesFrom(0, contents_);
  fresh_ = false;
  torn_ = false;
  copy_whole_.assign(extents_.size(), true);
  damage_.clear();
  unknown_data_.clear();
  unknown_parity_.clear();
  if (intent_ && intent_->generation != generation()) intent_.reset();
  prepared_generation_ = 0;
}

// Three cases. A further generation is a commit in two phases, one directly after the other. A fresh file has no contents
// that must stay valid. The same generation again repairs the copies: it changes no contents, so there is nothing to decide,
// and the order of WriteOtherCopies keeps one copy whole.
Status Sidecar::WriteAll(SidecarContents next) {
  LZY_RETURN_IF_ERROR(Separate());
  const bool counts_already = !fresh_ && next.superblock.generation == generation();
  if (!fresh_ && !counts_already) {
    LZY_RETURN_IF_ERROR(Prepare(std::move(next)));
    return FinishPrepared();
  }
  const SidecarState state = next.superblock.state;
  LZY_RETURN_IF_ERROR(WriteOtherCopies(next, state));
  LZY_RETURN_IF_ERROR(WriteCopy(0, next, state));
  Adopt(std::move(next));
  LZY_RETURN_IF_ERROR(CutToLength());
  return SyncFile();
}

// prepared_ is set only if everything is durable, so a FinishPrepared after a failure does nothing.
Status Sidecar::Prepare(SidecarContents next) {
  if (contents_.superblock.compact) {
    return {Code::kInternal, fmt::format("{}: a compact sidecar takes no commit in place", path())};
  }
  LZY_RETURN_IF_ERROR(Separate());
  LZY_RETURN_IF_ERROR(WriteOtherCopies(next, SidecarState::kPrepared));
  prepared_ = std::move(next);
  return Status::Ok();
}

Status Sidecar::CompletePrepared() {
  LZY_RETURN_IF_ERROR(Separate());
  // The loaded copy 0 is of the previous generation, so its place in the new one is planned as Prepare would have done.
  LZY_RETURN_IF_ERROR(PlanFirstCopy());
  prepared_ = contents_;
  return FinishPrepared();
}

// The page that MakeCount writes can be torn. Then this note shows that the prepared generation was decided, not given up.
// It replaces the last page of the intent. The first page still has the intent, which is needed only until MakeCount is
// done.
Status Sidecar::NoteDecision(const Superblock& next) {
  Intent decision = IntentOfThisProcess();
  decision.uuid = next.uuid;
  decision.generation = next.generation;
  decision.flags = kIntentDecided;
  decision.wall_time_ns = next.wall_time_ns;
  LZY_ASSIGN_OR_RETURN(const std::uint64_t at, IntentOffset());
  constexpr std::uint32_t kPage = kIntentPages - 1;
  LZY_RETURN_IF_ERROR(file_->WriteAt(at + kPage * kIntentPageSize, EncodeIntent(decision, kPage)));
  return SyncFile();
}

// One page makes a prepared generation count: the superblock of copy 0. It refers to the metadata of copy 1 for now, so
// copy 0's own metadata, of the previous generation, are not touched until the new one counts.
Status Sidecar::MakeCount(const SidecarContents& next) {
  std::vector<std::uint8_t> before(kSuperblockSize);
  const bool known = ReadExactly(*file_, 0, before).ok();
  Status status = WriteSuperblock(0, next, SidecarState::kCommitted, extents_[1]);
  if (status.ok()) status = SyncFile();
  // After a failure the caller relies on the previous generation and its intent. So the old superblock is written again:
  // the new one may have reached the disk although the sync failed, and would be found after a crash.
  if (!status.ok() && known && file_->WriteAt(0, before).ok()) (void)SyncFile();
  return status;
}

// The others become committed first, durably. Only then superblock 0 is written a second time, with metadata of copy
// 0's own. If that page tears, the others already say that the generation is committed.
Status Sidecar::FinishCopies(const SidecarContents& next) {
  for (std::uint32_t c = 1; c < extents_.size(); ++c) {
    LZY_RETURN_IF_ERROR(WriteSuperblock(c, next, SidecarState::kCommitted, extents_[c]));
  }
  LZY_RETURN_IF_ERROR(SyncFile());
  return WriteCopy(0, next, SidecarState::kCommitted);
}

Status Sidecar::FinishPrepared() {
  if (!prepared_) return {Code::kInternal, "FinishPrepared without Prepare"};
  SidecarContents next = std::move(*prepared_);
  prepared_.reset();
  if (next.superblock.kind == DatasetKind::kSet) LZY_RETURN_IF_ERROR(NoteDecision(next.superblock));
  LZY_RETURN_IF_ERROR(MakeCount(next));
  // The new generation counts now. A later failure leaves fewer copies, which the next Load detects and can repair. So this
  // is no error.
  const Status finished = NoThrow([&] { return FinishCopies(next); });
  next.superblock.state = SidecarState::kCommitted;
  Adopt(std::move(next));
  if (!finished.ok()) {
    // Superblock 0 may still refer to the metadata of copy 1.
    extents_[0] = extents_[1];
    copy_whole_[0] = false;
    return Status::Ok();
  }
  if (CutToLength().ok()) (void)SyncFile();
  return Status::Ok();
}

// -------------------------------------------------------------------------------------------------------------- intent

Intent IntentOfThisProcess() {
  Intent intent;
  intent.pid = static_cast<std::uint32_t>(getpid());
  intent.host = HostName();
  return intent;
}

// Process, host and time together identify the writer, see SameWriter.
Intent NewIntent(std::uint32_t flags, const std::vector<ByteRange>& ranges) {
  Intent intent = IntentOfThisProcess();
  intent.flags = flags;
  intent.wall_time_ns = WallClockNs();
  intent.ranges = ranges;
  if (ranges.size() > kMaxIntentRanges) {
    intent.ranges.clear();
    intent.flags |= kIntentWholeFile;
  }
  return intent;
}

Status Sidecar::SetIntent(Intent intent) {
  LZY_RETURN_IF_ERROR(RepairTorn());
  intent.uuid = contents_.superblock.uuid;
  intent.generation = generation();
  return PutIntent(std::move(intent));
}

Status Sidecar::RepairTorn() {
  return torn_ ? CompletePrepared() : Status::Ok();
}

// Only the last page is written. Whatever happens to it, the first one still has the intent.
Status Sidecar::MarkHandedOver() {
  if (!intent_ || fresh_) return Status::Ok();
  intent_->flags |= kIntentHandedOver;
  LZY_ASSIGN_OR_RETURN(const std::uint64_t at, IntentOffset());
  constexpr std::uint32_t kPage = kIntentPages - 1;
  return file_->WriteAt(at + kPage * kIntentPageSize, EncodeIntent(*intent_, kPage));
}

Status Sidecar::ClearIntent() {
  LZY_RETURN_IF_ERROR(RepairTorn());
  return PutIntent(std::nullopt);
}

// In memory the new intent counts only if it is durable. If not, the caller must not let anybody write.
Status Sidecar::PutIntent(std::optional<Intent> intent) {
  LZY_RETURN_IF_ERROR(Separate());
  std::optional<Intent> before = std::exchange(intent_, std::move(intent));
  if (fresh_) return Status::Ok();
  Status written = WriteIntentPages();
  if (written.ok()) written = SyncFile();
  if (written.ok()) return written;
  intent_ = std::move(before);
  // Remove appended pages that could not be used, for example because the file system is full.
  if (contents_.superblock.compact && !intent_) (void)CutToLength();
  return written;
}

}  // namespace lzy
