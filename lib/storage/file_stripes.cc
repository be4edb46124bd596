#include "storage/file_stripes.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <set>

namespace lzy {
namespace {

/// More servers than any file system has, so a larger number is an error.
constexpr std::uint64_t kMostServers = 4096;
constexpr std::size_t kMostName = 255;
constexpr std::size_t kMostAttribute = 65536;  // XATTR_SIZE_MAX

Status Absurd(const char* what, std::string why) {
  return {Code::kInvalidArgument, fmt::format("{} tells stripes that make no sense ({})", what, why)};
}

// ---------------------------------------------------------------------------------------------------------------- Lustre

constexpr const char* kLustre = "Lustre";

/// Reads fields of lustre_user.h, in the byte order of the magic number.
class LustreReader {
 public:
  static constexpr std::uint32_t kV1 = 0x0BD10BD0, kV3 = 0x0BD30BD0, kSpecific = 0x0BD50BD0, kComposite = 0x0BD60BD0;
  static constexpr std::size_t kV1Bytes = 32, kV3Bytes = 48, kObjectBytes = 24, kEntryBytes = 48, kCompositeBytes = 32;

  explicit LustreReader(ByteSpan bytes) : bytes_(bytes) {
    if (bytes.size() < sizeof(std::uint32_t)) return;
    swapped_ = (LoadLe<std::uint32_t>(bytes.data()) & 0xffff) != (kV1 & 0xffff);
    magic_ = At<std::uint32_t>(0);
  }

  std::uint32_t magic() const { return magic_; }

  Stripes Read() {
    StripeLayout layout{.file_system = kLustre, .pieces = {}};
    if (magic_ == kComposite) {
      LZY_RETURN_IF_ERROR(ReadComposite(layout));
    } else {
      LZY_RETURN_IF_ERROR(AddPlain({}, bytes_.size(), {}, layout));
    }
    if (layout.pieces.empty()) return std::optional<StripeLayout>();  // nothing is stored yet, or all of it is in an archive
    std::ranges::sort(layout.pieces, {}, &StripePiece::begin);
    for (std::size_t i = 1; i < layout.pieces.size(); ++i) {
      if (layout.pieces[i].begin < layout.pieces[i - 1].end) return Absurd(kLustre, "its components overlap");
    }
    return std::optional(std::move(layout));
  }

 private:
  static constexpr std::uint32_t kRaid0 = 0x1, kOnMdt = 0x100, kOverstriped = 0x200, kCompressed = 0x800;
  static constexpr std::uint32_t kReleased = 0x80000000;
  static constexpr std::uint32_t kStale = 0x1, kInstantiated = 0x10, kExtension = 0x40, kParity = 0x80;
  static constexpr std::uint32_t kMostOst = 0xffff;

  bool Has(std::uint64_t at, std::uint64_t count) const { return at <= bytes_.size() && count <= bytes_.size() - at; }

  template <class T>
  T At(std::uint64_t at) const {
    const T value = LoadLe<T>(bytes_.data() + at);
    if (!swapped_) return value;
    if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(value));
    if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_bswap32(value));
    return static_cast<T>(__builtin_bswap64(value));
  }

