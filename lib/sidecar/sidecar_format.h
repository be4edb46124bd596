#pragma once
// The records of docs/format.md in memory, their limits, and functions that encode and decode each of them. No I/O:
// sidecar/sidecar.h reads and writes the files.
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
inline constexpr std::uint64_t kCompactPage = 4096;  // no page contains parts of two copies
inline constexpr std::size_t kCompactSuperblockSize = 1024;
inline constexpr std::size_t kMaxCompactExtents = 13;
inline constexpr std::uint64_t kCompactStep = 2048;            // copies begin at multiples of this step
inline constexpr std::uint64_t kMaxCompactSpacing = 1u << 20;  // largest offset of copy 1
inline constexpr std::uint64_t kMaxCompactData = 64u << 10;    // this version writes the compact form for files up to this size
inline constexpr std::uint64_t kMaxFileSize = 1ull << 62;
inline constexpr std::uint32_t kMaxMembers = 1u << 24;  ///< of a set
inline constexpr std::uint32_t kMaxParts = 4096;     ///< device directories of a shared file
inline constexpr std::uint64_t kMaxGeneration = 1ull << 62;
inline constexpr std::size_t kMaxInfoBytes = 64u << 20;
inline constexpr std::size_t kMaxNameBytes = 4096;
// docs/format.md §8. This version writes two intent pages. It reads more, because a later version may write more.
inline constexpr std::size_t kIntentPageSize = 4096;
inline constexpr std::size_t kIntentPages = 2;         // written by this version
inline constexpr std::size_t kMaxIntentPages = 65536;  // read
inline constexpr std::size_t kMaxIntentRanges = 240;

/// Identifies a dataset through all of its commits. All members of a set share it.
using Uuid = std::array<std::uint8_t, 16>;
/// A random identifier (RFC 4122, version 4).
Uuid NewUuid();
/// The usual form: 8-4-4-4-12 hexadecimal digits.
std::string UuidText(const Uuid& uuid);

/// kPrepared: the first phase of a commit (docs/format.md §9). kNeverCommitted: the sidecar holds only an intent.
enum class SidecarState : std::uint32_t { kCommitted = 1, kPrepared = 2, kNeverCommitted = 3 };

/// Identity and state of the data file at a commit. names/lookup recognises files by it; judge/ distinguishes edits from
/// damage by it.
struct Stamp {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  std::uint64_t file_system = 0;
  std::int64_t birth_ns = 0;  ///< time at which the file was created; 0: unknown
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

/// True if a file with this stamp may have changed after the commit read it, although its mtime is the same. This is
/// possible within the tick of the file system's clock in which the commit began (docs/design/repair.md §8). `clock_ns`:
/// the commit clock of the stamp; 0: there is none.
constexpr bool IsRacy(const Stamp& stamp, std::int64_t clock_ns) {
  return clock_ns != 0 && stamp.mtime_ns >= clock_ns;
}

enum class ExtentKind : std::uint16_t { kInfo = 1, kIntent = 2, kDataLevel = 3, kParityLevel = 4, kParity = 5, kNodes = 6 };

/// Place of a part of one copy in the sidecar file, in bytes. `level`: level of the tree. `length` bytes are used,
/// `capacity` bytes are reserved.
struct Extent {
  ExtentKind kind = ExtentKind::kInfo;
  std::uint16_t level = 0;
  std::uint64_t logical = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t capacity = 0;
};

/// Size of part `part`, if a parity region of `size` bytes is distributed over `parts` files. Unit x of the region is in
/// part x mod parts, and begins there at (x div parts) * unit (docs/format.md §13).
std::uint64_t PartBytes(std::uint64_t size, std::uint64_t unit, std::uint32_t parts, std::uint32_t part);

/// The first extent of this kind and level; null if there is none.
const Extent* FindExtent(const std::vector<Extent>& extents, ExtentKind kind, std::size_t level = 0);

/// The record of docs/format.md §4. `extents`, `copy` and `state` differ between the copies of one commit; all other fields
/// are equal.
struct Superblock {
  Uuid uuid{};
  std::uint64_t generation = 0;
  std::uint32_t copy = 0;
  std::uint32_t copies = 2;
  std::uint64_t spacing = kMinSpacing;  ///< compact form: offset of copy 1
  SidecarState state = SidecarState::kCommitted;
  DatasetKind kind = DatasetKind::kShared;
  ParityPlacement placement = ParityPlacement::kPooled;
  std::uint32_t block_size = 0;
  std::uint64_t unit = 0;
  std::uint32_t parity = 0;
  std::uint32_t members = 0;  ///< shared file: number of devices D; set: number of members p
  std::uint32_t largest_group = 0;
  std::uint32_t rank = 0;  ///< set: rank of the member; shared file: 0, or d + 1 in the part of device directory d
  /// Time of the file system's clock just before the commit read the data (sidecar/commit_clock). If the stamp is not
  /// older, it is racy (IsRacy).
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
  /// lzy chose the block size by the size of the file. If that size changes, it may choose another one (ChooseBlockSize).
  bool automatic_block_size = false;
  /// Features of a newer lzy. This version knows none. If any is set, it may read the sidecar, but not write it.
  std::uint64_t read_only_features = 0;
  /// The compact form (docs/format.md §14): superblocks are smaller, and copies are at other places. For
  /// Sidecar::Create this is a request. Create grants it if the metadata and the parity are small enough.
  bool compact = false;
  std::vector<Extent> extents;

