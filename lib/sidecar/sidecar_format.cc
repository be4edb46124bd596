// Encoding and decoding of what docs/format.md specifies: superblock (§4), info record (§5), intent pages (§8).
// Encoders write fields in the order of the tables there. Decoders read in the same order and then check bounds.

#include "sidecar/sidecar_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/node.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// Bits of the compatible features, then of the incompatible ones.
constexpr std::uint64_t kAutomaticBlockSizeFeature = 1;
constexpr std::uint64_t kSealedFeature = 1, kPartedFeature = 2, kCompactFeature = 4;
constexpr std::uint64_t kKnownFeatures = kSealedFeature | kPartedFeature | kCompactFeature;
// Key, seal and time of birth begin so many bytes before the end of a superblock, behind the largest list of extents.
constexpr std::size_t kSealBeforeEnd = 232;

// Superblocks and intent pages have `size` bytes and end with the hash of the bytes before it.
void EndWithHash(ByteWriter& out, std::size_t size, HashTag tag, std::uint64_t index) {
  out.PadTo(size - sizeof(Hash));
  PutRecord(out, HashBytes(tag, index, out.bytes()));
}

bool HasItsHash(ByteSpan page, HashTag tag, std::uint64_t index) {
  const std::size_t hashed = page.size() - sizeof(Hash);
  const auto recorded = DecodeRecord<Hash>(page.subspan(hashed));
  return recorded.ok() && *recorded == HashBytes(tag, index, page.first(hashed));
}

bool IsName(const std::string& text) {
  return text.size() <= kMaxNameBytes;
}

bool IsAbsolute(const std::string& path) {
  return path.starts_with('/') && path.find('\0') == std::string::npos;
}

/// False if the record is malformed, or if it names something that cannot be a part. Parts are opened and written, so a
/// hostile name must not lead to another file of the directory, nor a relative path to one of the working directory.
bool GetParts(ByteReader& in, Parts& parts) {
  GetRecord(in, parts);
  if (parts.directories.empty() || parts.directories.size() > kMaxParts) return false;
  if (!IsName(parts.name) || !IsName(parts.home) || !std::ranges::all_of(parts.directories, IsName)) return false;
  const bool named = parts.name.starts_with(kPartPrefix) &&
                     parts.name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
  return in.ok() && named && std::ranges::all_of(parts.directories, IsAbsolute);
}

Status Impossible(const char* field, std::uint64_t value) {
  return {Code::kCorrupt, fmt::format("superblock has impossible {} {}", field, value)};
}

// The bounds of docs/format.md §4, in groups. The hash of a page does not make them true: anybody can compute XXH3.
Status CheckPlaces(const Superblock& sb) {
  if (sb.copies != CopiesOf(sb.kind, sb.parity)) return Impossible("copy count", sb.copies);
  if (sb.copy >= sb.copies) return Impossible("copy number", sb.copy);
  if (sb.compact) {
    const bool near = sb.spacing >= kCompactPage && sb.spacing <= kMaxCompactSpacing;
    return near && sb.spacing % kCompactStep == 0 ? Status::Ok() : Impossible("place of copy 1", sb.spacing);
  }
  if (!std::has_single_bit(sb.spacing) || sb.spacing < kMinSpacing || sb.spacing > kMaxSpacing) {
    return Impossible("spacing", sb.spacing);
  }
  return Status::Ok();
}

// Later code divides by these, so zero must be refused here.
Status CheckGeometry(const Superblock& sb) {
  if (!std::has_single_bit(sb.block_size) || sb.block_size < kMinBlockSize || sb.block_size > kMaxBlockSize) {
    return Impossible("block size", sb.block_size);
  }
  if (!std::has_single_bit(sb.unit) || sb.unit < sb.block_size || sb.unit > kMaxUnit)
    return Impossible("unit", sb.unit);
  if (sb.largest_group < 1 || sb.largest_group > kMaxGroup) return Impossible("group size", sb.largest_group);
  if (sb.parity >= sb.largest_group) return Impossible("parity", sb.parity);
  if (sb.members < 1 || sb.members > kMaxMembers) return Impossible("number of devices", sb.members);
  return Status::Ok();
}