  // struct lov_user_md_v1 or _v3 in bytes [at, at + size).
  Status AddPlain(std::uint64_t at, std::uint64_t size, StripePiece piece, StripeLayout& layout) const {
    if (!Has(at, size) || size < kV1Bytes) return Absurd(kLustre, "the attribute is cut off");
    const auto magic = At<std::uint32_t>(at), pattern = At<std::uint32_t>(at + 4), unit = At<std::uint32_t>(at + 24);
    const std::uint64_t count = At<std::uint16_t>(at + 28);
    if (magic != kV1 && magic != kV3 && magic != kSpecific) return Absurd(kLustre, fmt::format("its magic number is {:08x}", magic));
    if ((pattern & kReleased) != 0) return Status::Ok();
    const std::uint32_t kind = pattern & 0xffff & ~(kOverstriped | kCompressed);
    if (kind == kOnMdt) {
      piece.servers = {"MDT"};
      layout.pieces.push_back(std::move(piece));
      return Status::Ok();
    }
    if (kind != kRaid0) return Absurd(kLustre, fmt::format("the pattern {:08x} is not known", pattern));
    if (unit == 0) return Absurd(kLustre, "the stripes have 0 bytes");
    if (count == 0 || count > kMostServers) return Absurd(kLustre, fmt::format("it has {} stripes", count));
    const std::uint64_t header = magic == kV1 ? kV1Bytes : kV3Bytes;
    if (size < header || (size - header) / kObjectBytes < count) return Absurd(kLustre, "the attribute is cut off");
    piece.unit = unit;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto ost = At<std::uint32_t>(at + header + i * kObjectBytes + 20);
      if (ost > kMostOst) return Absurd(kLustre, fmt::format("stripe {} is on OST {}", i, ost));
      piece.servers.push_back(fmt::format("OST{:04x}", ost));
    }
    layout.pieces.push_back(std::move(piece));
    return Status::Ok();
  }

  // struct lov_comp_md_v1 and its entries. Entries without objects are not stored yet. Uses one of several mirrors.
  Status ReadComposite(StripeLayout& layout) const {
    if (!Has(0, kCompositeBytes)) return Absurd(kLustre, "the attribute is cut off");
    const std::uint64_t count = At<std::uint16_t>(14);
    if (count == 0 || !Has(kCompositeBytes, count * kEntryBytes)) return Absurd(kLustre, fmt::format("it has {} components", count));
    std::optional<std::uint32_t> mirror;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t entry = kCompositeBytes + i * kEntryBytes;
      const auto flags = At<std::uint32_t>(entry + 4);
      if ((flags & kInstantiated) == 0 || (flags & (kStale | kExtension)) != 0) continue;
      const std::uint32_t of_mirror = At<std::uint32_t>(entry) >> 16 & 0x7fff;
      const bool parity = (flags & kParity) != 0;
      layout.redundant = layout.redundant || parity || (mirror && *mirror != of_mirror);
      if (parity || (mirror && *mirror != of_mirror)) continue;
      mirror = of_mirror;
      StripePiece piece{.begin = At<std::uint64_t>(entry + 8), .end = At<std::uint64_t>(entry + 16)};
      if (piece.begin >= piece.end) return Absurd(kLustre, fmt::format("component {} ends before it begins", i));
      LZY_RETURN_IF_ERROR(AddPlain(At<std::uint32_t>(entry + 24), At<std::uint32_t>(entry + 28), std::move(piece), layout));
    }
    return Status::Ok();
  }

  ByteSpan bytes_;
  bool swapped_ = false;
  std::uint32_t magic_ = 0;
};

// ------------------------------------------------------------------------------------------------------------------ Ceph

constexpr const char* kCeph = "CephFS";

std::optional<std::uint64_t> NumberAfter(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos || (at > 0 && text[at - 1] != ' ')) return std::nullopt;
  std::uint64_t value = 0;
  const char* const begin = text.data() + at + key.size();
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || (stop != end && *stop != ' ')) return std::nullopt;
  return value;
}

// ----------------------------------------------------------------------------------------------------------------- Gluster

constexpr const char* kGluster = "GlusterFS";

/// The hosts of "<POSIX(BRICK):HOST:PATH>" entries. BRICK and PATH may contain any bytes.
std::vector<std::string_view> HostsOf(std::string_view text) {
  constexpr std::string_view kLeaf = "<POSIX(", kBrickEnd = "):";
  std::vector<std::string_view> hosts;
  for (std::size_t at = text.find(kLeaf); at != std::string_view::npos; at = text.find(kLeaf, at)) {
    const std::size_t brick = text.find(kBrickEnd, at + kLeaf.size());
    if (brick == std::string_view::npos) return {};
    const std::size_t host = brick + kBrickEnd.size(), end = text.find(':', host);
    if (end == std::string_view::npos || text.find('>', end) == std::string_view::npos) return {};
    hosts.push_back(text.substr(host, end - host));
    at = end;
  }
  return hosts;
}

// ----------------------------------------------------------------------------------------------------------------- BeeGFS

constexpr const char* kBeegfs = "BeeGFS";
constexpr std::uint32_t kBeegfsRaid0 = 1, kBeegfsRaid10 = 2, kBeegfsBuddies = 3;

