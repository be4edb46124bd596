// Writing sidecars; sidecar_load.cc reads them.
#include "sidecar/sidecar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>

namespace lzy {
namespace {

constexpr std::size_t kHashBytes = sizeof(Hash);

std::uint64_t RoundUp(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

ByteSpan LevelBytes(const std::vector<Hash>& level) {
  return {reinterpret_cast<const std::uint8_t*>(level.data()), level.size() * kHashBytes};
}

// docs/format.md §12. The leaves themselves, since what is above them holds off accidents only.
Seal SealOf(const LeafKey& key, const SidecarContents& contents) {
  const auto leaves = [](const Tree& tree) { return tree.leaf_count() == 0 ? ByteSpan() : LevelBytes(tree.levels()[0]); };
  const std::vector<std::uint8_t> superblock = SealedPartOf(contents.superblock), info = EncodeInfo(contents.info);
  const ByteSpan parts[] = {superblock, info, leaves(contents.data_tree), leaves(contents.parity_tree)};
  return key.SealOf(parts);
}

std::uint64_t LevelsLength(const Tree& tree) {
  std::uint64_t total = 0;
  for (const auto& level : tree.levels()) total += level.size() * kHashBytes;
  return total;
}

std::string HostName() {
  char name[65] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::int64_t WallNowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Where the parity region begins: behind the copies and the intent pages; on real stripes, at the first device.
std::uint64_t ParityStart(const Superblock& sb) {
  const std::uint64_t align = sb.placement == ParityPlacement::kStriped ? sb.unit * sb.members : kSuperblockSize;
  return RoundUp(sb.spacing * sb.copies + kIntentPages * kIntentPageSize, align);
}

}  // namespace

// --------------------------------------------------------------------------------------------------------------- write

Result<std::unique_ptr<Sidecar>> Sidecar::Create(FileSystem& fs, const std::string& path, const SidecarContents& shape,
                                                 File& like, std::uint64_t least_spacing) {
  auto sidecar = std::unique_ptr<Sidecar>(new Sidecar());
  // A leftover of a crash may be there; a link somebody planted must not be followed.
  if (Status removed = fs.Remove(path); !removed.ok() && removed.code() != Code::kNotFound) return removed;
  LZY_ASSIGN_OR_RETURN(sidecar->file_, fs.Open(path, OpenMode::kCreateNew, /*follow=*/false, 0600));
  LZY_RETURN_IF_ERROR(sidecar->file_->CopyAccess(like));
  sidecar->contents_.superblock = shape.superblock;
  sidecar->fresh_ = true;
  LZY_RETURN_IF_ERROR(sidecar->PlanExtents(shape, least_spacing));
  return sidecar;
}

Result<std::unique_ptr<Sidecar>> Sidecar::Renew(std::unique_ptr<File> part, const SidecarContents& shape,
                                                std::uint64_t least_spacing) {
  auto sidecar = std::unique_ptr<Sidecar>(new Sidecar());
  sidecar->file_ = std::move(part);
  sidecar->contents_.superblock = shape.superblock;
  sidecar->fresh_ = true;
  LZY_RETURN_IF_ERROR(sidecar->PlanExtents(shape, least_spacing));
  return sidecar;
}

void Sidecar::StandIn() {
  contents_.superblock.rank = 0;
  damage_.clear();  // it is told as that of the part
  NoteDamage({0, 0, "sidecar"});
}

// Copy c occupies [c*S, (c+1)*S): superblock, info, tree levels. Then intent pages, then parity, which may grow freely.
Status Sidecar::PlanExtents(const SidecarContents& shape, std::uint64_t least_spacing) {
  const Superblock& sb = shape.superblock;
  const bool committed = sb.state != SidecarState::kNeverCommitted;
  const std::uint64_t info_length = RoundUp(EncodeInfo(shape.info).size(), kHashBytes);
  const std::uint64_t metadata =
      kSuperblockSize + info_length + LevelsLength(shape.data_tree) + LevelsLength(shape.parity_tree);
  std::uint64_t spacing = std::max(least_spacing, std::bit_ceil(metadata));
  // Copies of a dataset that is not small lie in different stripe units, so that they do not share a server.
  if (sb.unit > sb.block_size) spacing = std::max(spacing, sb.unit);
  const std::uint32_t copies = sb.kind == DatasetKind::kShared ? std::max<std::uint32_t>(2, sb.parity + 1) : 2;
  const std::uint64_t intent_at = spacing * copies;
  contents_.superblock.spacing = spacing;
  contents_.superblock.copies = copies;
  Superblock placed = sb;
  placed.spacing = spacing;
  placed.copies = copies;
  const std::uint64_t parity_at = ParityStart(placed);
  extents_.assign(copies, {});
  copy_whole_.resize(copies, false);
  for (std::uint32_t c = 0; c < copies; ++c) {
    std::uint64_t at = spacing * c + kSuperblockSize;
    auto& list = extents_[c];
    auto add = [&](ExtentKind kind, std::size_t level, std::uint64_t length) {
      list.push_back({kind, static_cast<std::uint16_t>(level), 0, at, length, length});
      at += RoundUp(length, kHashBytes);
    };
    add(ExtentKind::kInfo, 0, EncodeInfo(shape.info).size());
    for (std::size_t l = 0; l < shape.data_tree.levels().size(); ++l) {
      add(ExtentKind::kDataLevel, l, shape.data_tree.levels()[l].size() * kHashBytes);
    }
    for (std::size_t l = 0; l < shape.parity_tree.levels().size(); ++l) {
      add(ExtentKind::kParityLevel, l, shape.parity_tree.levels()[l].size() * kHashBytes);
    }
    list.push_back(
        {ExtentKind::kIntent, 0, 0, intent_at, kIntentPages * kIntentPageSize, kIntentPages * kIntentPageSize});
    if (const std::uint64_t parity = sb.parity_here(); committed && parity > 0)
      list.push_back({ExtentKind::kParity, 0, 0, parity_at, parity, parity});
    if (list.size() > kMaxExtents) return {Code::kInternal, "too many extents for a superblock"};
  }
  return Status::Ok();
}

bool Sidecar::Fits(const SidecarContents& next) const {
  const Superblock& a = contents_.superblock;
  const Superblock& b = next.superblock;
  if (!committed() || a.kind != b.kind || a.placement != b.placement || a.block_size != b.block_size ||
      a.unit != b.unit || a.parity != b.parity || a.members != b.members || a.largest_group != b.largest_group ||
      a.rank != b.rank || a.parity_stride != b.parity_stride || a.first_row != b.first_row ||
      contents_.info.groups != next.info.groups || !contents_.info.parts.SameFiles(next.info.parts)) {
    return false;
  }
  return HasRoom(next);
}

bool Sidecar::HasRoom(const SidecarContents& next) const {
  const std::uint64_t metadata = kSuperblockSize + RoundUp(EncodeInfo(next.info).size(), kHashBytes) +
                                 LevelsLength(next.data_tree) + LevelsLength(next.parity_tree);
  return metadata <= contents_.superblock.spacing;
}

Status Sidecar::Complete(SidecarContents& contents) const {
  if (contents.superblock.sealed() && !contents.key) {
    return {Code::kInternal, fmt::format("{}: it is sealed, and its key not known", path())};
  }
  contents.superblock.spacing = contents_.superblock.spacing;
  contents.superblock.copies = contents_.superblock.copies;
  contents.superblock.info_hash = HashBytes(HashTag::kInfo, 0, EncodeInfo(contents.info));
  contents.superblock.data_root = contents.data_tree.Root();
  contents.superblock.parity_root = contents.parity_tree.Root();
  contents.superblock.key_id = contents.key ? contents.key->id() : KeyId{};
  contents.superblock.seal = contents.key ? SealOf(*contents.key, contents) : Seal{};
  return Status::Ok();
}

Status Sidecar::Unseal(std::shared_ptr<const LeafKey> key) {
  const Superblock& sb = contents_.superblock;
  if (!committed() || (!key && !sb.sealed())) return Status::Ok();
  if (!key) {
    return {Code::kInvalidArgument, fmt::format("{}: it is sealed with key {}, which has to be given: --key FILE or LZY_KEY=FILE",
                                                path(), KeyText(sb.key_id))};
  }
  if (!sb.sealed()) return {Code::kUnprotected, fmt::format("{}: it is not sealed with key {}", path(), KeyText(key->id()))};
  if (key->id() != sb.key_id) {
    return {Code::kInvalidArgument, fmt::format("{}: it is sealed with key {}; the one that was given is {}", path(),
                                                KeyText(sb.key_id), KeyText(key->id()))};
  }
  if (!knows_all_leaves()) {
    return {Code::kCorrupt, fmt::format("{}: hashes are damaged in all copies, so that its seal proves nothing", path())};
  }
  if (SealOf(*key, contents_) != sb.seal) {
    return {Code::kCorrupt, fmt::format("{}: it is not what was sealed with key {}: somebody has forged it", path(),
                                        KeyText(key->id()))};
  }
  contents_.key = std::move(key);
  return Status::Ok();
}

Status Sidecar::WriteCopy(std::uint32_t copy, const SidecarContents& contents, SidecarState state) {
  for (const Extent& e : extents_[copy]) {
    switch (e.kind) {
      case ExtentKind::kInfo:
        LZY_RETURN_IF_ERROR(file_->WriteAt(e.offset, EncodeInfo(contents.info)));
        break;
      case ExtentKind::kDataLevel:
        LZY_RETURN_IF_ERROR(file_->WriteAt(e.offset, LevelBytes(contents.data_tree.levels()[e.level])));
        break;
      case ExtentKind::kParityLevel:
        LZY_RETURN_IF_ERROR(file_->WriteAt(e.offset, LevelBytes(contents.parity_tree.levels()[e.level])));
        break;
      case ExtentKind::kIntent:
      case ExtentKind::kParity:
        break;
    }
  }
  return WriteSuperblock(copy, contents, state, extents_[copy]);
}

Status Sidecar::WriteSuperblock(std::uint32_t copy, const SidecarContents& contents, SidecarState state,
                                const std::vector<Extent>& extents) {
  Superblock sb = contents.superblock;
  sb.copy = copy;
  sb.state = state;
  sb.extents = extents;
  return file_->WriteAt(sb.spacing * copy, EncodeSuperblock(sb));
}

Status Sidecar::SyncFile() {
  LZY_RETURN_IF_ERROR(file_->Sync());
  synced_ = true;
  return Status::Ok();
}

Status Sidecar::WriteOtherCopies(SidecarContents& contents, SidecarState state) {
  // What was read may be of a process that died before it was durable.
  if (!fresh_ && !synced_) LZY_RETURN_IF_ERROR(SyncFile());
  // Copy 0 is the one that stays valid meanwhile; if it is not whole, it is made so first.
  if (!fresh_ && !copy_whole_[0]) {
    // Where it lay may be lost with its superblock, or be of another generation; the place is planned as ever.
    std::vector<std::vector<Extent>> known = extents_;
    LZY_RETURN_IF_ERROR(PlanExtents(contents_, contents_.superblock.spacing));
    known[0] = extents_[0];
    extents_ = std::move(known);
    LZY_RETURN_IF_ERROR(WriteCopy(0, contents_, contents_.superblock.state));
    LZY_RETURN_IF_ERROR(SyncFile());
    copy_whole_[0] = true;
  }
  LZY_RETURN_IF_ERROR(PlanExtents(contents, contents_.superblock.spacing));
  LZY_RETURN_IF_ERROR(Complete(contents));
  for (std::uint32_t c = 1; c < extents_.size(); ++c) LZY_RETURN_IF_ERROR(WriteCopy(c, contents, state));
  if (!fresh_) return SyncFile();
  // An intent must find room also when the file system is full by then (where what is written over keeps its place).
  return WriteIntentPages();
}

Status Sidecar::WriteIntentPages() {
  LZY_ASSIGN_OR_RETURN(const std::uint64_t at, IntentOffset());
  for (std::uint32_t page = 0; page < kIntentPages; ++page) {
    const auto bytes = intent_ ? EncodeIntent(*intent_, page) : std::vector<std::uint8_t>(kIntentPageSize, 0);
    LZY_RETURN_IF_ERROR(file_->WriteAt(at + page * kIntentPageSize, bytes));
  }
  return Status::Ok();
}

void Sidecar::Adopt(SidecarContents contents) {
  contents_ = std::move(contents);
  fresh_ = false;
  torn_ = false;
  copy_whole_.assign(extents_.size(), true);
  damage_.clear();
  unknown_data_.clear();
  unknown_parity_.clear();
  if (intent_ && intent_->generation != generation()) intent_.reset();
  prepared_generation_ = 0;
}

// The file ends where its last extent ends: intent pages and holes at the end of the parity are part of it, what a longer
// past left behind is not.
Status Sidecar::CutToLength() {
  std::uint64_t end = 0;
  for (const Extent& e : extents_[0]) end = std::max(end, e.offset + e.capacity);
  LZY_ASSIGN_OR_RETURN(const FileStat stat, file_->Stat());
  size_ = stat.size;
  if (size_ == end) return Status::Ok();
  LZY_RETURN_IF_ERROR(file_->Truncate(end));
  size_ = end;
  return Status::Ok();
}

Status Sidecar::WriteAll(SidecarContents next) {
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

Status Sidecar::Prepare(SidecarContents next) {
  LZY_RETURN_IF_ERROR(WriteOtherCopies(next, SidecarState::kPrepared));
  prepared_ = std::move(next);
  return Status::Ok();
}

Status Sidecar::CompletePrepared() {
  // Copy 0 is of the generation before; it gets the place it would have been given.
  std::vector<std::vector<Extent>> known = extents_;
  LZY_RETURN_IF_ERROR(PlanExtents(contents_, contents_.superblock.spacing));
  known[0] = extents_[0];
  extents_ = std::move(known);
  prepared_ = contents_;
  return FinishPrepared();
}

// Should that page be torn, this one tells that what is prepared is no commit that was given up. It takes the place of the
// intent's last page; the first still says what it did, and needs to be no longer than until that one is whole.
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

// One page makes a prepared generation count: copy 0's superblock, which for now shares the metadata of copy 1, so that its
// own, of the generation before, are not touched until then.
Status Sidecar::MakeCount(const SidecarContents& next) {
  std::vector<std::uint8_t> before(kSuperblockSize);
  const bool known = ReadExactly(*file_, 0, before).ok();
  Status status = WriteSuperblock(0, next, SidecarState::kCommitted, extents_[1]);
  if (status.ok()) status = SyncFile();
  // The caller will go by the generation before, and by its intent, so that is what has to be found, also after a crash.
  if (!status.ok() && known && file_->WriteAt(0, before).ok()) (void)SyncFile();
  return status;
}

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
  // It counts. What fails from here on leaves fewer copies, which whoever loads the sidecar finds and can heal, but no
  // other outcome.
  const Status finished = FinishCopies(next);
  next.superblock.state = SidecarState::kCommitted;
  Adopt(std::move(next));
  if (!finished.ok()) {
    extents_[0] = extents_[1];
    copy_whole_[0] = false;
    return Status::Ok();
  }
  if (CutToLength().ok()) (void)SyncFile();
  return Status::Ok();
}

// -------------------------------------------------------------------------------------------------------------- parity

std::uint64_t Sidecar::ParityFileOffset(std::uint64_t offset) const {
  const std::vector<Extent>& list =
      extents_.empty() || extents_[0].empty() ? contents_.superblock.extents : extents_[0];
  for (const Extent& e : list) {
    if (e.kind == ExtentKind::kParity && offset >= e.logical && offset - e.logical < e.capacity) {
      return e.offset + (offset - e.logical);
    }
  }
  return ParityStart(contents_.superblock) + offset;  // past the recorded end: the extent grows
}

// -------------------------------------------------------------------------------------------------------------- intent

Result<std::uint64_t> Sidecar::IntentOffset() const {
  for (const std::vector<Extent>& list : extents_) {
    const Extent* e = FindExtent(list, ExtentKind::kIntent);
    if (e == nullptr) continue;
    if (e->length == kIntentPages * kIntentPageSize) return e->offset;
    break;
  }
  return {Code::kNewerFormat, fmt::format("{}: its intent pages are not laid out as this version writes them", path())};
}

Intent IntentOfThisProcess() {
  Intent intent;
  intent.pid = static_cast<std::uint32_t>(getpid());
  intent.host = HostName();
  return intent;
}

Intent NewIntent(std::uint32_t flags, const std::vector<ByteRange>& ranges) {
  Intent intent = IntentOfThisProcess();
  intent.flags = flags;
  intent.wall_time_ns = WallNowNs();
  intent.ranges = ranges;
  if (ranges.size() > kMaxIntentRanges) {
    intent.ranges.clear();
    intent.flags |= kIntentWholeFile;
  }
  return intent;
}

Status Sidecar::SetIntent(Intent intent) {
  LZY_RETURN_IF_ERROR(MendTorn());
  intent.uuid = contents_.superblock.uuid;
  intent.generation = generation();
  return PutIntent(std::move(intent));
}

Status Sidecar::MendTorn() {
  return torn_ ? CompletePrepared() : Status::Ok();
}

Status Sidecar::ClearIntent() {
  LZY_RETURN_IF_ERROR(MendTorn());
  return PutIntent(std::nullopt);
}

Status Sidecar::PutIntent(std::optional<Intent> intent) {
  std::optional<Intent> before = std::exchange(intent_, std::move(intent));
  if (fresh_) return Status::Ok();
  Status written = WriteIntentPages();
  if (written.ok()) written = SyncFile();
  if (!written.ok()) intent_ = std::move(before);
  return written;
}

}  // namespace lzy
