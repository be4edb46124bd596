#pragma once
// Reads what one sidecar records about its file, from its first pages. Local to one process; nothing is written.

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "sidecar/sidecar_format.h"

namespace lzy {

/// The facts that a sidecar records about its file, from superblock and info record. Without the trees, which may be large.
struct Peek {
  Uuid uuid{};
  std::uint64_t generation = 0;
  DatasetKind kind = DatasetKind::kShared;
  bool committed = false;
  std::uint32_t rank = 0;
  /// Number of members of a committed set. 0 for shared files, and for a set that was never committed.
  std::uint32_t members = 0;
  std::uint32_t parity = 0;  ///< members of a group that may be lost; 0 as above
  std::int64_t wall_time_ns = 0;
  std::int64_t commit_clock_ns = 0;  ///< clock of the file system before the commit read the data
  Stamp stamp;
  std::string name;  ///< from the info record: base name, or the tail of the pattern
  Parts parts;       ///< the parts, if its parity is in device directories
};
/// Reads as little as possible: usually a page or two and the info record. If anything is unusual, loads the whole sidecar.
/// Errors are those of Sidecar::Load. Does not check seals.
Result<Peek> PeekSidecar(FileSystem& fs, const std::string& path);
/// The same for a sidecar that is open for reading. A small sidecar takes one read.
Result<Peek> PeekSidecar(FileSystem& fs, File& file);

/// What a sidecar of a committed set records about all members of its group. `members` is empty for any other sidecar.
struct PeekedSet {
  Peek peek;
  std::uint32_t block_size = 0;
  KeyId key_id{};  ///< all zero: not sealed
  std::vector<MemberRecord> members;
};
/// Reads as much as PeekSidecar does.
Result<PeekedSet> PeekSet(FileSystem& fs, const std::string& path);

/// True if a time of birth can prove that a file is the same: it is known, and not in whole seconds. If it cannot (most
/// network file systems and FUSE), no stamp finds a file of another name, so callers need not search.
bool BirthIdentifiesFile(std::int64_t birth_ns);
/// True if `stamp` was taken of `file`, even if it was written since: inode and time of birth are known and equal. An inode
/// alone proves nothing, because file systems reuse inodes. A birth in whole seconds proves nothing, because many files are
/// made within a second. The file system id is not compared, because it changes from mount to mount.
bool IsSameFile(const FileStat& file, const Stamp& stamp);
/// True if `file` may be the file of `stamp`: like IsSameFile, but births are compared only if both are known.
bool MayBe(const FileStat& file, const Stamp& stamp);
/// True if size and mtime are those of `stamp`: the file is as committed, or is a copy that kept its times, or by chance
/// another file.
bool HasSizeAndTime(const FileStat& file, const Stamp& stamp);
/// Sets inode, file system and time of birth of `stamp` to those of `file`. Size and mtime stay.
void SetIdentity(Stamp& stamp, const FileStat& file);

}  // namespace lzy