template <class T>
T NativeAt(ByteSpan bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// ------------------------------------------------------------------------------------------------------------ The system

/// Magic numbers of statfs(2).
constexpr std::uint32_t kLustreMagic = 0x0BD00BD0, kCephMagic = 0x00C36400, kBeegfsMagic = 0x19830326, kFuseMagic = 0x65735546;

using Kind = StripeMemo::Kind;

Kind KindOf(int fd) {
  struct statfs about {};
  if (fstatfs(fd, &about) != 0) return Kind::kNone;
  switch (static_cast<std::uint32_t>(about.f_type)) {
    case kLustreMagic: return Kind::kLustre;
    case kCephMagic: return Kind::kCeph;
    case kBeegfsMagic: return Kind::kBeegfs;
    case kFuseMagic: return Kind::kFuse;
    default: return Kind::kNone;
  }
}

/// The attribute; empty if there is none. Sets `foreign` if files of this file system never have it.
std::string AttributeOf(int fd, const char* name, bool* foreign = nullptr) {
  std::string value(kMostAttribute, '\0');
  const ssize_t size = fgetxattr(fd, name, value.data(), value.size());
  if (foreign != nullptr) *foreign = size < 0 && (errno == EOPNOTSUPP || errno == ENODATA || errno == EPERM);
  value.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return value;
}

/// Argument and result of BEEGFS_IOC_GET_STRIPETARGET_V2 for one target. The first field is the number of the target.
struct BeegfsTarget {
  std::uint8_t bytes[kBeegfsTargetBytes];
};
struct BeegfsInfo {
  std::uint8_t bytes[kBeegfsInfoBytes];
};

Stripes AskBeegfs(int fd) {
  BeegfsInfo info{};
  if (ioctl(fd, _IOR('f', 25, BeegfsInfo), &info) != 0) return std::optional<StripeLayout>();
  std::vector<std::vector<std::uint8_t>> targets;
  const std::size_t count = std::min<std::size_t>(NativeAt<std::uint16_t>(info.bytes, 8), kMostServers);
  for (std::uint32_t i = 0; i < count; ++i) {
    BeegfsTarget target{};
    std::memcpy(target.bytes, &i, sizeof i);
    if (ioctl(fd, _IOR('f', 26, BeegfsTarget), &target) != 0) return std::optional<StripeLayout>();
    targets.emplace_back(std::begin(target.bytes), std::end(target.bytes));
  }
  return ParseBeegfs(info.bytes, targets);
}

// FUSE does not report the file system behind it. Sets `kind` to the attribute that answers.
Stripes AskFuse(int fd, Kind& kind) {
  bool no_gluster = false, no_ceph = false;
  if (const std::string bricks = AttributeOf(fd, "glusterfs.pathinfo", &no_gluster); !no_gluster) {
    kind = Kind::kGluster;
    return bricks.empty() ? Stripes(std::nullopt) : ParseGluster(bricks);
  }
  if (const std::string layout = AttributeOf(fd, "ceph.file.layout", &no_ceph); !no_ceph) {
    kind = Kind::kCeph;
    return layout.empty() ? Stripes(std::nullopt) : ParseCeph(layout);
  }
  kind = Kind::kNone;
  return std::optional<StripeLayout>();
}

Stripes AskSystem(int fd, Kind& kind) {
  const auto parse = [&](const char* name, auto parser) -> Stripes {
    const std::string value = AttributeOf(fd, name);
    return value.empty() ? Stripes(std::nullopt) : parser(value);
  };
  switch (kind) {
    case Kind::kNone: return std::optional<StripeLayout>();
    case Kind::kLustre:
      return parse("lustre.lov", [](const std::string& value) {
        return ParseLustre({reinterpret_cast<const std::uint8_t*>(value.data()), value.size()});
      });
    case Kind::kCeph: return parse("ceph.file.layout", ParseCeph);
    case Kind::kGluster: return parse("glusterfs.pathinfo", ParseGluster);
    case Kind::kBeegfs: return AskBeegfs(fd);
    case Kind::kFuse: return AskFuse(fd, kind);
  }
  return std::optional<StripeLayout>();
}

}  // namespace

Stripes ParseLustre(ByteSpan attribute) {
  LustreReader reader(attribute);
  return reader.Read();
}

// "stripe_unit=4194304 stripe_count=1 object_size=4194304 pool=data". If there is one stripe, each object is on a place of
// its own.
Stripes ParseCeph(std::string_view attribute) {
  const auto unit = NumberAfter(attribute, "stripe_unit="), count = NumberAfter(attribute, "stripe_count="),
             object = NumberAfter(attribute, "object_size=");
  if (!unit || !count || !object) return Absurd(kCeph, "a number is missing");
  if (*unit == 0 || *object == 0 || *object % *unit != 0) {
    return Absurd(kCeph, fmt::format("stripes of {} bytes in objects of {}", *unit, *object));
  }
  if (*count == 0 || *count > kMostServers) return Absurd(kCeph, fmt::format("it has {} stripes", *count));
  StripePiece piece{.unit = *count == 1 ? *object : *unit};
  if (*count > 1) piece.servers.resize(*count);
  return std::optional(StripeLayout{.file_system = kCeph, .pieces = {std::move(piece)}});
}