// Conditions that hold only after a first commit; before that, most fields are meaningless.
Status CheckCommitted(const Superblock& sb) {
  if (sb.generation == 0 || sb.generation > kMaxGeneration) return Impossible("generation", sb.generation);
  if (sb.largest_group > sb.members) return Impossible("group size", sb.largest_group);
  if (sb.rank >= (sb.kind == DatasetKind::kSet ? sb.members : sb.parted() ? sb.members + 1 : 1))
    return Impossible("rank", sb.rank);
  if (sb.parted() && sb.members > kMaxParts) return Impossible("number of device directories", sb.members);
  if ((sb.kind == DatasetKind::kSet) != (sb.placement == ParityPlacement::kPerDevice)) {
    return Impossible("placement", static_cast<std::uint32_t>(sb.placement));
  }
  if (sb.stamp.size > kMaxFileSize) return Impossible("file size", sb.stamp.size);
  if (sb.parity_size > kMaxFileSize) return Impossible("parity size", sb.parity_size);
  if (sb.parity_size > 0 && sb.parity == 0) return Impossible("parity size", sb.parity_size);
  if (sb.parity_size > 0 && (sb.parity_stride < 1 || sb.parity_stride > sb.unit)) {
    return Impossible("parity stride", sb.parity_stride);
  }
  if (sb.first_row > kMaxFileSize) return Impossible("first row", sb.first_row);
  return Status::Ok();
}

Status CheckFields(const Superblock& sb) {
  const auto state = static_cast<std::uint32_t>(sb.state);
  if (state < 1 || state > 3) return Impossible("state", state);
  const auto kind = static_cast<std::uint32_t>(sb.kind);
  if (kind < 1 || kind > 2) return Impossible("kind", kind);
  const auto placement = static_cast<std::uint32_t>(sb.placement);
  if (placement < 1 || placement > 4) return Impossible("placement", placement);
  LZY_RETURN_IF_ERROR(CheckGeometry(sb));
  LZY_RETURN_IF_ERROR(CheckPlaces(sb));
  // A compact sidecar is never prepared in place, and only small files have one.
  if (sb.compact && (sb.state != SidecarState::kCommitted || placement > 2)) {
    return Impossible("state of the compact form", state);
  }
  if (sb.state != SidecarState::kNeverCommitted) return CheckCommitted(sb);
  if (sb.generation != 0 || sb.stamp.size != 0 || sb.parity_size != 0) {
    return Impossible("generation or size of what was never committed", sb.generation);
  }
  return Status::Ok();
}

}  // namespace

// No seeded generator: ranks that start at the same moment must not draw the same number.
Uuid NewUuid() {
  auto uuid = DrawRandom<Uuid>();
  uuid[6] = static_cast<std::uint8_t>((uuid[6] & 0x0f) | 0x40);  // RFC 4122 version 4
  uuid[8] = static_cast<std::uint8_t>((uuid[8] & 0x3f) | 0x80);
  return uuid;
}

std::string UuidText(const Uuid& uuid) {
  std::string out;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += fmt::format("{:02x}", uuid[i]);
  }
  return out;
}

std::uint64_t PartBytes(std::uint64_t size, std::uint64_t unit, std::uint32_t parts, std::uint32_t part) {
  // Whole units are dealt round robin. The short last unit goes to the part that would get the next one.
  const std::uint64_t whole = size / unit, rest = size % unit;
  const std::uint64_t mine = whole / parts + (part < whole % parts ? 1 : 0);
  return mine * unit + (whole % parts == part ? rest : 0);
}

std::uint64_t Superblock::parity_here() const {
  if (!parted()) return parity_size;
  return rank == 0 ? 0 : PartBytes(parity_size, unit, members, rank - 1);
}

