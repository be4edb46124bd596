#pragma once
// Tags, limits and in-memory forms of docs/format.md, and functions that encode and decode each of its records. No I/O:
// sidecar/sidecar.h reads and writes files with these.
//
// Each record has an Encode/Decode pair. Decoding takes hostile bytes: it checks hashes, bounds and counts before it uses
// or allocates anything. Decoded values are within the bounds of docs/format.md, so callers need not check them again.
// sidecar/contents checks whether parts of a sidecar contradict each other. Persisted numbers are never reused.

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

// docs/format.md §4 and §10. Sizes are bytes.
inline constexpr std::size_t kSuperblockSize = 4096;
inline constexpr std::array<std::uint8_t, 8> kSuperblockMagic = {0x89, 0x4C, 0x5A, 0x59, 0x0D, 0x0A, 0x1A, 0x0A};
inline constexpr std::uint32_t kByteOrderMark = 0x01020304;
inline constexpr std::uint16_t kFormatMajor = 1;         // of the ordinary form
inline constexpr std::uint16_t kCompactFormatMajor = 2;  // of the compact form
inline constexpr std::uint16_t kFormatMinor = 0;
inline constexpr std::uint64_t kMinSpacing = 8192;
inline constexpr std::uint64_t kMaxSpacing = 1ull << 44;
inline constexpr std::size_t kMaxExtents = 90;
// docs/format.md §14: the compact form, for small files.
inline constexpr std::uint64_t kCompactPage = 4096;  // no two copies share one
inline constexpr std::size_t kCompactSuperblockSize = 1024;
inline constexpr std::size_t kMaxCompactExtents = 13;
inline constexpr std::uint64_t kCompactStep = 2048;            // copies begin at multiples of it
inline constexpr std::uint64_t kMaxCompactSpacing = 1u << 20;  // largest offset of copy 1
inline constexpr std::uint64_t kMaxCompactData = 64u << 10;    // this version writes it for files up to this size
inline constexpr std::uint64_t kMaxFileSize = 1ull << 62;
inline constexpr std::uint32_t kMaxMembers = 1u << 24;  ///< of a set
inline constexpr std::uint32_t kMaxParts = 4096;     ///< device directories of a shared file
inline constexpr std::uint64_t kMaxGeneration = 1ull << 62;
inline constexpr std::size_t kMaxInfoBytes = 64u << 20;
inline constexpr std::size_t kMaxNameBytes = 4096;
// docs/format.md §8. This version writes two pages, but reads as many as a later one may have made.
inline constexpr std::size_t kIntentPageSize = 4096;
inline constexpr std::size_t kIntentPages = 2;         // written by this version
inline constexpr std::size_t kMaxIntentPages = 65536;  // read
inline constexpr std::size_t kMaxIntentRanges = 240;

/// Identifies a dataset through all of its commits. All members of a set share it.
using Uuid = std::array<std::uint8_t, 16>;
/// A random one (RFC 4122, version 4).
Uuid NewUuid();
/// The usual form: 8-4-4-4-12 hexadecimal digits.
std::string UuidText(const Uuid& uuid);

/// kPrepared: the first phase of a commit (docs/format.md §9). kNeverCommitted: the sidecar holds only an intent.
enum class SidecarState : std::uint32_t { kCommitted = 1, kPrepared = 2, kNeverCommitted = 3 };

