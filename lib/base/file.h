#pragma once
// The interfaces `File` and `FileSystem`, through which all rooms use files and directories.
//
// All code in lib/ uses storage through these two, so tests can replace it by a file system that is in memory, that records
// operations, or that fails on purpose. There are two real ones:
//  - `PosixFileSystem()`: for programs (MPI-IO layer, C API). Follows symbolic links as any program does.
//  - `GuardedFileSystem()`: for tools that root may run in directories of other users (docs/design/hooks.md §10).
//
// Offsets, lengths and sizes are bytes. Times are nanoseconds since 1970-01-01 UTC. All functions are local to the
// process; none is collective. Errors come back as a Status whose message names the path.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/record.h"
#include "base/status.h"

namespace lzy {

/// The fields of `stat` that lzy needs. Times are nanoseconds since the epoch.
struct FileStat {
  std::uint64_t size = 0;
  std::uint64_t file_system = 0;
  std::uint64_t inode = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t atime_ns = 0;
  /// The last change of content, of attributes or, on most file systems, of the name.
  std::int64_t ctime_ns = 0;
  /// When the file was made; 0 if the file system does not say.
  std::int64_t birth_ns = 0;
  /// Permission bits only (07777).
  std::uint32_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  /// Number of hard links.
  std::uint32_t links = 1;
  /// kOther includes a symbolic link that was not followed.
  enum class Type { kRegular, kDirectory, kOther } type = Type::kRegular;
  LZY_FIELDS(size, file_system, inode, mtime_ns, atime_ns, ctime_ns, birth_ns, mode, uid, gid, links, type)
};

/// Extended attributes: values by name. Names begin with "user.".
using Attributes = std::map<std::string, std::string>;

enum class OpenMode {
  kRead,        ///< must exist
  kReadWrite,   ///< must exist
  kCreate,      ///< read-write; created if missing, kept if there
  kCreateNew,   ///< read-write; must not exist
};

/// The holder of a file's lock.
struct LockHolder {
  std::int64_t process = 0;  ///< process ID as the file system reports it, perhaps of another node; 0: unknown
};

/// One open file. Its descriptor is closed when the object is destroyed. Methods may be called from several threads.
class File {
 public:
  virtual ~File() = default;
  /// Reads `to.size()` bytes, or up to the end of the file. Returns the count. kUnreadable: the medium cannot read the
  /// range (EIO, and the codes of Linux for bad media under O_DIRECT). This concerns the whole range, even if a part of it
  /// was readable.
  virtual Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) = 0;
  /// The same, but past the page cache if the system allows it: by O_DIRECT, else by dropping the cached pages first. Bytes
  /// of `to` beyond the returned count are undefined.
  virtual Result<std::size_t> ReadAtUncached(std::uint64_t offset, MutableByteSpan to) = 0;
  /// A hint: the whole file will be read, roughly from its beginning to its end.
  virtual void ExpectReading() {}
  /// The first offset, from `offset` on, with stored data. Everything between is a hole, which reads as zeros. The largest
  /// number if there is none; `offset` if the file system does not know. Some file systems know only synced data.
  virtual std::uint64_t NextData(std::uint64_t offset) { return offset; }
  /// Writes all of `from` and extends the file if needed. After an error, any part of it may have been written.
  virtual Status WriteAt(std::uint64_t offset, ByteSpan from) = 0;
  /// A hint: starts writing this range to the storage, without waiting.
  virtual void StartWriting(std::uint64_t offset, std::uint64_t length) { (void)offset, (void)length; }
  virtual Status Truncate(std::uint64_t size) = 0;
  /// When this returns ok, data and size are on stable storage. A new name also needs FileSystem::SyncDirectory.
  virtual Status Sync() = 0;
  virtual Result<FileStat> Stat() = 0;
  /// The Stat() of the moment of opening. Costs no operation if the implementation remembers it.
  virtual Result<FileStat> StatAtOpening() { return Stat(); }
  /// True if every change after a Stat() changes the mtime of the next Stat(), however soon it comes. Most file systems use
  /// the tick of the clock, some milliseconds. Linux 6.13 and later use a finer time if somebody has read the last mtime.
  virtual bool StampsEveryChange() { return false; }
  /// Sets access and modification time.
  virtual Status SetTimes(std::int64_t atime_ns, std::int64_t mtime_ns) = 0;
  /// The POSIX access ACL in the system's own encoding (extended attribute system.posix_acl_access). Empty if the file
  /// has none beyond its mode. With an ACL, the group bits of Stat().mode are the mask of the ACL, not the group's.
  virtual Result<std::vector<std::uint8_t>> AccessAcl() = 0;
  /// Gives this file the owner, ACL and mode of `like`, without execute and special bits. At no moment can a user without
  /// access to `like` open this file. Setting the owner needs privilege; a failure to set it is no error. If the group cannot be set or the
  /// ACL cannot be stored, access is narrower than that of `like`, never wider.
  virtual Status CopyAccess(File& like) = 0;
  /// Gives this file a recorded mode (07777) and, if the system allows it, a recorded owner and group. If the group cannot
  /// be set, its bits are not granted. For files that are made again without an original to copy from.
  virtual Status SetAccess(std::uint32_t mode, std::uint32_t uid, std::uint32_t gid) = 0;
  /// Extended attributes of the name space `user`, by name. Empty if the file system has none.
  virtual Result<Attributes> UserAttributes() { return Attributes(); }
  /// Sets them; others stay. Not an error if the file system has none.
  virtual Status SetUserAttributes(const Attributes& attributes) {
    (void)attributes;
    return Status::Ok();
  }
  /// Takes the advisory write lock (OFD) on the whole file, without waiting. The file must be open for writing. kBusy:
  /// another open file description holds the lock, possibly one of this process. kNotFound: another node has replaced or
  /// removed the file. The lock is released when this File is destroyed, or when the process dies.
  virtual Status Lock() = 0;
  /// The other holder of this lock, if any: another open file description, possibly one of this process. Takes no lock. The
  /// file may be open for reading only. nullopt also if the file system cannot tell.
  virtual std::optional<LockHolder> FindLockHolder() { return std::nullopt; }
  /// The path as the caller gave it, for messages. The file may have another name by now.
  virtual const std::string& path() const = 0;
  /// The system's descriptor, for another process that must read exactly this file; -1 if there is none. This object closes
  /// it.
  virtual int SystemDescriptor() const { return -1; }
};