// In the compact form the first two copies lie around the parity, the others in the pages that follow.
std::uint64_t Superblock::PlaceOf(std::uint32_t c) const {
  if (!compact || c <= 1) return spacing * c;
  return (spacing / kCompactPage + c - 1) * kCompactPage;
}

const Extent* FindExtent(const std::vector<Extent>& extents, ExtentKind kind, std::size_t level) {
  for (const Extent& e : extents) {
    if (e.kind == kind && e.level == level) return &e;
  }
  return nullptr;
}

std::uint32_t CopiesOf(DatasetKind kind, std::uint32_t parity) {
  return kind == DatasetKind::kShared ? std::max<std::uint32_t>(2, parity + 1) : 2;
}

// Called after DecodeSuperblock, which has bounded each extent alone.
Status CheckExtents(const Superblock& sb) {
  // Writes in place must not overwrite another extent or the superblock of any copy. Collect all reserved ranges, sort
  // them, and compare neighbours. Kinds of a later version are skipped.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
  for (std::uint32_t c = 0; c < sb.copies; ++c) taken.emplace_back(sb.PlaceOf(c), sb.PlaceOf(c) + sb.bytes());
  std::size_t parity = 0, intent = 0;
  std::uint64_t intent_at = 0;
  for (const Extent& e : sb.extents) {
    if (e.kind < ExtentKind::kInfo || e.kind > ExtentKind::kNodes) continue;
    if (e.capacity > 0) taken.emplace_back(e.offset, e.offset + e.capacity);
    if (e.kind == ExtentKind::kIntent) intent_at = e.offset;
    if (e.kind == ExtentKind::kIntent && ++intent > 1) return Impossible("number of intent extents", intent);
    if (e.kind != ExtentKind::kParity) continue;
    if (++parity > 1) return Impossible("number of parity extents", parity);
    if (e.logical != 0 || e.length != sb.parity_here()) return Impossible("parity extent length", e.length);
  }
  if (parity != (sb.parity_here() > 0 ? 1 : 0)) return Impossible("number of parity extents", parity);
  std::sort(taken.begin(), taken.end());
  for (std::size_t i = 1; i < taken.size(); ++i) {
    if (taken[i].first < taken[i - 1].second) return Impossible("extents, which overlap at", taken[i].first);
  }
  // A compact sidecar is cut where its intent pages begin.
  const bool last = intent_at == taken.back().first && intent_at % kCompactPage == 0;
  if (sb.compact && intent > 0 && !last) return Impossible("place of intent pages", intent_at);
  return Status::Ok();
}

// Includes only fields that follow from data and geometry: no names, times or uuid. So equal data protected in the same way
// have equal dataset roots (docs/design/overview.md §11).
Hash DatasetRootOf(const Superblock& sb, const Hash& members_root) {
  ByteWriter out;
  out.Put(static_cast<std::uint32_t>(sb.kind));
  out.Put(sb.block_size);
  out.Put(sb.unit);
  out.Put(sb.largest_group);
  out.Put(sb.parity);
  out.Put<std::uint64_t>(sb.kind == DatasetKind::kSet ? sb.members : 1);
  out.PutBytes(members_root.bytes);
  return HashBytes(HashTag::kDatasetRoot, 0, out.bytes());
}

namespace {

std::uint64_t FeaturesOf(const Superblock& sb) {
  return (sb.sealed() ? kSealedFeature : 0) | (sb.parted() ? kPartedFeature : 0) | (sb.compact ? kCompactFeature : 0);
}

}  // namespace

