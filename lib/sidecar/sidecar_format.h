#pragma once
// Tags, limits and in-memory forms of what docs/format.md specifies. Persisted numbers are never reused.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "geometry/layout.h"
#include "merkle/leaf_key.h"
#include "merkle/tree.h"

namespace lzy {

inline constexpr std::size_t kSuperblockSize = 4096;
inline constexpr std::array<std::uint8_t, 8> kSuperblockMagic = {0x89, 0x4C, 0x5A, 0x59, 0x0D, 0x0A, 0x1A, 0x0A};
inline constexpr std::uint32_t kByteOrderMark = 0x01020304;
inline constexpr std::uint16_t kFormatMajor = 1;
inline constexpr std::uint16_t kFormatMinor = 0;
inline constexpr std::uint64_t kMinSpacing = 8192;
inline constexpr std::uint64_t kMaxSpacing = 1ull << 44;
inline constexpr std::size_t kMaxExtents = 90;
inline constexpr std::uint64_t kMaxFileSize = 1ull << 62;
inline constexpr std::uint32_t kMaxMembers = 1u << 24;  ///< of a set
inline constexpr std::uint32_t kMaxParts = 4096;     ///< device directories of a shared file
inline constexpr std::uint64_t kMaxGeneration = 1ull << 62;
inline constexpr std::size_t kMaxInfoBytes = 64u << 20;
inline constexpr std::size_t kMaxNameBytes = 4096;
inline constexpr std::size_t kIntentPageSize = 4096;
inline constexpr std::size_t kIntentPages = 2;         // written by this version
inline constexpr std::size_t kMaxIntentPages = 65536;  // read
inline constexpr std::size_t kMaxIntentRanges = 240;

using Uuid = std::array<std::uint8_t, 16>;
Uuid NewUuid();
std::string UuidText(const Uuid& uuid);

enum class SidecarState : std::uint32_t { kCommitted = 1, kPrepared = 2, kNeverCommitted = 3 };

/// The data file as it was at a commit.
struct Stamp {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  std::uint64_t device = 0;
  std::int64_t birth_ns = 0;  ///< when the file was made; 0: unknown
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

enum class ExtentKind : std::uint16_t { kInfo = 1, kIntent = 2, kDataLevel = 3, kParityLevel = 4, kParity = 5 };

struct Extent {
  ExtentKind kind = ExtentKind::kInfo;
  std::uint16_t level = 0;
  std::uint64_t logical = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t capacity = 0;
};

/// Bytes of part `part` of `parts` of a parity region of `size` bytes: unit x of the region is in part x mod parts, where it
/// begins at (x div parts) * unit (docs/format.md §13).
std::uint64_t PartBytes(std::uint64_t size, std::uint64_t unit, std::uint32_t parts, std::uint32_t part);

/// The first extent of this kind and level; null if there is none.
const Extent* FindExtent(const std::vector<Extent>& extents, ExtentKind kind, std::size_t level = 0);

/// docs/format.md §4, field by field.
struct Superblock {
  Uuid uuid{};
  std::uint64_t generation = 0;
  std::uint32_t copy = 0;
  std::uint32_t copies = 2;
  std::uint64_t spacing = kMinSpacing;
  SidecarState state = SidecarState::kCommitted;
  DatasetKind kind = DatasetKind::kShared;
  ParityPlacement placement = ParityPlacement::kPooled;
  std::uint32_t block_size = 0;
  std::uint64_t unit = 0;
  std::uint32_t parity = 0;
  std::uint32_t members = 0;  ///< shared: D; set: p
  std::uint32_t largest_group = 0;
  std::uint32_t rank = 0;  ///< set: of the member; shared: 0, or d + 1 in the part of device directory d
  std::int64_t commit_clock_ns = 0;
  std::int64_t wall_time_ns = 0;
  Stamp stamp;
  std::uint64_t parity_size = 0;
  std::uint64_t parity_stride = 0;
  std::uint64_t first_row = 0;
  Hash data_root;
  Hash parity_root;
  Hash dataset_root;
  Hash info_hash;
  KeyId key_id{};  ///< of the key that the leaves were made with and the dataset is sealed with; all zero: none
  Seal seal{};
  std::uint64_t read_only_features = 0;  ///< those of a newer lzy: whoever does not know them may read, but not write
  std::vector<Extent> extents;

