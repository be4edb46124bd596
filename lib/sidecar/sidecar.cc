#include "sidecar/sidecar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <map>

namespace lzy {
namespace {

constexpr std::size_t kHashBytes = 16;

std::uint64_t RoundUp(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

std::vector<std::uint8_t> LevelBytes(const std::vector<Hash>& level) {
  std::vector<std::uint8_t> out(level.size() * kHashBytes);
  for (std::size_t i = 0; i < level.size(); ++i)
    std::copy(level[i].bytes.begin(), level[i].bytes.end(), &out[i * kHashBytes]);
  return out;
}

std::uint64_t LevelsLength(const Tree& tree) {
  std::uint64_t total = 0;
  for (const auto& level : tree.levels()) total += level.size() * kHashBytes;
  return total;
}

const Extent* FindExtent(const std::vector<Extent>& extents, ExtentKind kind, std::size_t level = 0) {
  for (const Extent& e : extents) {
    if (e.kind == kind && e.level == level) return &e;
  }
  return nullptr;
}

Hash RootOf(TreeKind kind, std::uint64_t leaves, std::uint64_t bytes, const Hash& top) {
  ByteWriter out;
  out.Put(leaves);
  out.Put(bytes);
  out.PutBytes(top.bytes);
  return HashBytes(kind == TreeKind::kData ? HashTag::kDataRoot : HashTag::kParityRoot, 0, out.bytes());
}

Hash NodeOf(TreeKind kind, std::size_t level, std::uint64_t index, ByteSpan children) {
  const auto base = static_cast<std::uint8_t>(kind == TreeKind::kData ? HashTag::kDataNode : HashTag::kParityNode);
  return HashBytes(static_cast<HashTag>(base + level), index, children);
}

std::string HostName() {
  char name[65] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::int64_t WallNowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Reads up to to.size() bytes; what lies past the end or cannot be read is zero, which no hash will vouch for.
void ReadLenient(File& file, std::uint64_t offset, MutableByteSpan to) {
  std::fill(to.begin(), to.end(), std::uint8_t{0});
  if (auto got = file.ReadAt(offset, to); !got.ok()) {
    // One bad sector must not hide its neighbours.
    for (std::size_t at = 0; at < to.size(); at += 4096) {
      MutableByteSpan piece = to.subspan(at, std::min<std::size_t>(4096, to.size() - at));
      if (auto one = file.ReadAt(offset + at, piece); !one.ok()) std::fill(piece.begin(), piece.end(), std::uint8_t{0});
    }
  }
}

// One tree as several copies store it; puts together what the root proves, page by page, top down.
class TreeResolver {
 public:
  TreeResolver(TreeKind kind, std::uint64_t leaves, std::uint64_t bytes, const Hash& root)
      : kind_(kind), bytes_(bytes), root_(root), counts_(Tree::LevelCounts(kind, leaves)) {}

  // `copies[c]` are copy c's extents; nullptr entries are copies that do not take part.
  void Resolve(File& file, const std::vector<const std::vector<Extent>*>& copies, ExtentKind extent_kind,
               std::vector<bool>& copy_whole, std::vector<MetadataDamage>& damage) {
    levels_.resize(counts_.size());
    std::vector<bool> known_parents;
    for (std::size_t level = counts_.size(); level-- > 0;) {
      std::vector<std::vector<std::uint8_t>> stored(copies.size());
      std::vector<std::uint64_t> offsets(copies.size(), 0);
      const std::uint64_t length = counts_[level] * kHashBytes;
      for (std::size_t c = 0; c < copies.size(); ++c) {
        if (copies[c] == nullptr) continue;
        const Extent* e = FindExtent(*copies[c], extent_kind, level);
        if (e == nullptr || e->length != length) {
          copy_whole[c] = false;
          continue;
        }
        stored[c].resize(length);
        offsets[c] = e->offset;
        ReadLenient(file, e->offset, stored[c]);
      }
      std::vector<bool> known(counts_[level], false);
      levels_[level].resize(counts_[level]);
      const bool top = level + 1 == counts_.size();
      const std::uint64_t pages = top ? 1 : counts_[level + 1];
      for (std::uint64_t page = 0; page < pages; ++page) {
        const std::uint64_t first = top ? 0 : page * kPageFanout;
        const std::uint64_t count = top ? counts_[level] : std::min<std::uint64_t>(kPageFanout, counts_[level] - first);
        for (std::size_t c = 0; c < copies.size(); ++c) {
          if (stored[c].empty()) continue;
          ByteSpan bytes(&stored[c][first * kHashBytes], count * kHashBytes);
          const bool right = (top || known_parents[page]) && Matches(level, page, bytes, top);
          if (!right) {
            copy_whole[c] = false;
            damage.push_back({offsets[c] + first * kHashBytes, bytes.size(), "hash page"});
          } else if (!known[first]) {
            for (std::uint64_t i = 0; i < count; ++i) {
              std::copy_n(&bytes[i * kHashBytes], kHashBytes, levels_[level][first + i].bytes.begin());
              known[first + i] = true;
            }
          }
        }
      }
      known_parents = std::move(known);
    }
    for (std::uint64_t i = 0; i < known_parents.size(); ++i) {
      if (!known_parents[i]) unknown_.push_back(i);
    }
  }

  const std::vector<std::uint64_t>& unknown() const { return unknown_; }

  Result<Tree> Take() { return Tree::FromLevels(kind_, std::move(levels_), bytes_); }

 private:
  bool Matches(std::size_t level, std::uint64_t page, ByteSpan bytes, bool top) const {
    if (top) {
      Hash hash;
      std::copy_n(bytes.begin(), kHashBytes, hash.bytes.begin());
      return RootOf(kind_, counts_[0], bytes_, hash) == root_;
    }
    return NodeOf(kind_, level + 1, page, bytes) == levels_[level + 1][page];
  }

  TreeKind kind_;
  std::uint64_t bytes_;
  Hash root_;
  std::vector<std::uint64_t> counts_;
  std::vector<std::vector<Hash>> levels_;
  std::vector<std::uint64_t> unknown_;
};

// Where the parity region begins: behind the copies and the intent pages; on real stripes, at the first device.
std::uint64_t ParityStart(const Superblock& sb) {
  const std::uint64_t align = sb.placement == ParityPlacement::kStriped ? sb.unit * sb.members : kSuperblockSize;
  return RoundUp(sb.spacing * sb.copies + kIntentPages * kIntentPageSize, align);
}

std::uint64_t ParityLeavesOf(const std::vector<Extent>& extents) {
  const Extent* e = FindExtent(extents, ExtentKind::kParityLevel, 0);
  return e == nullptr ? 0 : e->length / kHashBytes;
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------------- load

Result<std::unique_ptr<Sidecar>> Sidecar::Load(FileSystem& fs, const std::string& path, OpenMode mode,
                                               bool accept_prepared) {
  LZY_ASSIGN_OR_RETURN(auto file, fs.Open(path, mode, /*follow=*/false));
  return Load(std::move(file), mode, accept_prepared);
}

Result<std::unique_ptr<Sidecar>> Sidecar::Load(std::unique_ptr<File> file, OpenMode mode, bool accept_prepared) {
  auto sidecar = std::unique_ptr<Sidecar>(new Sidecar());
  sidecar->file_ = std::move(file);
  LZY_ASSIGN_OR_RETURN(const FileStat stat, sidecar->file_->Stat());
  sidecar->size_ = stat.size;
  if (Status read = sidecar->ReadEverything(mode, accept_prepared); !read.ok()) return read.WithContext(sidecar->path());
  return sidecar;
}

Status Sidecar::ReadEverything(OpenMode mode, bool accept_prepared) {
  Status first_failure(Code::kUnprotected, "no usable superblock");
  bool seen_magic = false;
  bool newer_for_sure = false;
  auto read_superblock = [&](std::uint64_t offset, std::uint32_t copy) -> std::optional<Superblock> {
    if (offset + kSuperblockSize > size_) return std::nullopt;
    std::vector<std::uint8_t> page(kSuperblockSize);
    ReadLenient(*file_, offset, page);
    auto decoded = DecodeSuperblock(page, copy);
    if (decoded.ok() && decoded->spacing * copy == offset) return std::move(decoded).value();
    if (!decoded.ok() && decoded.status().code() != Code::kUnprotected) {
      if (!seen_magic || decoded.status().code() == Code::kNewerFormat) first_failure = decoded.status();
      seen_magic = true;
      newer_for_sure = decoded.status().code() == Code::kNewerFormat && SuperblockSealed(page, copy);
    }
    return std::nullopt;
  };

  // Find one superblock, then the others where it says they are. Without the first, every place where one may be is
  // tried, and what most of those found agree on counts: parity may hold a stranger's superblock, as it may hold
  // anything.
  std::map<std::uint32_t, Superblock> found;
  if (auto first = read_superblock(0, 0)) found[0] = *first;
  // A version number without the hash may be rot: then the other copies tell.
  if (found.empty() && newer_for_sure) return first_failure;
  if (found.empty()) {
    std::map<std::pair<Uuid, std::uint64_t>, std::map<std::uint32_t, Superblock>> candidates;
    for (std::uint64_t step = kMinSpacing; step <= kMaxSpacing && step < size_; step *= 2) {
      for (std::uint32_t c = 1; c <= kMaxGroup && step * c < size_; ++c) {
        if (auto other = read_superblock(step * c, c)) candidates[{other->uuid, other->spacing}].emplace(c, *other);
      }
    }
    for (auto& [key, superblocks] : candidates) {
      if (superblocks.size() > found.size()) found = superblocks;
    }
  }
  if (found.empty()) {
    if (!seen_magic) return {Code::kUnprotected, "not an lzy sidecar, or its superblocks are destroyed"};
    if (first_failure.code() == Code::kNewerFormat) return first_failure;
    return {Code::kUnprotected, "no usable superblock: " + first_failure.message()};
  }
  const std::uint64_t spacing = found.begin()->second.spacing;
  const std::uint32_t copies = found.begin()->second.copies;
  for (std::uint32_t c = 0; c < copies; ++c) {
    if (found.count(c) != 0) continue;
    if (auto other = read_superblock(spacing * c, c)) found[c] = *other;
  }

  // The newest generation that is whole counts: the superblocks of one that was cut short may be durable when what they
  // describe is not. When none is whole, the newest of which anything can be had.
  std::vector<const Superblock*> candidates;
  std::uint64_t prepared = 0;
  for (const auto& [c, sb] : found) {
    if (sb.state == SidecarState::kPrepared) {
      prepared = std::max(prepared, sb.generation);
      if (!accept_prepared) continue;
    }
    const bool known = std::any_of(candidates.begin(), candidates.end(), [&, generation = sb.generation](const auto* one) {
      return one->generation == generation;
    });
    if (!known) candidates.push_back(&sb);
  }
  if (candidates.empty()) return {Code::kUnprotected, "only a prepared commit is left, which was never completed"};
  std::sort(candidates.begin(), candidates.end(), [](const auto* a, const auto* b) { return a->generation > b->generation; });
  Status failure;
  const Superblock* best = nullptr;
  for (const bool must_be_whole : {true, false}) {
    for (const Superblock* candidate : candidates) {
      const Status read = ReadGeneration(found, *candidate);
      if (failure.ok()) failure = read;
      if (!read.ok() || (must_be_whole && !(unknown_data_.empty() && unknown_parity_.empty()))) continue;
      best = candidate;
      break;
    }
    if (best != nullptr) break;
  }
  if (best == nullptr) return failure;
  if (prepared > best->generation) prepared_generation_ = prepared;
  if (mode != OpenMode::kRead && best->read_only_features != 0) {
    return {Code::kNewerFormat, fmt::format("has features {:#x} of a newer version of lzy: this one may read it, but not write it",
                                            best->read_only_features)};
  }
  return Status::Ok();
}

Status Sidecar::ReadGeneration(const std::map<std::uint32_t, Superblock>& found, const Superblock& superblock) {
  const Superblock* best = &superblock;
  const std::uint64_t spacing = best->spacing;
  const std::uint32_t copies = best->copies;
  contents_ = SidecarContents();
  contents_.superblock = *best;
  damage_.clear();
  unknown_data_.clear();
  unknown_parity_.clear();
  intent_.reset();

  extents_.assign(copies, {});
  copy_whole_.assign(copies, true);
  std::vector<const std::vector<Extent>*> same(copies, nullptr);
  for (std::uint32_t c = 0; c < copies; ++c) {
    auto at = found.find(c);
    if (at == found.end()) {
      copy_whole_[c] = false;
      damage_.push_back({spacing * c, kSuperblockSize, "superblock"});
      continue;
    }
    extents_[c] = at->second.extents;
    if (at->second.generation == best->generation && at->second.uuid == best->uuid &&
        at->second.data_root == best->data_root && at->second.parity_root == best->parity_root &&
        at->second.info_hash == best->info_hash) {
      same[c] = &extents_[c];
    } else {
      copy_whole_[c] = false;
      if (at->second.state != SidecarState::kPrepared)
        damage_.push_back({spacing * c, kSuperblockSize,
                           at->second.generation < best->generation ? "older superblock" : "superblock of a broken commit"});
    }
  }

  // Info: any copy whose hash is right.
  bool have_info = false;
  for (std::uint32_t c = 0; c < copies; ++c) {
    const Extent* e = same[c] == nullptr ? nullptr : FindExtent(*same[c], ExtentKind::kInfo);
    if (same[c] == nullptr) continue;
    std::vector<std::uint8_t> bytes;
    if (e != nullptr && e->length <= kMaxInfoBytes && e->offset + e->length <= size_) {
      bytes.resize(e->length);
      ReadLenient(*file_, e->offset, bytes);
    }
    if (e == nullptr || HashBytes(HashTag::kInfo, 0, bytes) != best->info_hash) {
      copy_whole_[c] = false;
      if (e != nullptr) damage_.push_back({e->offset, e->length, "info record"});
      continue;
    }
    if (!have_info) {
      LZY_ASSIGN_OR_RETURN(contents_.info, DecodeInfo(bytes));
      have_info = true;
    }
  }
  if (!have_info) return {Code::kUnprotected, "no copy of the info record is intact"};

  ReadIntent(*best);
  if (best->state == SidecarState::kNeverCommitted) return Status::Ok();

  // Trees. Counts are bounded by what the file can hold before anything is allocated.
  const std::uint64_t data_leaves = (best->stamp.size + best->block_size - 1) / best->block_size;
  const std::uint64_t parity_leaves = ParityLeavesOf(best->extents);
  if (data_leaves > size_ / kHashBytes || parity_leaves > size_ / kHashBytes) {
    return {Code::kUnprotected, fmt::format("claims {} data and {} parity hashes, more than its {} bytes can hold",
                                            data_leaves, parity_leaves, size_)};
  }
  TreeResolver data(TreeKind::kData, data_leaves, best->stamp.size, best->data_root);
  data.Resolve(*file_, same, ExtentKind::kDataLevel, copy_whole_, damage_);
  unknown_data_ = data.unknown();
  LZY_ASSIGN_OR_RETURN(contents_.data_tree, data.Take());
  TreeResolver parity(TreeKind::kParity, parity_leaves, best->parity_size, best->parity_root);
  parity.Resolve(*file_, same, ExtentKind::kParityLevel, copy_whole_, damage_);
  unknown_parity_ = parity.unknown();
  LZY_ASSIGN_OR_RETURN(contents_.parity_tree, parity.Take());
  return Status::Ok();
}

// The union of all pages that are set: each process that writes may have one of its own.
void Sidecar::ReadIntent(const Superblock& superblock) {
  const Extent* e = FindExtent(superblock.extents, ExtentKind::kIntent);
  if (e == nullptr || e->length > kMaxIntentPages * kIntentPageSize) return;
  for (std::uint32_t number = 0; number < e->length / kIntentPageSize; ++number) {
    std::vector<std::uint8_t> page(kIntentPageSize);
    ReadLenient(*file_, e->offset + number * kIntentPageSize, page);
    auto intent = DecodeIntent(page, number);
    if (!intent.ok()) {
      if (std::any_of(page.begin(), page.end(), [](std::uint8_t b) { return b != 0; })) {
        damage_.push_back({e->offset + number * kIntentPageSize, kIntentPageSize, "intent page"});
      }
      continue;
    }
    if (intent->uuid != superblock.uuid || intent->generation != superblock.generation) continue;
    if (!intent_) {
      intent_ = std::move(intent).value();
    } else {
      // A repair counts as one only where nobody else was writing.
      const std::uint32_t both = intent_->flags & intent->flags;
      intent_->flags = ((intent_->flags | intent->flags) & ~kIntentRepair) | (both & kIntentRepair);
      for (const ByteRange& range : intent->ranges) {
        if (std::find(intent_->ranges.begin(), intent_->ranges.end(), range) == intent_->ranges.end()) {
          intent_->ranges.push_back(range);
        }
      }
    }
  }
  if (intent_ && intent_->ranges.size() > kMaxIntentRanges) {
    intent_->ranges.clear();
    intent_->flags |= kIntentWholeFile;
  }
}

// --------------------------------------------------------------------------------------------------------------- write

Result<std::unique_ptr<Sidecar>> Sidecar::Create(FileSystem& fs, const std::string& path, const SidecarContents& shape,
                                                 File& like) {
  auto sidecar = std::unique_ptr<Sidecar>(new Sidecar());
  // A leftover of a crash may be there; a link somebody planted must not be followed.
  if (Status removed = fs.Remove(path); !removed.ok() && removed.code() != Code::kNotFound) return removed;
  LZY_ASSIGN_OR_RETURN(sidecar->file_, fs.Open(path, OpenMode::kCreateNew, /*follow=*/false, 0600));
  LZY_RETURN_IF_ERROR(sidecar->file_->CopyAccess(like));
  sidecar->contents_.superblock = shape.superblock;
  sidecar->fresh_ = true;
  LZY_RETURN_IF_ERROR(sidecar->PlanExtents(shape, kMinSpacing));
  return sidecar;
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
    if (committed && sb.parity_size > 0)
      list.push_back({ExtentKind::kParity, 0, 0, parity_at, sb.parity_size, sb.parity_size});
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
      contents_.info.groups != next.info.groups) {
    return false;
  }
  const std::uint64_t metadata = kSuperblockSize + RoundUp(EncodeInfo(next.info).size(), kHashBytes) +
                                 LevelsLength(next.data_tree) + LevelsLength(next.parity_tree);
  return metadata <= a.spacing;
}

void Sidecar::Seal(SidecarContents& contents) const {
  contents.superblock.spacing = contents_.superblock.spacing;
  contents.superblock.copies = contents_.superblock.copies;
  contents.superblock.info_hash = HashBytes(HashTag::kInfo, 0, EncodeInfo(contents.info));
  contents.superblock.data_root = contents.data_tree.Root();
  contents.superblock.parity_root = contents.parity_tree.Root();
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

Status Sidecar::WriteOtherCopies(SidecarContents& contents, SidecarState state) {
  // Copy 0 is the one that stays valid meanwhile; if it is not whole, it is made so first.
  if (!fresh_ && !copy_whole_[0]) {
    // Where it lay may be lost with its superblock, or be of another generation; the place is planned as ever.
    std::vector<std::vector<Extent>> known = extents_;
    LZY_RETURN_IF_ERROR(PlanExtents(contents_, contents_.superblock.spacing));
    known[0] = extents_[0];
    extents_ = std::move(known);
    LZY_RETURN_IF_ERROR(WriteCopy(0, contents_, contents_.superblock.state));
    LZY_RETURN_IF_ERROR(file_->Sync());
    copy_whole_[0] = true;
  }
  LZY_RETURN_IF_ERROR(PlanExtents(contents, contents_.superblock.spacing));
  Seal(contents);
  for (std::uint32_t c = 1; c < extents_.size(); ++c) LZY_RETURN_IF_ERROR(WriteCopy(c, contents, state));
  return fresh_ ? Status::Ok() : file_->Sync();
}

Status Sidecar::Adopt(SidecarContents contents) {
  contents_ = std::move(contents);
  fresh_ = false;
  copy_whole_.assign(extents_.size(), true);
  damage_.clear();
  unknown_data_.clear();
  unknown_parity_.clear();
  if (intent_ && intent_->generation != generation()) intent_.reset();
  prepared_generation_ = 0;
  std::uint64_t end = 0;
  for (const Extent& e : extents_[0]) end = std::max(end, e.offset + e.capacity);
  LZY_ASSIGN_OR_RETURN(const FileStat stat, file_->Stat());
  size_ = stat.size;
  // The file ends where its last extent ends: intent pages and holes at the end of the parity are part of it, what a
  // longer past left behind is not.
  if (size_ != end) {
    LZY_RETURN_IF_ERROR(file_->Truncate(end));
    size_ = end;
  }
  return Status::Ok();
}

Status Sidecar::WriteAll(SidecarContents next) {
  const SidecarState state = next.superblock.state;
  LZY_RETURN_IF_ERROR(WriteOtherCopies(next, state));
  LZY_RETURN_IF_ERROR(WriteCopy(0, next, state));
  LZY_RETURN_IF_ERROR(Adopt(std::move(next)));
  return file_->Sync();
}

Status Sidecar::Prepare(SidecarContents next) {
  LZY_RETURN_IF_ERROR(WriteOtherCopies(next, SidecarState::kPrepared));
  prepared_ = std::move(next);
  return Status::Ok();
}

Status Sidecar::CompletePrepared() {
  prepared_ = contents_;
  return FinishPrepared();
}

Status Sidecar::FinishPrepared() {
  if (!prepared_) return {Code::kInternal, "FinishPrepared without Prepare"};
  SidecarContents next = std::move(*prepared_);
  prepared_.reset();
  // One page makes it count: copy 0's superblock, which for now shares the metadata of copy 1, so that its own, of the
  // generation before, are not touched until then.
  LZY_RETURN_IF_ERROR(WriteSuperblock(0, next, SidecarState::kCommitted, extents_[1]));
  LZY_RETURN_IF_ERROR(file_->Sync());
  for (std::uint32_t c = 1; c < extents_.size(); ++c) {
    LZY_RETURN_IF_ERROR(WriteSuperblock(c, next, SidecarState::kCommitted, extents_[c]));
  }
  LZY_RETURN_IF_ERROR(file_->Sync());
  LZY_RETURN_IF_ERROR(WriteCopy(0, next, SidecarState::kCommitted));
  next.superblock.state = SidecarState::kCommitted;
  LZY_RETURN_IF_ERROR(Adopt(std::move(next)));
  return file_->Sync();
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

Status Sidecar::SetIntent(std::uint32_t flags, const std::vector<ByteRange>& ranges) {
  Intent intent;
  intent.flags = flags;
  intent.wall_time_ns = WallNowNs();
  intent.pid = static_cast<std::uint32_t>(getpid());
  intent.host = HostName();
  intent.ranges = ranges;
  if (ranges.size() > kMaxIntentRanges) {
    intent.ranges.clear();
    intent.flags |= kIntentWholeFile;
  }
  return KeepIntent(std::move(intent));
}

Status Sidecar::KeepIntent(Intent intent) {
  intent.uuid = contents_.superblock.uuid;
  intent.generation = generation();
  LZY_ASSIGN_OR_RETURN(const std::uint64_t at, IntentOffset());
  for (std::uint32_t page = 0; page < kIntentPages; ++page) {
    LZY_RETURN_IF_ERROR(file_->WriteAt(at + page * kIntentPageSize, EncodeIntent(intent, page)));
  }
  LZY_RETURN_IF_ERROR(file_->Sync());
  intent_ = std::move(intent);
  return Status::Ok();
}

Status Sidecar::ClearIntent() {
  const std::vector<std::uint8_t> zeros(kIntentPages * kIntentPageSize, 0);
  LZY_ASSIGN_OR_RETURN(const std::uint64_t at, IntentOffset());
  LZY_RETURN_IF_ERROR(file_->WriteAt(at, zeros));
  intent_.reset();
  return file_->Sync();
}

}  // namespace lzy
