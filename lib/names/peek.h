#pragma once
// What one sidecar says about its owner, read from its first pages. Local to one process; nothing is written.

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "sidecar/sidecar_format.h"

namespace lzy {

/// What a sidecar says about its owner: from superblock and info record, without the trees, which may be large.
struct Peek {
  Uuid uuid{};
  std::uint64_t generation = 0;
  DatasetKind kind = DatasetKind::kShared;
  bool committed = false;
  std::uint32_t rank = 0;
  /// Number of members of a committed set. 0 for shared files, and for a set that was never committed.
  std::uint32_t members = 0;
  std::int64_t wall_time_ns = 0;
  std::int64_t commit_clock_ns = 0;  ///< of the file system, before the data were read
  Stamp stamp;
  std::string name;  ///< of the info record: base name, or the tail of the pattern
  Parts parts;       ///< where its parity is, if in device directories
};
/// Reads as little as possible: as a rule a page or two and the info record. If that shows anything unusual, it loads
/// the whole sidecar. Errors are those of Sidecar::Load. Seals are not checked.
Result<Peek> PeekSidecar(FileSystem& fs, const std::string& path);
/// The same of a sidecar that was opened for reading: by one read if it is small.
Result<Peek> PeekSidecar(FileSystem& fs, File& file);

/// What a sidecar of a committed set says about all members of its group. `members`: empty for anything else.
struct PeekedSet {
  Peek peek;
  std::uint32_t block_size = 0;
  KeyId key_id{};  ///< all zero: not sealed
  std::vector<MemberRecord> members;
};
/// Reads as much as PeekSidecar does.
Result<PeekedSet> PeekSet(FileSystem& fs, const std::string& path);

/// Whether a time of birth can prove that a file is the same: it is known, and not in whole seconds. No file of another name is
/// ever found by a stamp with another one, so nobody needs to look for it (most network file systems and FUSE).
bool TellsFilesApart(std::int64_t birth_ns);
/// Whether `file` is the one that `stamp` was taken of, whatever was written to it since: inode and time of birth are
/// known and the same. File systems give an inode out again, so an inode alone proves nothing. Nor does a birth in whole
/// seconds: file systems with such a clock make many files within one. The device number does not count, because it
/// changes from mount to mount.
bool IsSameFile(const FileStat& file, const Stamp& stamp);
/// Whether nothing says that `file` is another one: as IsSameFile, but births count only if both are known.
bool MayBe(const FileStat& file, const Stamp& stamp);
/// Whether size and mtime are those of `stamp`: the file as it was committed, or a copy that kept its times, or by
/// chance another file.
bool HasSizeAndTime(const FileStat& file, const Stamp& stamp);
/// Makes `stamp` one of `file`: inode, device and time of birth. Size and mtime stay.
void SetIdentity(Stamp& stamp, const FileStat& file);

}  // namespace lzy