  /// The fields that are contiguous in docs/format.md §4. The other fields are elsewhere in the page.
  LZY_FIELDS(uuid, generation, copy, copies, spacing, state, kind, placement, block_size, unit, parity, members, largest_group, rank,
             commit_clock_ns, wall_time_ns, stamp.size, stamp.mtime_ns, stamp.inode, stamp.file_system, parity_size, parity_stride,
             first_row, data_root, parity_root, dataset_root, info_hash)
  bool sealed() const { return key_id != KeyId{}; }
  /// Whether the parity is distributed over parts, one in each device directory.
  bool parted() const { return placement == ParityPlacement::kDirectories; }
  /// Bytes of parity in the file of this superblock. If there are parts, the sidecar beside the data file has none.
  std::uint64_t parity_here() const;
  /// Offset of copy `c` in the file.
  std::uint64_t PlaceOf(std::uint32_t c) const;
  /// Size of the encoded superblock with its hash.
  std::size_t bytes() const { return compact ? kCompactSuperblockSize : kSuperblockSize; }
  std::size_t max_extents() const { return compact ? kMaxCompactExtents : kMaxExtents; }
};

/// The value of option block-size that leads to the block size of this dataset.
inline std::uint32_t BlockSizeOptionOf(const Superblock& sb) {
  return sb.automatic_block_size ? kAutomaticBlockSize : sb.block_size;
}

/// Returns superblock.bytes() bytes, with the hash. Precondition: at most max_extents() extents.
std::vector<std::uint8_t> EncodeSuperblock(const Superblock& superblock);
/// `page` begins with the superblock, and may be longer. Only the ordinary form needs all kSuperblockSize bytes. `copy`:
/// the number that a superblock at this place must have; its hash depends on it. kUnprotected: `page` has no superblock (no
/// magic). kCorrupt: the hash is wrong, or a field is impossible. kNewerFormat: only a newer lzy can read it, or it has
/// another byte order.
Result<Superblock> DecodeSuperblock(ByteSpan page, std::uint32_t copy);
/// kCorrupt if extents overlap, or if their number or length is wrong. Does not compare them with the length of the file,
/// because the file may have been truncated.
Status CheckExtents(const Superblock& superblock);
/// Number of copies of the metadata in a sidecar. A shared file has m + 1, at least two: these survive as many losses as
/// the parity. A member of a set has two, because the other members' sidecars can replace its sidecar.
std::uint32_t CopiesOf(DatasetKind kind, std::uint32_t parity);
/// The root of docs/format.md §3, from the root of the tree over the members.
Hash DatasetRootOf(const Superblock& superblock, const Hash& members_root);
/// The part of the superblock that the seal covers (docs/format.md §12): all fields that are equal in every copy and form,
/// prepared or committed.
std::vector<std::uint8_t> SealedPartOf(const Superblock& superblock);
/// True if the page has the hash of a superblock of this version, whatever its contents are. Then a version number in it
/// is not the result of rot.
bool SuperblockHashed(ByteSpan page, std::uint32_t copy);

/// The description of a member that is in all sidecars of its group. It is enough to rebuild the file, to check the result,
/// and to restore owner and times. `mode` has the permission bits (07777); `domain` is the failure domain at the commit.
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

/// The files that contain the parity of a shared file with device directories (docs/format.md §13).
struct Parts {
  /// Number of this encoding. Names of parts contain it, so lzy never uses parts of another encoding.
  std::uint64_t id = 0;
  /// Base name of every part.
  std::string name;
  /// Absolute path of the data file at the commit. Empty: unknown.
  std::string home;
  /// Absolute paths by device. Empty: there are no parts.
  std::vector<std::string> directories;
  LZY_FIELDS(id, name, home, directories)
  /// True if both describe the same files. The name of the data file does not count.
  bool SameFiles(const Parts& other) const {
    return id == other.id && name == other.name && directories == other.directories;
  }
};

/// The nodes on which a set was written (docs/format.md §5 "Nodes"). A member that no process sees may be on the disk of
/// one of them. Older versions do not record this.
struct WrittenOn {
  std::uint32_t count = 0;         ///< nodes of the whole set; 0: nothing is recorded
  std::vector<std::string> nodes;  ///< by member of the group, as InfoRecord::members; empty: nothing is recorded
  LZY_FIELDS(count, nodes)
};

/// The record of docs/format.md §5.
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
  LZY_FIELDS(name, stripe_option, group_option, groups, members, path)  ///< the parts follow, if there are any
};

