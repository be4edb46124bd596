// Reading sidecars: combines several copies, any of which may be damaged.
//
// Steps of ReadEverything: find superblocks (SuperblockFinder); choose the newest generation that is whole (ReadBest); read
// its info record, intent and trees (sidecar/tree_loading) from all copies of that generation (ReadGeneration). Nothing is
// used without its hash, and no count allocates more than the file could contain. So hostile bytes cost at most memory in
// proportion to the size of the file.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/late_file.h"
#include "sidecar/sidecar.h"
#include "sidecar/tree_loading.h"

namespace lzy {
namespace {

// The superblock does not record the number of parity leaves; the length of level 0 does.
std::uint64_t ParityLeavesOf(const std::vector<Extent>& extents) {
  const Extent* e = FindExtent(extents, ExtentKind::kParityLevel, 0);
  return e == nullptr ? 0 : e->length / sizeof(Hash);
}

// Adds `more` to `to`. The union names everything that either may be changing.
void Unite(Intent& to, const Intent& more) {
  // Only if both are of repairs is a difference damage. If anybody else was writing, it is at risk.
  const std::uint32_t both = to.flags & more.flags;
  to.flags = ((to.flags | more.flags) & ~kIntentRepair) | (both & kIntentRepair);
  for (const ByteRange& range : more.ranges) {
    if ((to.flags & kIntentWholeFile) != 0) break;
    if (std::find(to.ranges.begin(), to.ranges.end(), range) == to.ranges.end()) to.ranges.push_back(range);
    if (to.ranges.size() > kMaxIntentRanges) to.flags |= kIntentWholeFile;
  }
  if ((to.flags & kIntentWholeFile) != 0) to.ranges.clear();
}

// Whether the commit of a set that was prepared had been decided: the note in the last intent page says so
// (docs/format.md §9). It must be for this very commit: uuid, generation and wall time.
bool IsDecided(File& file, const Superblock& prepared) {
  const Extent* pages = FindExtent(prepared.extents, ExtentKind::kIntent);
  if (pages == nullptr || pages->length != kIntentPages * kIntentPageSize) return false;
  constexpr std::uint32_t kPage = kIntentPages - 1;
  std::vector<std::uint8_t> page(kIntentPageSize);
  (void)ReadLenient(file, pages->offset + kPage * kIntentPageSize, page);
  const auto decision = DecodeIntent(page, kPage);
  return decision.ok() && (decision->flags & kIntentDecided) != 0 && decision->uuid == prepared.uuid &&
         decision->generation == prepared.generation && decision->wall_time_ns == prepared.wall_time_ns;
}

// Finds the superblocks of a file: one, then the others where it says they are. They may be of several generations.
class SuperblockFinder {
 public:
  SuperblockFinder(File& file, std::uint64_t size) : file_(file), size_(size) {}

  Result<std::map<std::uint32_t, Superblock>> Find() {
    if (auto first = Read(0, 0)) found_[0] = *first;
    // A version number without the right hash may be rot; then the other copies decide.
    if (found_.empty() && newer_for_sure_) return first_failure_;
    if (found_.empty()) TryEveryPlace();
    if (found_.empty()) {
      // The file may be whole, but it cannot be read.
      if (!unreadable_.ok()) return unreadable_;
      if (!seen_magic_) return {Code::kUnprotected, "not an lzy sidecar, or its superblocks are destroyed"};
      if (first_failure_.code() == Code::kNewerFormat) return first_failure_;
      return {Code::kUnprotected, "no usable superblock: " + first_failure_.message()};
    }
    const Superblock any = found_.begin()->second;
    for (std::uint32_t c = 0; c < any.copies; ++c) {
      if (found_.count(c) != 0) continue;
      if (auto other = Read(any.PlaceOf(c), c); other && other->compact == any.compact) found_[c] = *other;
    }
    return std::move(found_);
  }

 private:
  // The superblocks that were found, by uuid and generation, which copies of one sidecar have in common.
  using Candidates = std::map<std::pair<Uuid, std::uint64_t>, std::map<std::uint32_t, Superblock>>;

