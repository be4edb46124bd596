// Places of the parts of a sidecar in its file, in the ordinary form (docs/format.md §4) and in the compact one (§14).
//
// Ordinary: copies of the metadata, intent pages, parity. Copy c occupies [c*S, (c+1)*S): superblock, info record, tree
// levels. The parity is last, so it may grow.
//
// Compact: copy 0, parity, the other copies, each in pages of its own; then the intent pages, only while an intent is set.
// No part grows, because each commit builds a new file.
//
// Places depend only on the shape of the metadata. So the place of a copy can be computed again if its superblock is lost.

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/numbers.h"
#include "sidecar/sidecar.h"

namespace lzy {
namespace {

constexpr std::uint64_t kIntentBytes = kIntentPages * kIntentPageSize;

struct Places {
  std::uint64_t spacing = 0;
  std::uint64_t parity_at = 0;
  std::uint64_t intent_at = 0;
};

std::uint64_t LevelsLength(const Tree& tree) {
  std::uint64_t total = 0;
  for (const std::uint64_t nodes : tree.counts()) total += nodes * sizeof(Hash);
  return total;
}

// Length of the metadata of one copy.
std::uint64_t MetadataLength(const SidecarContents& contents, std::size_t superblock) {
  return superblock + RoundUp(EncodeInfo(contents.info).size(), sizeof(Hash)) + LevelsLength(contents.data_tree) +
         LevelsLength(contents.parity_tree) + RoundUp(EncodeNodes(contents.info).size(), sizeof(Hash));
}

// Offset of the parity region in the ordinary form: behind the copies and the intent pages. On real stripes it is a
// multiple of a whole round of units, so that unit x of the region is on device x mod D.
std::uint64_t ParityStart(const Superblock& sb) {
  const std::uint64_t align = sb.placement == ParityPlacement::kStriped ? sb.unit * sb.members : kSuperblockSize;
  return RoundUp(sb.spacing * sb.copies + kIntentBytes, align);
}

Places OrdinaryPlaces(const SidecarContents& shape, std::uint64_t least_spacing) {
  Superblock placed = shape.superblock;
  // A power of two, with as much room to grow as bit_ceil happens to give.
  placed.spacing = std::max(least_spacing, std::bit_ceil(MetadataLength(shape, kSuperblockSize)));
  // If the dataset is not small, copies lie in different stripe units, so that they do not share a server.
  if (placed.unit > placed.block_size) placed.spacing = std::max(placed.spacing, placed.unit);
  placed.copies = CopiesOf(placed.kind, placed.parity);
  return {placed.spacing, ParityStart(placed), placed.spacing * placed.copies};
}

// With m = 1 the parity begins in the page of copy 0 and ends in that of copy 1, if there is room. With m > 1 it begins
// with a page: otherwise one bad page would damage two parity blocks of a row.
Places CompactPlaces(const SidecarContents& shape) {
  const Superblock& sb = shape.superblock;
  const std::uint64_t slot =
      MetadataLength(shape, kCompactSuperblockSize) <= kCompactStep ? kCompactStep : kCompactPage;
  Superblock placed = sb;
  placed.compact = true;
  const std::uint64_t parity_at = sb.parity > 1 ? kCompactPage : slot;
  placed.spacing = std::max(kCompactPage, RoundUp(parity_at + sb.parity_here(), slot));
  const std::uint64_t end = placed.PlaceOf(CopiesOf(sb.kind, sb.parity) - 1) + slot;
  return {placed.spacing, parity_at, RoundUp(end, kCompactPage)};
}

}  // namespace

bool Sidecar::FitsCompact(const SidecarContents& shape) {
  const Superblock& sb = shape.superblock;
  const bool small = sb.compact && sb.state == SidecarState::kCommitted && sb.stamp.size <= kMaxCompactData;
  const bool here = sb.placement == ParityPlacement::kPooled || sb.placement == ParityPlacement::kPerDevice;
  // Info, nodes, intent, parity, and the levels of two trees.
  const std::size_t extents = 4 + shape.data_tree.counts().size() + shape.parity_tree.counts().size();
  return small && here && extents <= kMaxCompactExtents &&
         MetadataLength(shape, kCompactSuperblockSize) <= kCompactPage &&
         CompactPlaces(shape).spacing <= kMaxCompactSpacing;
}

Status Sidecar::PlanExtents(const SidecarContents& shape, std::uint64_t least_spacing) {
  Superblock placed = shape.superblock;
  placed.compact = contents_.superblock.compact;
  const Places places = placed.compact ? CompactPlaces(shape) : OrdinaryPlaces(shape, least_spacing);
  placed.spacing = contents_.superblock.spacing = places.spacing;
  placed.copies = contents_.superblock.copies = lzy::CopiesOf(placed.kind, placed.parity);
  extents_.assign(placed.copies, {});
  copy_whole_.resize(placed.copies, false);
  for (std::uint32_t c = 0; c < placed.copies; ++c) {
    std::uint64_t at = placed.PlaceOf(c) + placed.bytes();
    auto& list = extents_[c];
    auto add = [&](ExtentKind kind, std::size_t level, std::uint64_t length) {
      list.push_back({kind, static_cast<std::uint16_t>(level), 0, at, length, length});
      at += RoundUp(length, sizeof(Hash));
    };
    add(ExtentKind::kInfo, 0, EncodeInfo(shape.info).size());
    for (std::size_t l = 0; l < shape.data_tree.counts().size(); ++l) {
      add(ExtentKind::kDataLevel, l, shape.data_tree.counts()[l] * sizeof(Hash));
    }
    for (std::size_t l = 0; l < shape.parity_tree.counts().size(); ++l) {
      add(ExtentKind::kParityLevel, l, shape.parity_tree.counts()[l] * sizeof(Hash));
    }
    if (const std::size_t nodes = EncodeNodes(shape.info).size(); nodes > 0) add(ExtentKind::kNodes, 0, nodes);
    list.push_back({ExtentKind::kIntent, 0, 0, places.intent_at, kIntentBytes, kIntentBytes});
    // A sidecar that was never committed has no parity. Empty parity has no extent.
    const std::uint64_t parity = placed.state == SidecarState::kNeverCommitted ? 0 : placed.parity_here();
    if (parity > 0) list.push_back({ExtentKind::kParity, 0, 0, places.parity_at, parity, parity});
    if (list.size() > placed.max_extents()) return {Code::kInternal, "too many extents for a superblock"};
  }
  return Status::Ok();
}

// In the ordinary form the parity stays if the metadata fit (Fits). In the compact form, copies of the same generation
// are written again at their places. If this version would place them elsewhere, nothing is written.
Status Sidecar::PlanAgain(const SidecarContents& contents) {
  const std::uint64_t spacing = contents_.superblock.spacing, parity_at = ParityFileOffset(0);
  std::vector<std::vector<Extent>> before = extents_;
  LZY_RETURN_IF_ERROR(PlanExtents(contents, spacing));
  if (!contents_.superblock.compact || (contents_.superblock.spacing == spacing && ParityFileOffset(0) == parity_at)) {
    return Status::Ok();
  }
  contents_.superblock.spacing = spacing;
  extents_ = std::move(before);
  return {Code::kNewerFormat, fmt::format("{}: it is not laid out as this version writes it", path())};
}

Status Sidecar::PlanFirstCopy() {
  std::vector<std::vector<Extent>> known = extents_;
  LZY_RETURN_IF_ERROR(PlanAgain(contents_));
  known[0] = extents_[0];
  extents_ = std::move(known);
  return Status::Ok();
}

// Any difference here moves blocks or parity, so all parity would have to be made again: in a new file, not in place.
bool Sidecar::Fits(const SidecarContents& next) const {
  const Superblock& a = contents_.superblock;
  const Superblock& b = next.superblock;
  if (!committed() || a.compact || a.kind != b.kind || a.placement != b.placement || a.block_size != b.block_size ||
      a.unit != b.unit || a.parity != b.parity || a.members != b.members || a.largest_group != b.largest_group ||
      a.rank != b.rank || a.parity_stride != b.parity_stride || a.first_row != b.first_row ||
      contents_.info.groups != next.info.groups || !contents_.info.parts.SameFiles(next.info.parts)) {
    return false;
  }
  return HasRoom(next);
}

bool Sidecar::HasRoom(const SidecarContents& next) const {
  return MetadataLength(next, kSuperblockSize) <= contents_.superblock.spacing;
}

// Cuts or extends the file to the end of its last part. Intent pages (in the compact form only if an intent is set) and
// holes at the end of the parity belong to it; bytes of an earlier, longer state do not.
Status Sidecar::CutToLength() {
  std::uint64_t end = 0;
  for (const Extent& e : extents_[0]) end = std::max(end, e.offset + e.capacity);
  if (contents_.superblock.compact) {
    LZY_ASSIGN_OR_RETURN(const std::uint64_t intent_at, IntentOffset());
    end = intent_at + (intent_ ? kIntentBytes : 0);
  }
  LZY_ASSIGN_OR_RETURN(const FileStat stat, file_->Stat());
  size_ = stat.size;
  if (size_ == end) return Status::Ok();
  LZY_RETURN_IF_ERROR(file_->Truncate(end));
  size_ = end;
  return Status::Ok();
}

std::uint64_t Sidecar::ParityFileOffset(std::uint64_t offset) const {
  const std::vector<Extent>& list =
      extents_.empty() || extents_[0].empty() ? contents_.superblock.extents : extents_[0];
  for (const Extent& e : list) {
    if (e.kind == ExtentKind::kParity && offset >= e.logical && offset - e.logical < e.capacity) {
      return e.offset + (offset - e.logical);
    }
  }
  // Past the recorded end (or without any parity yet): the extent is the last one and grows.
  return ParityStart(contents_.superblock) + offset;
}

Result<std::uint64_t> Sidecar::IntentOffset() const {
  for (const std::vector<Extent>& list : extents_) {
    const Extent* e = FindExtent(list, ExtentKind::kIntent);
    if (e == nullptr) continue;
    if (e->length == kIntentBytes) return e->offset;
    break;
  }
  return {Code::kNewerFormat, fmt::format("{}: its intent pages are not laid out as this version writes them", path())};
}

}  // namespace lzy