// The table of docs/format.md §4, in its order. Parts of the page that are not written stay zero.
std::vector<std::uint8_t> EncodeSuperblock(const Superblock& sb) {
  ByteWriter out;
  out.PutBytes(kSuperblockMagic);
  out.Put(kByteOrderMark);
  out.Put(sb.compact ? kCompactFormatMajor : kFormatMajor);
  out.Put(kFormatMinor);
  out.Put(sb.automatic_block_size ? kAutomaticBlockSizeFeature : std::uint64_t{0});
  out.Put(sb.read_only_features);
  out.Put(FeaturesOf(sb));
  PutRecord(out, sb);
  out.Put(static_cast<std::uint32_t>(sb.extents.size()));
  out.Put<std::uint32_t>(0);
  for (const Extent& e : sb.extents) {
    out.Put(static_cast<std::uint16_t>(e.kind));
    out.Put(e.level);
    out.Put<std::uint32_t>(0);
    out.Put(e.logical);
    out.Put(e.offset);
    out.Put(e.length);
    out.Put(e.capacity);
  }
  out.PadTo(sb.bytes() - kSealBeforeEnd);
  out.PutBytes(sb.key_id);
  out.PutBytes(sb.seal);
  out.Put(sb.stamp.birth_ns);
  EndWithHash(out, sb.bytes(), HashTag::kSuperblock, sb.copy);
  return std::move(out.bytes());
}

// Fields that differ between copies or that a repair may change are set to fixed values (docs/format.md §12, item 1).
// The minor version is among them: a later lzy that writes the copies again must not break the seal.
std::vector<std::uint8_t> SealedPartOf(const Superblock& superblock) {
  Superblock plain = superblock;
  plain.copy = 0;
  plain.spacing = 0;
  plain.compact = false;  // the seal does not depend on the form
  plain.automatic_block_size = false;
  plain.state = SidecarState::kCommitted;
  plain.extents.clear();
  plain.seal = {};
  auto page = EncodeSuperblock(plain);
  page.resize(kSuperblockSize - sizeof(Hash));
  constexpr std::size_t kMinorAt = 14;
  StoreLe<std::uint16_t>(&page[kMinorAt], 0);
  return page;
}

bool SuperblockHashed(ByteSpan page, std::uint32_t copy) {
  const auto has = [&](std::size_t size) {
    return page.size() >= size && HasItsHash(page.first(size), HashTag::kSuperblock, copy);
  };
  return has(kSuperblockSize) || has(kCompactSuperblockSize);
}

namespace {

Status GetExtents(ByteReader& in, std::uint32_t count, std::size_t most, std::vector<Extent>& extents) {
  if (count > most) return Impossible("extent count", count);
  for (std::uint32_t i = 0; i < count; ++i) {
    Extent& e = extents.emplace_back();
    e.kind = static_cast<ExtentKind>(in.Get<std::uint16_t>());
    e.level = in.Get<std::uint16_t>();
    in.Skip(4);
    e.logical = in.Get<std::uint64_t>();
    e.offset = in.Get<std::uint64_t>();
    e.length = in.Get<std::uint64_t>();
    e.capacity = in.Get<std::uint64_t>();
    // With these bounds offset + capacity cannot overflow.
    if (e.offset > kMaxFileSize || e.length > e.capacity || e.capacity > kMaxFileSize) {
      return Impossible("extent offset", e.offset);
    }
  }
  return Status::Ok();
}

}  // namespace