  /// What docs/format.md §4 has in a row; the rest is elsewhere in the page.
  LZY_FIELDS(uuid, generation, copy, copies, spacing, state, kind, placement, block_size, unit, parity, members, largest_group, rank,
             commit_clock_ns, wall_time_ns, stamp.size, stamp.mtime_ns, stamp.inode, stamp.device, parity_size, parity_stride,
             first_row, data_root, parity_root, dataset_root, info_hash)
  bool sealed() const { return key_id != KeyId{}; }
  /// Whether the parity is in parts, one a device directory.
  bool parted() const { return placement == ParityPlacement::kDirectories; }
  /// Bytes of parity in the file that this is the superblock of.
  std::uint64_t parity_here() const;
};

std::vector<std::uint8_t> EncodeSuperblock(const Superblock& superblock);
/// kUnprotected: not a superblock at all (no magic); kCorrupt: magic but wrong hash or impossible fields;
/// kNewerFormat: readable only by a newer lzy, or of foreign byte order.
Result<Superblock> DecodeSuperblock(ByteSpan page, std::uint32_t copy);
/// kCorrupt when extents overlap, or are not as many or as long as they have to be. How long the file is does not count:
/// it may have been cut short.
Status CheckExtents(const Superblock& superblock);
/// Copies of the metadata that a sidecar has.
std::uint32_t CopiesOf(DatasetKind kind, std::uint32_t parity);
/// docs/format.md §3, from the root of the tree over members.
Hash DatasetRootOf(const Superblock& superblock, const Hash& members_root);
/// The superblock's part of what is sealed: all that does not differ between its copies, nor between being prepared and counting.
std::vector<std::uint8_t> SealedPartOf(const Superblock& superblock);
/// True when the page has the hash that this version gives superblocks, whatever it holds.
bool SuperblockHashed(ByteSpan page, std::uint32_t copy);

/// A member as its group's sidecars know it: enough to rebuild its file, prove it, and give it its owner and times
/// back.
struct MemberRecord {
  std::uint32_t rank = 0;
  std::uint32_t mode = 0600;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t size = 0;
  Hash data_root;
  std::uint64_t parity_size = 0;
  Hash parity_root;
  std::string domain;
  LZY_FIELDS(rank, mode, uid, gid, mtime_ns, size, data_root, parity_size, parity_root, domain)
};

/// Where the parity of a shared file is that has device directories (docs/format.md §13).
struct Parts {
  std::uint64_t id = 0;                  ///< of this encoding; in the parts' names, so that another one's are never taken for it
  std::string name;                      ///< base name of every part
  std::string home;                      ///< the data file, absolute, as it was called at the commit
  std::vector<std::string> directories;  ///< by device, absolute; none: there are no parts
  LZY_FIELDS(id, name, home, directories)
  bool SameFiles(const Parts& other) const { return id == other.id && name == other.name && directories == other.directories; }
};

/// docs/format.md §5.
struct InfoRecord {
  std::string name;
  std::uint64_t stripe_option = 1u << 20;
  std::uint32_t group_option = 8;
  std::vector<std::vector<std::uint32_t>> groups;
  std::vector<MemberRecord> members;
  Tree::Proof path;
  Parts parts;
  LZY_FIELDS(name, stripe_option, group_option, groups, members, path)  ///< and then the parts, if there are any
};

std::vector<std::uint8_t> EncodeInfo(const InfoRecord& info);
Result<InfoRecord> DecodeInfo(ByteSpan bytes);

inline constexpr std::uint32_t kIntentWholeFile = 1;
inline constexpr std::uint32_t kIntentRepair = 2;
inline constexpr std::uint32_t kIntentDecided = 4;  ///< no intent: the commit of this generation and wall time counts

struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
  LZY_FIELDS(offset, length)
};

/// docs/format.md §8.
struct Intent {
  Uuid uuid{};
  std::uint64_t generation = 0;
  std::uint32_t flags = 0;
  std::int64_t wall_time_ns = 0;
  std::uint32_t pid = 0;
  std::string host;
  std::vector<ByteRange> ranges;
  LZY_FIELDS(uuid, generation, flags, wall_time_ns, pid, host, ranges)
};

/// Are both from the same call of NewIntent? (Commits may have moved them to another generation since.)
inline bool SameWriter(const Intent& a, const Intent& b) {
  return a.pid == b.pid && a.wall_time_ns == b.wall_time_ns && a.host == b.host;
}

/// Set by a repair: what differs is damage, and no edit.
inline bool IsOfRepair(const Intent& intent) {
  return (intent.flags & kIntentRepair) != 0;
}

std::vector<std::uint8_t> EncodeIntent(const Intent& intent, std::uint32_t page);
Result<Intent> DecodeIntent(ByteSpan page, std::uint32_t number);

}  // namespace lzy