// GlusterFS distributes files, not stripes (version 6 removed striped volumes; for a sharded volume it reports the first
// shard).
Stripes ParseGluster(std::string_view attribute) {
  while (attribute.ends_with('\0')) attribute.remove_suffix(1);
  const std::vector<std::string_view> bricks = HostsOf(attribute);
  if (bricks.empty() || bricks.size() > kMostServers) return Absurd(kGluster, "it tells no brick");
  const std::set<std::string_view> hosts(bricks.begin(), bricks.end());  // replicas come in any order
  const bool named = std::ranges::all_of(hosts, [](std::string_view host) { return !host.empty() && host.size() <= kMostName; });
  if (!named) return Absurd(kGluster, "the host of a brick has no name");
  const bool several = attribute.find("<REPLICATE:") != std::string_view::npos || attribute.find("<EC:") != std::string_view::npos ||
                       attribute.find("<DISPERSE:") != std::string_view::npos;
  if (bricks.size() > 1 && !several) return Absurd(kGluster, "it is on several bricks, and is no replica");
  StripePiece piece{.servers = {fmt::format("{}", fmt::join(hosts, "+"))}};
  return std::optional(StripeLayout{.file_system = kGluster, .pieces = {std::move(piece)}, .redundant = hosts.size() > 1});
}

Stripes ParseBeegfs(ByteSpan info, const std::vector<std::vector<std::uint8_t>>& targets) {
  constexpr std::size_t kAlias = 24, kAliasBytes = 256;
  if (info.size() < kBeegfsInfoBytes) return Absurd(kBeegfs, "the answer is cut off");
  const auto pattern = NativeAt<std::uint32_t>(info, 0), unit = NativeAt<std::uint32_t>(info, 4);
  const std::size_t count = NativeAt<std::uint16_t>(info, 8);
  if (pattern != kBeegfsRaid0 && pattern != kBeegfsRaid10 && pattern != kBeegfsBuddies) {
    return Absurd(kBeegfs, fmt::format("the pattern {} is not known", pattern));
  }
  if (unit == 0) return Absurd(kBeegfs, "the chunks have 0 bytes");
  if (count == 0 || count > kMostServers || targets.size() != count) return Absurd(kBeegfs, fmt::format("it has {} targets", count));
  StripePiece piece{.unit = unit};
  for (const ByteSpan target : targets) {
    if (target.size() < kBeegfsTargetBytes) return Absurd(kBeegfs, "the answer is cut off");
    const auto node_of = [&](std::size_t number_at, std::size_t name_at) {
      const char* const name = reinterpret_cast<const char*>(target.data()) + name_at;
      const std::size_t length = strnlen(name, kAliasBytes);
      return length > 0 ? std::string(name, std::min(length, kMostName)) : fmt::format("node {}", NativeAt<std::uint32_t>(target, number_at));
    };
    std::string server = node_of(16, kAlias);
    if (pattern == kBeegfsBuddies) server.append("+").append(node_of(20, kAlias + kAliasBytes));
    piece.servers.push_back(std::move(server));
  }
  return std::optional(StripeLayout{.file_system = kBeegfs, .pieces = {std::move(piece)}, .redundant = pattern != kBeegfsRaid0});
}

Stripes StripesOf(FileSystem& fs, File& file) {
  auto& memo = fs.Memo<StripeMemo>();
  if (memo.answer) return memo.answer(file);
  const int fd = file.SystemDescriptor();
  const auto stat = file.StatAtOpening();
  if (fd < 0 || !stat.ok()) return std::optional<StripeLayout>();
  Kind kind;
  {
    const std::lock_guard lock(memo.mutex);
    const auto [at, added] = memo.kinds.try_emplace(stat->file_system, Kind::kNone);
    if (added) at->second = KindOf(fd);
    kind = at->second;
  }
  const Kind before = kind;
  Stripes stripes = AskSystem(fd, kind);
  if (kind != before) {
    const std::lock_guard lock(memo.mutex);
    memo.kinds[stat->file_system] = kind;
  }
  return stripes;
}

}  // namespace lzy