  // One superblock if it is usable and stands where it says. Otherwise it remembers why the first one was not usable;
  // of all reasons, "newer version" is the one that a user can act on.
  std::optional<Superblock> Read(std::uint64_t offset, std::uint32_t copy) {
    if (offset + kCompactSuperblockSize > size_) return std::nullopt;
    std::vector<std::uint8_t> page(std::min<std::uint64_t>(kSuperblockSize, size_ - offset));
    const Status read = ReadLenient(file_, offset, page);
    if (unreadable_.ok()) unreadable_ = read;
    auto decoded = DecodeSuperblock(page, copy);
    if (decoded.ok()) {
      if (Status placed = CheckExtents(*decoded); !placed.ok()) decoded = placed;
    }
    if (decoded.ok() && decoded->PlaceOf(copy) == offset) return std::move(decoded).value();
    if (!decoded.ok() && decoded.status().code() != Code::kUnprotected) {
      if (!seen_magic_ || decoded.status().code() == Code::kNewerFormat) first_failure_ = decoded.status();
      seen_magic_ = true;
      newer_for_sure_ = decoded.status().code() == Code::kNewerFormat && SuperblockHashed(page, copy);
    }
    return std::nullopt;
  }

  // If the first superblock is lost, others may be at any of these places. The uuid and spacing of most of them count,
  // because parity may contain anything, even a superblock of another file.
  void TryEveryPlace() {
    Candidates candidates;
    for (std::uint64_t step = kMinSpacing; step <= kMaxSpacing && step < size_; step *= 2) {
      for (std::uint32_t c = 1; c <= kMaxGroup && step * c < size_; ++c) {
        if (auto other = Read(step * c, c)) candidates[{other->uuid, other->spacing}].emplace(c, *other);
      }
    }
    TryCompactPlaces(candidates);
    for (auto& [key, superblocks] : candidates) {
      if (superblocks.size() > found_.size()) found_ = superblocks;
    }
  }

  // In the compact form a place does not determine the number of its copy. The superblock contains it, and is hashed with
  // it.
  void TryCompactPlaces(Candidates& candidates) {
    const std::uint64_t end = std::min(size_, kMaxCompactSpacing + kMaxGroup * kCompactPage);
    for (std::uint64_t at = kCompactPage; at < end; at += kCompactStep) {
      constexpr std::size_t kCopyAt = 64;
      std::uint8_t number[4];
      (void)ReadLenient(file_, at + kCopyAt, number);
      const auto copy = LoadLe<std::uint32_t>(number);
      if (copy == 0 || copy > kMaxGroup) continue;
      if (auto other = Read(at, copy); other && other->compact) {
        candidates[{other->uuid, other->spacing}].emplace(copy, *other);
      }
    }
  }