std::vector<std::uint8_t> EncodeInfo(const InfoRecord& info);
/// kCorrupt if the record is malformed, or if a name in it could lead out of its directory. Does not check the hash of the
/// record.
Result<InfoRecord> DecodeInfo(ByteSpan bytes);

/// Encodes info.written_on, with a hash; empty if nothing is recorded.
std::vector<std::uint8_t> EncodeNodes(const InfoRecord& info);
/// `info` must have its members already. kCorrupt if the hash or the number of nodes is wrong.
Result<WrittenOn> DecodeNodes(ByteSpan bytes, const InfoRecord& info);

// Flags of an intent (docs/format.md §8).
inline constexpr std::uint32_t kIntentWholeFile = 1;
inline constexpr std::uint32_t kIntentRepair = 2;
inline constexpr std::uint32_t kIntentDecided = 4;  ///< not an intent: the commit of this generation and wall time was decided

inline constexpr std::uint32_t kIntentHandedOver = 8;  ///< the program writes no more: only its commit is under way

/// Bytes [offset, offset + length) of the data file.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
  LZY_FIELDS(offset, length)
};

/// States that a writer may be changing these bytes (docs/format.md §8). Valid only for the uuid and the generation in it,
/// so a new generation makes it invalid. Process, host and time identify the writer.
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

/// Whether both come from the same call of NewIntent. A commit may have copied one to another generation.
inline bool SameWriter(const Intent& a, const Intent& b) {
  return a.pid == b.pid && a.wall_time_ns == b.wall_time_ns && a.host == b.host;
}

/// Whether a repair set this intent. Then a difference is damage, not an edit.
inline bool IsOfRepair(const Intent& intent) {
  return (intent.flags & kIntentRepair) != 0;
}

/// Returns one page of kIntentPageSize bytes. `page` is its number among the intent pages; its hash depends on it.
/// Truncates the host to 64 bytes. Precondition: at most kMaxIntentRanges ranges.
std::vector<std::uint8_t> EncodeIntent(const Intent& intent, std::uint32_t page);
/// kCorrupt for every page that is not an intent, also for an empty page.
Result<Intent> DecodeIntent(ByteSpan page, std::uint32_t number);

}  // namespace lzy
