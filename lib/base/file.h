#pragma once
// Files as the layers above see them: an interface, so that tests can put an in-memory, recording or fault-injecting
// file system below everything. `PosixFileSystem()` is the real one.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/record.h"
#include "base/status.h"

namespace lzy {

/// What `stat` says, as far as lzy cares. Times are nanoseconds since the epoch.
struct FileStat {
  std::uint64_t size = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t atime_ns = 0;
  std::int64_t ctime_ns = 0;  ///< of the last change of content, attributes or, as a rule, name
  std::int64_t birth_ns = 0;  ///< when the file was made; 0 where the file system does not say
  std::uint32_t mode = 0;  ///< permission bits only (07777)
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t links = 1;
  enum class Type { kRegular, kDirectory, kOther } type = Type::kRegular;
  LZY_FIELDS(size, device, inode, mtime_ns, atime_ns, ctime_ns, birth_ns, mode, uid, gid, links, type)
};

enum class OpenMode {
  kRead,        ///< must exist
  kReadWrite,   ///< must exist
  kCreate,      ///< read-write; created if missing, kept if there
  kCreateNew,   ///< read-write; must not exist
};

/// One open file. Methods may be called from several threads. Offsets and lengths are bytes.
class File {
 public:
  virtual ~File() = default;
  /// Reads exactly `to.size()` bytes, or up to end of file: returns the count. EIO, and the codes in which Linux reports
  /// bad media under O_DIRECT, are Code::kUnreadable, for the range as a whole.
  virtual Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) = 0;
  /// The same, from the device as far as the system allows (O_DIRECT, else drop and read). `to` is undefined behind the count.
  virtual Result<std::size_t> ReadAtFromDevice(std::uint64_t offset, MutableByteSpan to) = 0;
  /// Writes all of `from`, extending the file as needed.
  virtual Status WriteAt(std::uint64_t offset, ByteSpan from) = 0;
  virtual Status Truncate(std::uint64_t size) = 0;
  /// Data and size are on stable storage when this returns.
  virtual Status Sync() = 0;
  virtual Result<FileStat> Stat() = 0;
  /// Whether any change after a Stat() shows in the next one's mtime, however soon it comes. Most file systems stamp by the
  /// clock's tick, some milliseconds; Linux since 6.13 more finely where the last stamp was looked at.
  virtual bool StampsEveryChange() { return false; }
  /// Sets access and modification time (ns since the epoch).
  virtual Status SetTimes(std::int64_t atime_ns, std::int64_t mtime_ns) = 0;
  /// The POSIX access ACL in the system's own encoding (extended attribute system.posix_acl_access); empty when the
  /// file has none beyond its mode. With an ACL, the group bits of Stat().mode are the ACL's mask, not the group's.
  virtual Result<std::vector<std::uint8_t>> AccessAcl() = 0;
  /// Gives this file the owner, mode (without execute and special bits) and ACL of `like`: at no moment does it let in
  /// anybody whom `like` keeps out. Setting the owner needs privilege and is best effort; whoever cannot be let in
  /// exactly as by `like` (group not settable, ACL not storable here) is kept out.
  virtual Status CopyAccess(File& like) = 0;
  /// Gives this file the mode (07777) and, as far as allowed, the owner and group recorded earlier; where the group cannot be
  /// set, its bits are not granted. For files that are made again when there is none left to copy from.
  virtual Status SetAccess(std::uint32_t mode, std::uint32_t uid, std::uint32_t gid) = 0;
  /// Takes the advisory write lock (OFD) on the whole file, which must be open for writing; kBusy when another open
  /// file description holds it, be it of this process. Released when this File goes.
  virtual Status Lock() = 0;
  virtual const std::string& path() const = 0;
};

/// Directory-level operations. Paths are as the caller gives them.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// Opens without following a symlink in the last component when `follow` is false; only regular files open
  /// (directories, FIFOs, sockets and devices are kInvalidArgument).
  virtual Result<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode, bool follow = true,
                                             std::uint32_t create_mode = 0600) = 0;
  virtual Result<FileStat> Stat(const std::string& path, bool follow = true) = 0;
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  /// Renames only if nothing has the name `to`; false, and nothing done, when something has. One step to everybody else
  /// where the file system can rename so or make hard links; on others, as good as looking first.
  virtual Result<bool> RenameIfAbsent(const std::string& from, const std::string& to) = 0;
  virtual Status Remove(const std::string& path) = 0;
  /// Makes created, renamed and removed entries of the directory durable.
  virtual Status SyncDirectory(const std::string& path) = 0;
  /// Names in the directory (no "." and ".."), sorted.
  virtual Result<std::vector<std::string>> List(const std::string& path) = 0;
  /// Like mkdir -p; directories made are durable.
  virtual Status MakeDirectories(const std::string& path) = 0;
  /// Bytes that this user can still write to the directory's file system; the most there can be where nobody can tell.
  virtual Result<std::uint64_t> FreeBytes(const std::string& directory) {
    (void)directory;
    return std::numeric_limits<std::uint64_t>::max();
  }
  /// Absolute path with symlinks resolved; the last component need not exist (of a dangling symlink: where it points).
  virtual Result<std::string> RealPath(const std::string& path) = 0;
};

/// The operating system's file system. Lives forever; thread-safe.
FileSystem& PosixFileSystem();
/// The same for tools, which root may run in a directory where somebody else plants what he likes (docs/design.md §10,
/// "Hostile directories"). `named` is what the user named: files, directories, and those that patterns begin in. Links
/// are followed in that, once; in what is below it none is (kIo), but for directories that are links of the user's own,
/// unless he is root. A directory stays what it was at the first look, whatever gets its name. Root goes through other
/// users' links to what is their own only; writes to no file of several names where others may have given it one; and
/// changes and opens nothing outside of what was named, but in directories of the same owners. Thread-safe.
std::unique_ptr<FileSystem> GuardedFileSystem(const std::vector<std::string>& named);

/// "dir" of "dir/name" ("." when there is none) and "name". Trailing slashes do not count; the root is "/" and "".
std::string DirectoryOf(const std::string& path);
std::string BaseNameOf(const std::string& path);
/// dir + "/" + name, without doubling slashes; `name` alone when dir is empty or ".".
std::string JoinPath(const std::string& dir, const std::string& name);

/// Reads all of [offset, offset+size) or fails with kCorrupt naming the file ("ends early").
Status ReadExactly(File& file, std::uint64_t offset, MutableByteSpan to);

/// The clock file systems stamp mtime with, ns since the epoch, and how coarse it is (nominally: ticks can be late). A
/// file changed after somebody asked for its times may have a finer stamp, ahead of this clock (Linux 6.13 and later).
std::int64_t CoarseNowNs();
std::int64_t CoarseGranularityNs();

}  // namespace lzy