  File& file_;
  const std::uint64_t size_;
  std::map<std::uint32_t, Superblock> found_;
  Status first_failure_{Code::kUnprotected, "no usable superblock"};
  Status unreadable_;  // the first failure to read where a superblock may be
  bool seen_magic_ = false;
  bool newer_for_sure_ = false;
};

// One superblock of each generation that may count, newest first. `prepared` becomes the newest that is only prepared. In a
// set, the other members decide whether a prepared generation counts (docs/format.md §9). If there are only prepared
// superblocks, the page that would have made the generation count was torn, but all its other contents were durable. So it
// counts; in a set, only if that had been decided.
std::vector<const Superblock*> GenerationsOf(File& file, const std::map<std::uint32_t, Superblock>& found,
                                             bool accept_prepared, std::uint64_t& prepared) {
  std::vector<const Superblock*> out;
  const bool nothing_else = std::all_of(found.begin(), found.end(), [&](const auto& one) {
    return one.second.state == SidecarState::kPrepared &&
           (one.second.kind == DatasetKind::kShared || IsDecided(file, one.second));
  });
  for (const auto& [c, sb] : found) {
    if (sb.state == SidecarState::kPrepared) {
      prepared = std::max(prepared, sb.generation);
      if (!accept_prepared && !nothing_else) continue;
    }
    const bool known = std::any_of(out.begin(), out.end(), [&, generation = sb.generation](const auto* one) {
      return one->generation == generation;
    });
    if (!known) out.push_back(&sb);
  }
  std::sort(out.begin(), out.end(), [](const auto* a, const auto* b) { return a->generation > b->generation; });
  return out;
}

}  // namespace

Result<Superblock> AgreedSuperblock(File& file) {
  const auto read = [&](std::uint64_t offset, std::uint32_t copy) -> Result<Superblock> {
    std::vector<std::uint8_t> page(kSuperblockSize);
    LZY_ASSIGN_OR_RETURN(const std::size_t got, file.ReadAt(offset, page));
    return DecodeSuperblock(ByteSpan(page).first(got), copy);
  };
  LZY_ASSIGN_OR_RETURN(const Superblock first, read(0, 0));
  if (first.state == SidecarState::kPrepared) return {Code::kCorrupt, "prepared"};
  for (std::uint32_t copy = 1; copy < first.copies; ++copy) {
    LZY_ASSIGN_OR_RETURN(const Superblock other, read(first.PlaceOf(copy), copy));
    const bool ignored = other.state == SidecarState::kPrepared;  // a generation that was never completed does not count
    if (other.uuid != first.uuid || (!ignored && other.generation != first.generation)) {
      return {Code::kCorrupt, "copies differ"};
    }
  }
  return first;
}

namespace {

// Another node may have written it since this one looked last.
Result<std::shared_ptr<File>> OpenSidecar(FileSystem& fs, const std::string& path, OpenMode mode) {
  LZY_ASSIGN_OR_RETURN(std::shared_ptr<File> file, OpenRefreshed(fs, path, mode, /*follow=*/false));
  ForgetPages(*file);
  return file;
}

}  // namespace

Result<std::unique_ptr<Sidecar>> Sidecar::Load(FileSystem& fs, const std::string& path, OpenMode mode,
                                               bool accept_prepared) {
  LZY_ASSIGN_OR_RETURN(std::shared_ptr<File> file, OpenSidecar(fs, path, mode));
  auto sidecar = Load(std::move(file), mode, accept_prepared);
  if (sidecar.ok()) (*sidecar)->MayReplaceFileIn(fs);
  return sidecar;
}

Result<std::unique_ptr<Sidecar>> Sidecar::LoadPaged(FileSystem& fs, const std::string& path) {
  LZY_ASSIGN_OR_RETURN(std::shared_ptr<File> file, OpenSidecar(fs, path, OpenMode::kRead));
  return Load(std::move(file), OpenMode::kRead, /*accept_prepared=*/false, /*paged=*/true);
}

Result<std::unique_ptr<Sidecar>> Sidecar::Load(std::shared_ptr<File>&& file, OpenMode mode, bool accept_prepared) {
  return Load(std::move(file), mode, accept_prepared, /*paged=*/false);
}

// After a failure the file is returned to the caller, who may hold its lock.
Result<std::unique_ptr<Sidecar>> Sidecar::Load(std::shared_ptr<File>&& file, OpenMode mode, bool accept_prepared,
                                               bool paged) {
  auto sidecar = std::unique_ptr<Sidecar>(new Sidecar());
  sidecar->file_ = std::move(file);
  if (Status read = sidecar->ReadUntilSettled(mode, accept_prepared, paged); !read.ok()) {
    file = std::move(sidecar->file_);
    const bool named = read.message().starts_with(file->path());  // by the file itself
    return named ? read : read.WithContext(file->path());
  }
  return sidecar;
}

// Readers take no lock, so a commit may change the file between two reads. At no moment does a commit leave damage in the
// file (see WriteCopy). So damage counts only if a second reading finds exactly the same.
Status Sidecar::ReadUntilSettled(OpenMode mode, bool accept_prepared, bool paged) {
  using Wrong = std::tuple<std::string, Uuid, std::uint64_t, std::uint64_t, std::vector<MetadataDamage>>;
  constexpr int kReadings = 6;
  std::optional<Wrong> before;
  for (int reading = 0; reading < kReadings; ++reading) {
    const Status read = NoThrow([&] { return ReadEverything(mode, accept_prepared, paged); });
    if (mode != OpenMode::kRead || (read.ok() && damage_.empty())) return read;
    Wrong now(read.message(), contents_.superblock.uuid, generation(), prepared_generation_, damage_);
    if (now == before) return read;
    before = std::move(now);
  }
  return {Code::kBusy, "it was committed again and again while it was read; read it again later"};
}

Status Sidecar::ReadEverything(OpenMode mode, bool accept_prepared, bool paged) {
  contents_ = SidecarContents();  // what another reading may have left
  damage_.clear();
  prepared_generation_ = 0;
  paged_ = paged;
  LZY_ASSIGN_OR_RETURN(const FileStat stat, file_->Stat());
  size_ = stat.size;
  LZY_ASSIGN_OR_RETURN(const Superblocks found, SuperblockFinder(*file_, size_).Find());
  std::uint64_t prepared = 0;
  const std::vector<const Superblock*> candidates = GenerationsOf(*file_, found, accept_prepared, prepared);
  if (candidates.empty()) return {Code::kUnprotected, "only a prepared commit is left, which was never completed"};
  // With several candidates, all of their hashes are needed to find the generation that counts.
  paged_ = paged_ && candidates.size() == 1;
  LZY_ASSIGN_OR_RETURN(const Superblock* best, ReadBest(found, candidates));
  // A prepared generation that counts (see GenerationsOf) is shown as committed. It is completed before an intent is
  // set.
  torn_ = !accept_prepared && best->state == SidecarState::kPrepared;
  if (torn_) contents_.superblock.state = SidecarState::kCommitted;
  if (prepared > best->generation) prepared_generation_ = prepared;
  if (mode != OpenMode::kRead && best->read_only_features != 0) {
    return {Code::kNewerFormat,
            fmt::format("has features {:#x} of a newer version of lzy: this one may read it, but not write it",
                        best->read_only_features)};
  }
  return Status::Ok();
}

// The newest generation that is whole counts. An interrupted commit may have left durable superblocks whose metadata are
// not durable. If none is whole, the newest one that is usable in part counts.
Result<const Superblock*> Sidecar::ReadBest(const Superblocks& found,
                                            const std::vector<const Superblock*>& candidates) {
  Status failure;
  for (const bool must_be_whole : {true, false}) {
    for (const Superblock* candidate : candidates) {
      const Status read = NoThrow([&] { return ReadGeneration(found, *candidate); });
      if (failure.ok()) failure = read;
      if (read.ok() && (!must_be_whole || knows_all_leaves())) return candidate;
    }
  }
  return failure;
}

Status Sidecar::ReadGeneration(const Superblocks& found, const Superblock& best) {
  // An earlier candidate may have left its traces.
  contents_ = SidecarContents();
  contents_.superblock = best;
  damage_.clear();
  unknown_data_.clear();
  unknown_parity_.clear();
  intent_.reset();
  const Copies same = CopiesOf(found, best);
  LZY_RETURN_IF_ERROR(ReadInfo(same, best));
  ReadNodes(same);
  ReadIntent(best);
  // Before the first commit there are no trees.
  return committed() ? ReadTrees(same, best) : Status::Ok();
}

Sidecar::Copies Sidecar::CopiesOf(const Superblocks& found, const Superblock& best) {
  extents_.assign(best.copies, {});
  copy_whole_.assign(best.copies, true);
  Copies same(best.copies, nullptr);
  for (std::uint32_t c = 0; c < best.copies; ++c) {
    const auto at = found.find(c);
    // As long as a generation that counts is only prepared, copy 0 is of the previous one, or its superblock was torn.
    const bool unfinished = c == 0 && best.state == SidecarState::kPrepared;
    if (at == found.end()) {
      copy_whole_[c] = false;
      damage_.push_back({best.PlaceOf(c), best.bytes(), "superblock", 0, unfinished});
      continue;
    }
    const Superblock& own = at->second;
    extents_[c] = own.extents;
    // It must be the same commit, not only the same number: a failed commit may have used the same generation.
    if (own.generation == best.generation && own.uuid == best.uuid && own.data_root == best.data_root &&
        own.parity_root == best.parity_root && own.info_hash == best.info_hash) {
      same[c] = &extents_[c];
      continue;
    }
    copy_whole_[c] = false;
    if (own.state == SidecarState::kPrepared) continue;
    damage_.push_back({best.PlaceOf(c), best.bytes(),
                       own.generation < best.generation ? kOlderSuperblock : "superblock of a broken commit", 0, unfinished});
  }
  // During a commit, or after one that was interrupted just after it began to count, copy 0 has no metadata of its own
  // (MakeCount).
  const Extent* own = same[0] == nullptr ? nullptr : FindExtent(*same[0], ExtentKind::kInfo);
  if (own != nullptr && own->offset >= best.spacing) {
    copy_whole_[0] = false;
    damage_.push_back({0, best.bytes(), "superblock that refers to another copy's metadata", 0, /*unfinished=*/true});
  }
  return same;
}

// Uses any copy with a right hash. Reads all copies, to report damage.
Status Sidecar::ReadInfo(const Copies& same, const Superblock& best) {
  bool have_info = false;
  Status unreadable;
  for (std::uint32_t c = 0; c < best.copies; ++c) {
    if (same[c] == nullptr) continue;
    const Extent* e = FindExtent(*same[c], ExtentKind::kInfo);
    std::vector<std::uint8_t> bytes;
    if (e != nullptr && e->length <= kMaxInfoBytes && e->offset + e->length <= size_) {
      bytes.resize(e->length);
      const Status read = ReadLenient(*file_, e->offset, bytes);
      if (unreadable.ok()) unreadable = read;
    }
    if (e == nullptr || HashBytes(HashTag::kInfo, 0, bytes) != best.info_hash) {
      copy_whole_[c] = false;
      if (e != nullptr) damage_.push_back({e->offset, e->length, "info record"});
      continue;
    }
    if (!have_info) {
      LZY_ASSIGN_OR_RETURN(contents_.info, DecodeInfo(bytes));
      have_info = true;
    }
  }
  if (have_info) return Status::Ok();
  return !unreadable.ok() ? unreadable : Status(Code::kUnprotected, "no copy of the info record is intact");
}

// As ReadInfo, but without this record the nodes are simply not known, as with older versions.
void Sidecar::ReadNodes(const Copies& same) {
  for (std::uint32_t c = 0; c < same.size(); ++c) {
    const Extent* e = same[c] == nullptr ? nullptr : FindExtent(*same[c], ExtentKind::kNodes);
    if (e == nullptr) continue;
    std::vector<std::uint8_t> bytes;
    if (e->length <= kMaxInfoBytes && e->offset + e->length <= size_) {
      bytes.resize(e->length);
      (void)ReadLenient(*file_, e->offset, bytes);
    }
    auto nodes = DecodeNodes(bytes, contents_.info);
    if (!nodes.ok()) {
      copy_whole_[c] = false;
      damage_.push_back({e->offset, e->length, "record of nodes"});
    } else if (contents_.info.written_on.count == 0) {
      contents_.info.written_on = std::move(nodes).value();
    }
  }
}

// Counts are limited by the size of the file before anything is allocated.
Status Sidecar::ReadTrees(const Copies& same, const Superblock& best) {
  const std::uint64_t data_leaves = (best.stamp.size + best.block_size - 1) / best.block_size;
  const std::uint64_t parity_leaves = ParityLeavesOf(best.extents);
  if (data_leaves > size_ / sizeof(Hash) || parity_leaves > size_ / sizeof(Hash)) {
    return {Code::kUnprotected, fmt::format("claims {} data and {} parity hashes, more than its {} bytes can hold",
                                            data_leaves, parity_leaves, size_)};
  }
  if (paged_) {
    LZY_ASSIGN_OR_RETURN(const bool referred, ReferToTrees(same, best));
    if (referred) return Status::Ok();
  }
  TreeResolver data(file_, TreeKind::kData, data_leaves, best.stamp.size, best.data_root);
  data.Resolve(same, ExtentKind::kDataLevel, copy_whole_, damage_);
  unknown_data_ = data.unknown();
  LZY_ASSIGN_OR_RETURN(contents_.data_tree, data.Take());
  TreeResolver parity(file_, TreeKind::kParity, parity_leaves, best.parity_size, best.parity_root);
  parity.Resolve(same, ExtentKind::kParityLevel, copy_whole_, damage_);
  unknown_parity_ = parity.unknown();
  LZY_ASSIGN_OR_RETURN(contents_.parity_tree, parity.Take());
  return Status::Ok();
}

Result<bool> Sidecar::ReferToTrees(const Copies& same, const Superblock& best) {
  const std::uint64_t data_leaves = (best.stamp.size + best.block_size - 1) / best.block_size;
  TreeResolver data(file_, TreeKind::kData, data_leaves, best.stamp.size, best.data_root);
  TreeResolver parity(file_, TreeKind::kParity, ParityLeavesOf(best.extents), best.parity_size, best.parity_root);
  if (!data.Refer(same, ExtentKind::kDataLevel) || !parity.Refer(same, ExtentKind::kParityLevel)) return false;
  LZY_ASSIGN_OR_RETURN(contents_.data_tree, data.Take());
  LZY_ASSIGN_OR_RETURN(contents_.parity_tree, parity.Take());
  return true;
}

// The intent is the union of all pages that are set: later versions may give each process that writes a page of its
// own. Pages of other generations are void. The note of a decision (kIntentDecided) is no intent.
void Sidecar::ReadIntent(const Superblock& superblock) {
  const Extent* e = FindExtent(superblock.extents, ExtentKind::kIntent);
  if (e == nullptr || e->length > kMaxIntentPages * kIntentPageSize) return;
  for (std::uint32_t number = 0; number < e->length / kIntentPageSize; ++number) {
    std::vector<std::uint8_t> page(kIntentPageSize);
    (void)ReadLenient(*file_, e->offset + number * kIntentPageSize, page);
    auto intent = DecodeIntent(page, number);
    if (!intent.ok()) {
      if (std::any_of(page.begin(), page.end(), [](std::uint8_t b) { return b != 0; })) {
        damage_.push_back({e->offset + number * kIntentPageSize, kIntentPageSize, "intent page"});
      }
      continue;
    }
    if (intent->uuid != superblock.uuid || intent->generation != superblock.generation) continue;
    if ((intent->flags & kIntentDecided) != 0) continue;
    if (intent_) Unite(*intent_, *intent);
    if (!intent_) intent_ = std::move(intent).value();
  }
}

}  // namespace lzy