/// The data file at a commit. names/lookup recognises files by it, judge/ distinguishes edits from damage by it.
struct Stamp {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  std::uint64_t device = 0;
  std::int64_t birth_ns = 0;  ///< when the file was made; 0: unknown
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

/// True if a file with this stamp may have changed after the commit read it, without a trace in its mtime: within the tick
/// of the file system's clock in which that commit began (docs/design/repair.md §8). `clock_ns`: the commit clock of the
/// stamp; 0: there is none.
constexpr bool IsRacy(const Stamp& stamp, std::int64_t clock_ns) {
  return clock_ns != 0 && stamp.mtime_ns >= clock_ns;
}

enum class ExtentKind : std::uint16_t { kInfo = 1, kIntent = 2, kDataLevel = 3, kParityLevel = 4, kParity = 5, kNodes = 6 };

/// Place of a part of one copy in the sidecar file, in bytes. `level` is that of a tree. `length` bytes are used,
/// `capacity` bytes reserved.
struct Extent {
  ExtentKind kind = ExtentKind::kInfo;
  std::uint16_t level = 0;
  std::uint64_t logical = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t capacity = 0;
};

/// Bytes of part number `part` of a parity region of `size` bytes that is dealt to `parts` files. Unit x of the region
/// is in part x mod parts, and begins there at (x div parts) * unit (docs/format.md §13).
std::uint64_t PartBytes(std::uint64_t size, std::uint64_t unit, std::uint32_t parts, std::uint32_t part);

/// The first extent of this kind and level; null if there is none.
const Extent* FindExtent(const std::vector<Extent>& extents, ExtentKind kind, std::size_t level = 0);

/// docs/format.md §4, field by field. `extents`, `copy` and `state` differ between the copies of one commit;
/// everything else is the same in all of them.
struct Superblock {
  Uuid uuid{};
  std::uint64_t generation = 0;
  std::uint32_t copy = 0;
  std::uint32_t copies = 2;
  std::uint64_t spacing = kMinSpacing;  ///< compact: offset of copy 1
  SidecarState state = SidecarState::kCommitted;
  DatasetKind kind = DatasetKind::kShared;
  ParityPlacement placement = ParityPlacement::kPooled;
  std::uint32_t block_size = 0;
  std::uint64_t unit = 0;
  std::uint32_t parity = 0;
  std::uint32_t members = 0;  ///< shared: D; set: p
  std::uint32_t largest_group = 0;
  std::uint32_t rank = 0;  ///< set: of the member; shared: 0, or d + 1 in the part of device directory d
  /// The clock of the file system just before the data were read (sidecar/commit_clock). A stamp that is not older is
  /// racy (IsRacy).
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
  /// Identifies the key that made the leaves and the seal. All zero: the dataset is not sealed.
  KeyId key_id{};
  Seal seal{};
  /// lzy chose the block size by the size of the file, and may choose another one when that changes (ChooseBlockSize).
  bool automatic_block_size = false;
  /// Features of a newer lzy. This version knows none, so it may read such a sidecar, but not write it.
  std::uint64_t read_only_features = 0;
  /// The compact form (docs/format.md §14): superblocks are smaller, and copies are at other places. For
  /// Sidecar::Create this is a request. Create grants it if the metadata and the parity are small enough.
  bool compact = false;
  std::vector<Extent> extents;