/// A base for objects that provide only the bytes or attributes of a file. Refuses all changes, and everything that a
/// subclass does not implement.
class ReadOnlyFile : public File {
 public:
  explicit ReadOnlyFile(std::string path) : path_(std::move(path)) {}
  Result<std::size_t> ReadAt(std::uint64_t, MutableByteSpan) override { return Refuse(); }
  Result<std::size_t> ReadAtUncached(std::uint64_t, MutableByteSpan) override { return Refuse(); }
  Status WriteAt(std::uint64_t, ByteSpan) override { return Refuse(); }
  Status Truncate(std::uint64_t) override { return Refuse(); }
  Status Sync() override { return Refuse(); }
  Result<FileStat> Stat() override { return Refuse(); }
  Status SetTimes(std::int64_t, std::int64_t) override { return Refuse(); }
  Result<std::vector<std::uint8_t>> AccessAcl() override { return Refuse(); }
  Status CopyAccess(File&) override { return Refuse(); }
  Status SetAccess(std::uint32_t, std::uint32_t, std::uint32_t) override { return Refuse(); }
  Status Lock() override { return Refuse(); }
  const std::string& path() const override { return path_; }

 private:
  Status Refuse() const { return {Code::kInternal, path_ + ": was asked for what it does not have, or to change"}; }
  const std::string path_;
};