Result<Superblock> DecodeSuperblock(ByteSpan page, std::uint32_t copy) {
  // First what decides whether this version can read the page at all; then the hash; then the fields.
  if (page.size() < kCompactSuperblockSize) return {Code::kUnprotected, "shorter than a superblock"};
  if (!std::equal(kSuperblockMagic.begin(), kSuperblockMagic.end(), page.begin())) {
    return {Code::kUnprotected, "no lzy superblock (wrong magic number)"};
  }
  ByteReader in(page);
  in.Skip(kSuperblockMagic.size());
  const auto order = in.Get<std::uint32_t>();
  const auto major = in.Get<std::uint16_t>();
  in.Skip(2);  // minor version: never changes the meaning of these fields
  const auto compatible = in.Get<std::uint64_t>();
  const auto read_only_features = in.Get<std::uint64_t>();
  const auto incompatible = in.Get<std::uint64_t>();
  // The form says where the hash is. If this bit is corrupt, the hash is looked for in the wrong place, and is wrong.
  const bool compact = (incompatible & kCompactFeature) != 0;
  const std::size_t size = compact ? kCompactSuperblockSize : kSuperblockSize;
  if (page.size() < size) return {Code::kUnprotected, "shorter than a superblock"};
  page = page.first(size);
  const bool hashed = HasItsHash(page, HashTag::kSuperblock, copy);
  // A newer major version may hash its superblock in another way. So its number is believed without the hash. The page
  // is refused either way, and "newer version" is the more useful answer.
  if (order == 0x04030201) return {Code::kNewerFormat, "written on a machine of the other byte order"};
  if (!hashed && (order != kByteOrderMark || major <= kCompactFormatMajor)) {
    return {Code::kCorrupt, "superblock does not have the hash it records"};
  }
  if (major > kCompactFormatMajor) {
    return {Code::kNewerFormat, fmt::format("format version {}; this lzy knows up to {}", major, kCompactFormatMajor)};
  }
  if (const std::uint64_t unknown = incompatible & ~kKnownFeatures; unknown != 0) {
    return {Code::kNewerFormat, fmt::format("needs features {:#x} of a newer version of lzy", unknown)};
  }
  if (compact != (major == kCompactFormatMajor)) return Impossible("version for its form", major);
  Superblock sb;
  sb.automatic_block_size = (compatible & kAutomaticBlockSizeFeature) != 0;
  sb.read_only_features = read_only_features;
  sb.compact = compact;
  GetRecord(in, sb);
  const auto extents = in.Get<std::uint32_t>();
  in.Skip(4);
  if (sb.copy != copy) return Impossible("copy number", sb.copy);
  LZY_RETURN_IF_ERROR(GetExtents(in, extents, sb.max_extents(), sb.extents));
  if (!in.ok()) return {Code::kCorrupt, "superblock ends early"};
  // Feature bits and fields must agree: other readers may go by the bits alone.
  ByteReader at_the_end(page.subspan(size - kSealBeforeEnd));
  GetRecord(at_the_end, sb.key_id);
  GetRecord(at_the_end, sb.seal);
  GetRecord(at_the_end, sb.stamp.birth_ns);
  if (FeaturesOf(sb) != incompatible) return Impossible("feature set", incompatible);
  LZY_RETURN_IF_ERROR(CheckFields(sb));
  return sb;
}

// docs/format.md §5. The record of device directories is at the end, and only there if there are any.
std::vector<std::uint8_t> EncodeInfo(const InfoRecord& info) {
  ByteWriter out;
  PutRecord(out, info);
  if (!info.parts.directories.empty()) PutRecord(out, info.parts);
  return std::move(out.bytes());
}

Result<InfoRecord> DecodeInfo(ByteSpan bytes) {
  const Status corrupt(Code::kCorrupt, "info record is malformed");
  ByteReader in(bytes);
  InfoRecord info;
  GetRecord(in, info);
  const auto wrong = [](const MemberRecord& one) {
    return !IsName(one.domain) || one.size > kMaxFileSize || one.parity_size > kMaxFileSize;
  };
  if (!IsName(info.name) || info.members.size() > kMaxGroup || std::ranges::any_of(info.members, wrong)) return corrupt;
  if (std::ranges::any_of(info.groups, [](const auto& group) { return group.empty() || group.size() > kMaxGroup; })) return corrupt;
  // The tree over members is binary: at most 64 levels, with at most two hashes in a page.
  const auto& pages = info.path.pages;
  if (pages.size() > 64 || std::ranges::any_of(pages, [](const auto& page) { return page.size() > 2; })) return corrupt;
  if (in.ok() && in.remaining() > 0 && !GetParts(in, info.parts)) return corrupt;
  if (!in.ok()) return corrupt;
  // The name is joined to a directory that the user named. It must not lead out of it.
  if (info.name.empty() || info.name.front() == '/' || info.name.find('\0') != std::string::npos ||
      ("/" + info.name + "/").find("/../") != std::string::npos) {
    return {Code::kCorrupt,
            fmt::format("info record names '{}', which may lead outside its directory: refused", info.name)};
  }
  return info;
}