  /// The fields that docs/format.md §4 lists in a row; the others are elsewhere in the page.
  LZY_FIELDS(uuid, generation, copy, copies, spacing, state, kind, placement, block_size, unit, parity, members, largest_group, rank,
             commit_clock_ns, wall_time_ns, stamp.size, stamp.mtime_ns, stamp.inode, stamp.device, parity_size, parity_stride,
             first_row, data_root, parity_root, dataset_root, info_hash)
  bool sealed() const { return key_id != KeyId{}; }
  /// Whether the parity is in parts, one in each device directory.
  bool parted() const { return placement == ParityPlacement::kDirectories; }
  /// Bytes of parity in the file of this superblock: all, none (beside the file, if there are parts), or those of one part.
  std::uint64_t parity_here() const;
  /// Offset of copy `c` in the file.
  std::uint64_t PlaceOf(std::uint32_t c) const;
  /// Bytes of the superblock, its hash included.
  std::size_t bytes() const { return compact ? kCompactSuperblockSize : kSuperblockSize; }
  std::size_t max_extents() const { return compact ? kMaxCompactExtents : kMaxExtents; }
};

/// The value of option block-size that the dataset has.
inline std::uint32_t BlockSizeOptionOf(const Superblock& sb) {
  return sb.automatic_block_size ? kAutomaticBlockSize : sb.block_size;
}

/// superblock.bytes() bytes, with their hash. Precondition: at most max_extents() extents.
std::vector<std::uint8_t> EncodeSuperblock(const Superblock& superblock);
/// `page` begins with the superblock, and may be longer. It needs kSuperblockSize bytes only for the ordinary form.
/// `copy`: the number that a superblock at this place must have; its hash depends on it.
/// kUnprotected: not a superblock at all (no magic). kCorrupt: the hash is wrong, or a field is impossible.
/// kNewerFormat: only a newer lzy can read it, or it is of foreign byte order.
Result<Superblock> DecodeSuperblock(ByteSpan page, std::uint32_t copy);
/// kCorrupt if extents overlap, or have the wrong number or length. The length of the file does not count: the file may
/// have been cut.
Status CheckExtents(const Superblock& superblock);
/// Copies of the metadata that a sidecar has. A shared file has m + 1, at least two: they survive as many losses as
/// the parity. A member of a set has two, because the other members' sidecars replace its own.
std::uint32_t CopiesOf(DatasetKind kind, std::uint32_t parity);
/// docs/format.md §3, from the root of the tree over members.
Hash DatasetRootOf(const Superblock& superblock, const Hash& members_root);
/// The part of the superblock that the seal covers (docs/format.md §12): all fields that are equal in every copy and form,
/// prepared or committed.
std::vector<std::uint8_t> SealedPartOf(const Superblock& superblock);
/// True if the page has the hash that this version gives to superblocks, whatever its contents. Then a version number in it
/// is no accident.
bool SuperblockHashed(ByteSpan page, std::uint32_t copy);

/// A member as all sidecars of its group know it. This is enough to rebuild its file, to prove it, and to give it back
/// its owner and times. `mode` has permission bits (07777); `domain` is its failure domain at the commit.
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

/// The parts with the parity of a shared file with device directories (docs/format.md §13).
struct Parts {
  /// Number of this encoding. It is in the names of the parts, so parts of another encoding are never taken for these.
  std::uint64_t id = 0;
  /// Base name of every part.
  std::string name;
  /// Absolute path of the data file at the commit. Empty: unknown.
  std::string home;
  /// Absolute paths by device. Empty: there are no parts.
  std::vector<std::string> directories;
  LZY_FIELDS(id, name, home, directories)
  /// True if both mean the same files, whatever the name of the data file is.
  bool SameFiles(const Parts& other) const {
    return id == other.id && name == other.name && directories == other.directories;
  }
};

/// The nodes on which a set was written (docs/format.md §5 "Nodes"). A member that no process sees may be on the disk of
/// one of them. Older versions do not record this.
struct WrittenOn {
  std::uint32_t count = 0;         ///< nodes of the whole set; 0: nothing is recorded
  std::vector<std::string> nodes;  ///< by member of the group, as InfoRecord::members; empty if nothing is recorded
  LZY_FIELDS(count, nodes)
};

/// docs/format.md §5.
struct InfoRecord {
  /// Base name of a shared file; the path pattern of a set, from its first component with a placeholder on.
  std::string name;
  std::uint64_t stripe_option = 1u << 20;
  std::uint32_t group_option = 8;
  std::vector<std::vector<std::uint32_t>> groups;
  std::vector<MemberRecord> members;
  Tree::Proof path;
  Parts parts;
  WrittenOn written_on;  ///< stored in a separate extent
  LZY_FIELDS(name, stripe_option, group_option, groups, members, path)  ///< and then the parts, if there are any
};

std::vector<std::uint8_t> EncodeInfo(const InfoRecord& info);
/// kCorrupt if the record is malformed, or if a name in it could lead out of the directory to which it is joined. The
/// hash of the record is the caller's to check.
Result<InfoRecord> DecodeInfo(ByteSpan bytes);

/// Encodes info.written_on, with a hash; empty if nothing is recorded.
std::vector<std::uint8_t> EncodeNodes(const InfoRecord& info);
/// `info` must have its members already. kCorrupt if the hash or the number of nodes is wrong.
Result<WrittenOn> DecodeNodes(ByteSpan bytes, const InfoRecord& info);

// Flags of an intent (docs/format.md §8).
inline constexpr std::uint32_t kIntentWholeFile = 1;
inline constexpr std::uint32_t kIntentRepair = 2;
inline constexpr std::uint32_t kIntentDecided = 4;  ///< no intent: the commit of this generation and wall time counts

/// Bytes [offset, offset + length) of the data file.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
  LZY_FIELDS(offset, length)
};

/// The statement "these bytes may be changing" (docs/format.md §8). It is valid only for the uuid and generation that it
/// names, so a new generation voids it. Process, host and time identify the writer.
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

/// Whether both are from the same call of NewIntent. Commits may have moved them to other generations since.
inline bool SameWriter(const Intent& a, const Intent& b) {
  return a.pid == b.pid && a.wall_time_ns == b.wall_time_ns && a.host == b.host;
}

/// Whether a repair set it. Then a difference is damage, not an edit.
inline bool IsOfRepair(const Intent& intent) {
  return (intent.flags & kIntentRepair) != 0;
}

/// One page of kIntentPageSize bytes. `page` is its number among the intent pages; its hash depends on it. The host is
/// cut to 64 bytes. Precondition: at most kMaxIntentRanges ranges.
std::vector<std::uint8_t> EncodeIntent(const Intent& intent, std::uint32_t page);
/// kCorrupt for every page that is not an intent, an empty one included.
Result<Intent> DecodeIntent(ByteSpan page, std::uint32_t number);

}  // namespace lzy