/// An entry of a directory, with the information in the list of the directory.
struct DirectoryEntry {
  std::string name;
  /// The inode as in Stat() without following a link. 0: the list has none, or it is not reliable.
  std::uint64_t inode = 0;
  /// True if it was a regular file. False also if the list does not say.
  bool regular = false;
};

/// Directory-level operations. Paths are as the caller gives them, absolute or relative to the working directory.
/// Changes of names are atomic but not durable: call SyncDirectory after them.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// Opens a regular file. Directories, FIFOs, sockets and devices are kInvalidArgument. If `follow` is false, a
  /// symbolic link in the last component is refused. `create_mode`: permissions of a file that is made (umask applies).
  virtual Result<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode, bool follow = true,
                                             std::uint32_t create_mode = 0600) = 0;
  /// kNotFound if the name does not exist.
  virtual Result<FileStat> Stat(const std::string& path, bool follow = true) = 0;
  /// Renames `from` to `to`, and replaces an existing `to` in one step.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  /// Renames only if `to` does not exist; otherwise returns false and does nothing. This is one step if the file system has
  /// such a rename, or hard links. Otherwise it checks first, so two callers can race.
  virtual Result<bool> RenameIfAbsent(const std::string& from, const std::string& to) = 0;
  /// Removes a file, not a directory. kNotFound if there is none.
  virtual Status Remove(const std::string& path) = 0;
  /// Makes created, renamed and removed entries of the directory durable.
  virtual Status SyncDirectory(const std::string& path) = 0;
  /// Names in the directory (no "." and ".."), sorted.
  virtual Result<std::vector<std::string>> List(const std::string& path) = 0;
  /// The same, with the other information in the list. Costs no operation for each name.
  virtual Result<std::vector<DirectoryEntry>> ListEntries(const std::string& path);
  /// Opens an entry for reading that a list has just reported as a regular file, without another stat before the open.
  /// Follows no link.
  virtual Result<std::unique_ptr<File>> OpenListed(const std::string& path) {
    return Open(path, OpenMode::kRead, /*follow=*/false);
  }
  /// Like mkdir -p. Makes new directories durable.
  virtual Status MakeDirectories(const std::string& path) = 0;
  /// The text of a symbolic link. kInvalidArgument if it is not a link.
  virtual Result<std::string> ReadLink(const std::string& path) {
    return Status(Code::kInvalidArgument, path + ": is no symbolic link");
  }
  /// Makes a symbolic link with this text, with the times and, as far as the system allows, the owner and group of `like`.
  /// Nothing may have the name `path`.
  virtual Status MakeLink(const std::string& text, const std::string& path, const FileStat& like) {
    (void)text, (void)like;
    return {Code::kIo, path + ": this file system has no symbolic links"};
  }
  /// Makes `path` another name of the file `of`. `path` must not exist. Links are not followed.
  virtual Status MakeHardLink(const std::string& of, const std::string& path) {
    (void)of;
    return {Code::kIo, path + ": this file system has no hard links"};
  }
  /// Extended attributes of a directory. Empty if the file system has none.
  virtual Result<Attributes> DirectoryAttributes(const std::string& path) {
    (void)path;
    return Attributes();
  }
  /// Gives a directory these extended attributes, the mode, the times and, as far as the system allows, the owner and
  /// group of `like`.
  virtual Status SetDirectory(const std::string& path, const FileStat& like, const Attributes& attributes) {
    (void)path, (void)like, (void)attributes;
    return Status::Ok();
  }
  /// Bytes that this user can still write to the directory's file system. The largest number if this is not known.
  virtual Result<std::uint64_t> FreeBytes(const std::string& directory) {
    (void)directory;
    return std::numeric_limits<std::uint64_t>::max();
  }
  /// The absolute path without symbolic links. The last component need not exist. For a dangling link, this is the path
  /// that the link points to.
  virtual Result<std::string> RealPath(const std::string& path) = 0;
  /// Identifies the view of the files. Processes of one machine with equal View() see the same files under the same paths,
  /// including relative ones. If this cannot be determined, the text is unique to this process.
  virtual std::string View();

  /// Data that a higher room keeps for this file system: one object of each type, made at first use. It lives as long as
  /// the file system. Thread-safe; the object must be, too.
  template <class T>
  T& Memo() {
    std::lock_guard lock(memo_mutex_);
    auto& memo = memos_[typeid(T)];
    if (!memo) memo = std::make_shared<T>();
    return *static_cast<T*>(memo.get());
  }

 protected:
  /// For a file system whose state can go back, as in tests.
  void ForgetMemos() {
    std::lock_guard lock(memo_mutex_);
    memos_.clear();
  }

 private:
  std::mutex memo_mutex_;
  std::map<std::type_index, std::shared_ptr<void>> memos_;
};