// Most often a member's failure domain is its node, so nothing is written twice.
std::vector<std::uint8_t> EncodeNodes(const InfoRecord& info) {
  const WrittenOn& on = info.written_on;
  if (on.count == 0) return {};
  const bool as_domains = std::ranges::equal(on.nodes, info.members, {}, {}, &MemberRecord::domain);
  ByteWriter out;
  out.Put(on.count);
  PutRecord(out, as_domains ? std::vector<std::string>() : on.nodes);
  PutRecord(out, HashBytes(HashTag::kNodes, 0, out.bytes()));
  return std::move(out.bytes());
}

Result<WrittenOn> DecodeNodes(ByteSpan bytes, const InfoRecord& info) {
  const Status corrupt(Code::kCorrupt, "info record is malformed");
  if (bytes.size() < sizeof(Hash) || !HasItsHash(bytes, HashTag::kNodes, 0)) return corrupt;
  ByteReader in(bytes.first(bytes.size() - sizeof(Hash)));
  WrittenOn on;
  on.count = in.Get<std::uint32_t>();
  GetRecord(in, on.nodes);
  if (!in.ok() || in.remaining() > 0 || on.count == 0 || !std::ranges::all_of(on.nodes, IsName)) return corrupt;
  if (on.nodes.empty()) std::ranges::transform(info.members, std::back_inserter(on.nodes), &MemberRecord::domain);
  if (on.nodes.size() != info.members.size()) return corrupt;
  return on;
}

std::vector<std::uint8_t> EncodeIntent(const Intent& intent, std::uint32_t page) {
  ByteWriter out;
  const std::string_view magic = "LZYINTNT";
  out.PutBytes(ByteSpan(reinterpret_cast<const std::uint8_t*>(magic.data()), magic.size()));
  out.PutBytes(intent.uuid);
  out.Put(intent.generation);
  out.Put(intent.flags);
  out.Put(static_cast<std::uint32_t>(intent.ranges.size()));
  out.Put(intent.wall_time_ns);
  out.Put(intent.pid);
  out.PutString(std::string_view(intent.host).substr(0, 64));
  out.PadTo(120);  // the end of the longest host; ranges have a fixed place
  for (const ByteRange& range : intent.ranges) PutRecord(out, range);
  EndWithHash(out, kIntentPageSize, HashTag::kIntent, page);
  return std::move(out.bytes());
}

// An old, torn or empty page has no right hash, so it is no intent. Its fields are still checked, like all others.
Result<Intent> DecodeIntent(ByteSpan page, std::uint32_t number) {
  const Status corrupt(Code::kCorrupt, "no valid intent page");
  if (page.size() < kIntentPageSize || std::memcmp(page.data(), "LZYINTNT", 8) != 0 ||
      !HasItsHash(page.first(kIntentPageSize), HashTag::kIntent, number)) {
    return corrupt;
  }
  ByteReader in(page);
  in.Skip(8);
  Intent intent;
  GetRecord(in, intent.uuid);
  intent.generation = in.Get<std::uint64_t>();
  intent.flags = in.Get<std::uint32_t>();
  const auto ranges = in.Get<std::uint32_t>();
  intent.wall_time_ns = in.Get<std::int64_t>();
  intent.pid = in.Get<std::uint32_t>();
  intent.host = in.GetString(64);
  if (!in.ok() || ranges > kMaxIntentRanges) return corrupt;
  ByteReader list(page.subspan(120));
  intent.ranges.resize(ranges);
  for (ByteRange& range : intent.ranges) GetRecord(list, range);
  return intent;
}

}  // namespace lzy
