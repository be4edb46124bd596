#include "sidecar/sidecar_format.h"

#include <fmt/format.h>

#include <bit>
#include <random>

namespace lzy {
namespace {

constexpr std::size_t kHashedPart = 4080;  // superblocks and intent pages end with the hash of what is before it

void PutHash(ByteWriter& out, const Hash& hash) {
  out.PutBytes(hash.bytes);
}

Hash GetHash(ByteReader& in) {
  Hash hash;
  ByteSpan raw = in.GetBytes(hash.bytes.size());
  if (raw.size() == hash.bytes.size()) std::copy(raw.begin(), raw.end(), hash.bytes.begin());
  return hash;
}

Uuid GetUuid(ByteReader& in) {
  Uuid uuid{};
  ByteSpan raw = in.GetBytes(uuid.size());
  if (raw.size() == uuid.size()) std::copy(raw.begin(), raw.end(), uuid.begin());
  return uuid;
}

void SealPage(ByteWriter& out, HashTag tag, std::uint64_t index) {
  out.PadTo(kHashedPart);
  PutHash(out, HashBytes(tag, index, out.bytes()));
}

bool PageSealed(ByteSpan page, HashTag tag, std::uint64_t index) {
  ByteReader tail(page.subspan(kHashedPart));
  return GetHash(tail) == HashBytes(tag, index, page.first(kHashedPart));
}

Status Impossible(const char* field, std::uint64_t value) {
  return {Code::kCorrupt, fmt::format("superblock has impossible {} {}", field, value)};
}

Status CheckFields(const Superblock& sb) {
  if (sb.copies < 2 || sb.copies > 256) return Impossible("copy count", sb.copies);
  if (!std::has_single_bit(sb.spacing) || sb.spacing < kMinSpacing || sb.spacing > kMaxSpacing) {
    return Impossible("spacing", sb.spacing);
  }
  const auto state = static_cast<std::uint32_t>(sb.state);
  if (state < 1 || state > 3) return Impossible("state", state);
  const auto kind = static_cast<std::uint32_t>(sb.kind);
  if (kind < 1 || kind > 2) return Impossible("kind", kind);
  const auto placement = static_cast<std::uint32_t>(sb.placement);
  if (placement < 1 || placement > 3) return Impossible("placement", placement);
  if (!std::has_single_bit(sb.block_size) || sb.block_size < kMinBlockSize || sb.block_size > kMaxBlockSize) {
    return Impossible("block size", sb.block_size);
  }
  if (!std::has_single_bit(sb.unit) || sb.unit < sb.block_size || sb.unit > kMaxUnit)
    return Impossible("unit", sb.unit);
  if (sb.largest_group > kMaxGroup) return Impossible("group size", sb.largest_group);
  if (sb.parity != 0 && sb.parity >= sb.largest_group) return Impossible("parity", sb.parity);
  if (sb.stamp.size > (1ull << 62)) return Impossible("file size", sb.stamp.size);
  if (sb.parity_size > (1ull << 62)) return Impossible("parity size", sb.parity_size);
  return Status::Ok();
}

}  // namespace

Uuid NewUuid() {
  std::random_device entropy;
  Uuid uuid;
  for (auto& byte : uuid) byte = static_cast<std::uint8_t>(entropy());
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

const Extent* FindExtent(const std::vector<Extent>& extents, ExtentKind kind, std::size_t level) {
  for (const Extent& e : extents) {
    if (e.kind == kind && e.level == level) return &e;
  }
  return nullptr;
}

std::vector<std::uint8_t> EncodeSuperblock(const Superblock& sb) {
  ByteWriter out;
  out.PutBytes(kSuperblockMagic);
  out.Put(kByteOrderMark);
  out.Put(kFormatMajor);
  out.Put(kFormatMinor);
  out.Put<std::uint64_t>(0);  // compatible features
  out.Put(sb.read_only_features);
  out.Put<std::uint64_t>(0);  // incompatible
  out.PutBytes(sb.uuid);
  out.Put(sb.generation);
  out.Put(sb.copy);
  out.Put(sb.copies);
  out.Put(sb.spacing);
  out.Put(static_cast<std::uint32_t>(sb.state));
  out.Put(static_cast<std::uint32_t>(sb.kind));
  out.Put(static_cast<std::uint32_t>(sb.placement));
  out.Put(sb.block_size);
  out.Put(sb.unit);
  out.Put(sb.parity);
  out.Put(sb.members);
  out.Put(sb.largest_group);
  out.Put(sb.rank);
  out.Put(sb.commit_clock_ns);
  out.Put(sb.wall_time_ns);
  out.Put(sb.stamp.size);
  out.Put(sb.stamp.mtime_ns);
  out.Put(sb.stamp.inode);
  out.Put(sb.stamp.device);
  out.Put(sb.parity_size);
  out.Put(sb.parity_stride);
  out.Put(sb.first_row);
  PutHash(out, sb.data_root);
  PutHash(out, sb.parity_root);
  PutHash(out, sb.dataset_root);
  PutHash(out, sb.info_hash);
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
  SealPage(out, HashTag::kSuperblock, sb.copy);
  return std::move(out.bytes());
}

bool SuperblockSealed(ByteSpan page, std::uint32_t copy) {
  return page.size() >= kSuperblockSize && PageSealed(page.first(kSuperblockSize), HashTag::kSuperblock, copy);
}

Result<Superblock> DecodeSuperblock(ByteSpan page, std::uint32_t copy) {
  if (page.size() < kSuperblockSize) return {Code::kUnprotected, "shorter than a superblock"};
  page = page.first(kSuperblockSize);
  if (!std::equal(kSuperblockMagic.begin(), kSuperblockMagic.end(), page.begin())) {
    return {Code::kUnprotected, "no lzy superblock (wrong magic number)"};
  }
  ByteReader in(page);
  in.Skip(kSuperblockMagic.size());
  const auto order = in.Get<std::uint32_t>();
  const auto major = in.Get<std::uint16_t>();
  in.Skip(2);  // minor: never changes the meaning of what is here
  in.Skip(8);  // compatible features
  const auto read_only_features = in.Get<std::uint64_t>();
  const auto incompatible = in.Get<std::uint64_t>();
  const bool sealed = PageSealed(page, HashTag::kSuperblock, copy);
  // A newer major version may seal its superblock in another way, so its number is believed without the hash: the
  // answer is a refusal either way, and "newer version" is the more useful one.
  if (order == 0x04030201) return {Code::kNewerFormat, "written on a machine of the other byte order"};
  if (!sealed && (order != kByteOrderMark || major <= kFormatMajor)) {
    return {Code::kCorrupt, "superblock does not have the hash it records"};
  }
  if (major > kFormatMajor) {
    return {Code::kNewerFormat, fmt::format("format version {}; this lzy knows up to {}", major, kFormatMajor)};
  }
  if (incompatible != 0) {
    return {Code::kNewerFormat, fmt::format("needs features {:#x} of a newer version of lzy", incompatible)};
  }
  Superblock sb;
  sb.read_only_features = read_only_features;
  sb.uuid = GetUuid(in);
  sb.generation = in.Get<std::uint64_t>();
  sb.copy = in.Get<std::uint32_t>();
  sb.copies = in.Get<std::uint32_t>();
  sb.spacing = in.Get<std::uint64_t>();
  sb.state = static_cast<SidecarState>(in.Get<std::uint32_t>());
  sb.kind = static_cast<DatasetKind>(in.Get<std::uint32_t>());
  sb.placement = static_cast<ParityPlacement>(in.Get<std::uint32_t>());
  sb.block_size = in.Get<std::uint32_t>();
  sb.unit = in.Get<std::uint64_t>();
  sb.parity = in.Get<std::uint32_t>();
  sb.members = in.Get<std::uint32_t>();
  sb.largest_group = in.Get<std::uint32_t>();
  sb.rank = in.Get<std::uint32_t>();
  sb.commit_clock_ns = in.Get<std::int64_t>();
  sb.wall_time_ns = in.Get<std::int64_t>();
  sb.stamp.size = in.Get<std::uint64_t>();
  sb.stamp.mtime_ns = in.Get<std::int64_t>();
  sb.stamp.inode = in.Get<std::uint64_t>();
  sb.stamp.device = in.Get<std::uint64_t>();
  sb.parity_size = in.Get<std::uint64_t>();
  sb.parity_stride = in.Get<std::uint64_t>();
  sb.first_row = in.Get<std::uint64_t>();
  sb.data_root = GetHash(in);
  sb.parity_root = GetHash(in);
  sb.dataset_root = GetHash(in);
  sb.info_hash = GetHash(in);
  const auto extents = in.Get<std::uint32_t>();
  in.Skip(4);
  if (sb.copy != copy) return Impossible("copy number", sb.copy);
  if (extents > kMaxExtents) return Impossible("extent count", extents);
  for (std::uint32_t i = 0; i < extents; ++i) {
    Extent e;
    e.kind = static_cast<ExtentKind>(in.Get<std::uint16_t>());
    e.level = in.Get<std::uint16_t>();
    in.Skip(4);
    e.logical = in.Get<std::uint64_t>();
    e.offset = in.Get<std::uint64_t>();
    e.length = in.Get<std::uint64_t>();
    e.capacity = in.Get<std::uint64_t>();
    if (e.offset > (1ull << 62) || e.length > e.capacity || e.capacity > (1ull << 62)) {
      return Impossible("extent offset", e.offset);
    }
    sb.extents.push_back(e);
  }
  if (!in.ok()) return {Code::kCorrupt, "superblock ends early"};
  LZY_RETURN_IF_ERROR(CheckFields(sb));
  return sb;
}

std::vector<std::uint8_t> EncodeInfo(const InfoRecord& info) {
  ByteWriter out;
  out.PutString(info.name);
  out.Put(info.stripe_option);
  out.Put(info.group_option);
  out.Put(static_cast<std::uint32_t>(info.groups.size()));
  for (const auto& group : info.groups) {
    out.Put(static_cast<std::uint32_t>(group.size()));
    for (std::uint32_t device : group) out.Put(device);
  }
  out.Put(static_cast<std::uint32_t>(info.members.size()));
  for (const MemberRecord& member : info.members) {
    out.Put(member.rank);
    out.Put(member.mode);
    out.Put(member.uid);
    out.Put(member.gid);
    out.Put(member.mtime_ns);
    out.Put(member.size);
    PutHash(out, member.data_root);
    out.Put(member.parity_size);
    PutHash(out, member.parity_root);
    out.PutString(member.domain);
  }
  out.Put(info.path.index);
  out.Put(info.path.leaf_count);
  out.Put(info.path.bytes);
  out.Put(static_cast<std::uint32_t>(info.path.pages.size()));
  for (const auto& page : info.path.pages) {
    out.Put(static_cast<std::uint32_t>(page.size()));
    for (const Hash& hash : page) PutHash(out, hash);
  }
  return std::move(out.bytes());
}

Result<InfoRecord> DecodeInfo(ByteSpan bytes) {
  const Status corrupt(Code::kCorrupt, "info record is malformed");
  ByteReader in(bytes);
  InfoRecord info;
  info.name = in.GetString(kMaxNameBytes);
  info.stripe_option = in.Get<std::uint64_t>();
  info.group_option = in.Get<std::uint32_t>();
  const auto groups = in.Get<std::uint32_t>();
  // Counts are checked against what is left before anything is reserved: each item has a least size.
  if (groups > in.remaining() / 4) return corrupt;
  for (std::uint32_t g = 0; g < groups && in.ok(); ++g) {
    const auto n = in.Get<std::uint32_t>();
    if (n > kMaxGroup || n > in.remaining() / 4) return corrupt;
    auto& group = info.groups.emplace_back();
    for (std::uint32_t i = 0; i < n; ++i) group.push_back(in.Get<std::uint32_t>());
  }
  const auto members = in.Get<std::uint32_t>();
  if (members > kMaxGroup) return corrupt;
  for (std::uint32_t i = 0; i < members && in.ok(); ++i) {
    MemberRecord member;
    member.rank = in.Get<std::uint32_t>();
    member.mode = in.Get<std::uint32_t>();
    member.uid = in.Get<std::uint32_t>();
    member.gid = in.Get<std::uint32_t>();
    member.mtime_ns = in.Get<std::int64_t>();
    member.size = in.Get<std::uint64_t>();
    member.data_root = GetHash(in);
    member.parity_size = in.Get<std::uint64_t>();
    member.parity_root = GetHash(in);
    member.domain = in.GetString(kMaxNameBytes);
    if (member.size > (1ull << 62) || member.parity_size > (1ull << 62)) return corrupt;
    info.members.push_back(std::move(member));
  }
  info.path.index = in.Get<std::uint64_t>();
  info.path.leaf_count = in.Get<std::uint64_t>();
  info.path.bytes = in.Get<std::uint64_t>();
  const auto pages = in.Get<std::uint32_t>();
  if (pages > 64) return corrupt;
  for (std::uint32_t i = 0; i < pages && in.ok(); ++i) {
    const auto count = in.Get<std::uint32_t>();
    if (count > 2) return corrupt;
    auto& page = info.path.pages.emplace_back();
    for (std::uint32_t c = 0; c < count; ++c) page.push_back(GetHash(in));
  }
  if (!in.ok()) return corrupt;
  // A name is only ever joined to a directory the user named; it must not lead out of it.
  if (info.name.empty() || info.name.front() == '/' || info.name.find('\0') != std::string::npos ||
      ("/" + info.name + "/").find("/../") != std::string::npos) {
    return {Code::kCorrupt,
            fmt::format("info record names '{}', which may lead outside its directory: refused", info.name)};
  }
  return info;
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
  out.PadTo(120);
  for (const ByteRange& range : intent.ranges) {
    out.Put(range.offset);
    out.Put(range.length);
  }
  SealPage(out, HashTag::kIntent, page);
  return std::move(out.bytes());
}

Result<Intent> DecodeIntent(ByteSpan page, std::uint32_t number) {
  const Status corrupt(Code::kCorrupt, "no valid intent page");
  if (page.size() < kIntentPageSize || std::memcmp(page.data(), "LZYINTNT", 8) != 0 ||
      !PageSealed(page.first(kIntentPageSize), HashTag::kIntent, number)) {
    return corrupt;
  }
  ByteReader in(page);
  in.Skip(8);
  Intent intent;
  intent.uuid = GetUuid(in);
  intent.generation = in.Get<std::uint64_t>();
  intent.flags = in.Get<std::uint32_t>();
  const auto ranges = in.Get<std::uint32_t>();
  intent.wall_time_ns = in.Get<std::int64_t>();
  intent.pid = in.Get<std::uint32_t>();
  intent.host = in.GetString(64);
  if (!in.ok() || ranges > kMaxIntentRanges) return corrupt;
  ByteReader list(page.subspan(120));
  for (std::uint32_t i = 0; i < ranges; ++i) {
    ByteRange range;
    range.offset = list.Get<std::uint64_t>();
    range.length = list.Get<std::uint64_t>();
    intent.ranges.push_back(range);
  }
  return intent;
}

}  // namespace lzy