/// The operating system's file system. Lives until the process ends; thread-safe.
FileSystem& PosixFileSystem();
/// A file system for tools, because root may run them in directories where other users create names (docs/design/hooks.md
/// §10, "Hostile directories"). `named` has the paths that the user gave: files, directories, and the directories in which
/// patterns begin. Thread-safe.
///  - Links in `named` are followed, once. Below that no link is followed (kIo), except links to directories that the
///    user owns, unless the user is root.
///  - A path keeps leading to the directory that was opened first, even if another directory gets its name.
///  - Root follows another user's link only to something that this other user owns.
///  - Root does not write to a file with several names if another user may have made one of them.
///  - Outside of the named paths, root opens and changes files only in directories with the same owners.
std::unique_ptr<FileSystem> GuardedFileSystem(const std::vector<std::string>& named);

/// True if the stats of two processes are those of one file or directory. Inodes of node-local disks may be the same by
/// chance; times are not.
inline bool LooksSame(const FileStat& a, const FileStat& b) {
  return a.inode == b.inode && a.size == b.size && a.mtime_ns == b.mtime_ns && a.birth_ns == b.birth_ns;
}

/// True if there is a directory of this name; links are followed. False also if it cannot be examined.
bool IsDirectory(FileSystem& fs, const std::string& path);

/// The directory and the name: "dir" ("." if there is none) and "name" of "dir/name". Trailing slashes do not count; the
/// root is "/" and "".
std::string DirectoryOf(const std::string& path);
std::string BaseNameOf(const std::string& path);
/// dir + "/" + name, without doubling slashes; `name` alone if dir is empty or ".".
std::string JoinPath(const std::string& dir, const std::string& name);
/// The components between slashes, without empty ones.
std::vector<std::string> Components(const std::string& path);

/// Writes a whole file under another name beside `path`, and renames it, so that readers see the old file or the new one.
/// Several processes may do it at once. Nothing is synced: after a crash the file may be damaged.
Status ReplaceFile(FileSystem& fs, const std::string& path, const std::string& text, std::uint32_t mode);

/// Fills `to` from `offset` on. kCorrupt, with the path and "ends early", if the file is too short.
Status ReadExactly(File& file, std::uint64_t offset, MutableByteSpan to);

inline constexpr std::int64_t kNsPerSecond = 1'000'000'000;

/// True if a file has the mtime that was set. Some file systems keep only whole seconds, of all times.
constexpr bool HasMtime(const FileStat& file, std::int64_t given) {
  const std::int64_t rest = (given % kNsPerSecond + kNsPerSecond) % kNsPerSecond;
  return file.mtime_ns == given || (file.ctime_ns % kNsPerSecond == 0 && file.mtime_ns == given - rest);
}

/// The clock with which file systems set mtime (ns since the epoch), and its granularity (nominal: ticks can be late). If a
/// file changed after somebody read its times, it may have a finer mtime, ahead of this clock (Linux 6.13).
std::int64_t CoarseNowNs();
std::int64_t CoarseGranularityNs();
/// Wall-clock time (ns since 1970). For users, and to distinguish two commits of one number, or two sets of one name. No
/// verdict on a block depends on it.
std::int64_t WallClockNs();

}  // namespace lzy
