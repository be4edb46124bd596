#pragma once
// Files and directories as the layers above see them: the interfaces `File` and `FileSystem`.
//
// Everything in lib/ reaches storage through these two, so tests can put a file system below it that is in memory,
// that records, or that fails on purpose. There are two real ones:
//  - `PosixFileSystem()`: for programs (MPI-IO layer, C API). Symbolic links are followed as in any program.
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

/// What `stat` says, as far as lzy needs it. Times are nanoseconds since the epoch.
struct FileStat {
  std::uint64_t size = 0;
  std::uint64_t device = 0;
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
  LZY_FIELDS(size, device, inode, mtime_ns, atime_ns, ctime_ns, birth_ns, mode, uid, gid, links, type)
};

/// Extended attributes: values by names, which begin with "user.".
using Attributes = std::map<std::string, std::string>;

enum class OpenMode {
  kRead,        ///< must exist
  kReadWrite,   ///< must exist
  kCreate,      ///< read-write; created if missing, kept if there
  kCreateNew,   ///< read-write; must not exist
};

/// Somebody who holds the lock of a file.
struct LockHolder {
  std::int64_t process = 0;  ///< as the file system tells it, perhaps of another node; 0: it does not tell
};

/// One open file. Its descriptor is closed when the object is destroyed. Methods may be called from several threads.
class File {
 public:
  virtual ~File() = default;
  /// Reads `to.size()` bytes, or as many as there are up to the end of the file. Returns the count.
  /// kUnreadable: the medium does not yield the range (EIO, and the codes of Linux for bad media under O_DIRECT). It is
  /// said of the whole range, even if a part of it could be read.
  virtual Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) = 0;
  /// The same, but past the page cache if the system allows it: by O_DIRECT, else by dropping the cached pages first.
  /// Bytes of `to` beyond the returned count are undefined.
  virtual Result<std::size_t> ReadAtFromDevice(std::uint64_t offset, MutableByteSpan to) = 0;
  /// A hint: all of the file will be read, about from its beginning to its end.
  virtual void ExpectReading() {}
  /// The first offset, from `offset` on, where something is stored: all before it are holes, which read as zeros. The
  /// largest number if there is none; `offset` if the file system cannot tell. Some file systems know only what was
  /// synced.
  virtual std::uint64_t NextData(std::uint64_t offset) { return offset; }
  /// Writes all of `from` and extends the file if needed. After an error, any part of it may have been written.
  virtual Status WriteAt(std::uint64_t offset, ByteSpan from) = 0;
  /// A hint: begins to bring what was written in this range to the device, and does not wait for it.
  virtual void StartWriting(std::uint64_t offset, std::uint64_t length) { (void)offset, (void)length; }
  virtual Status Truncate(std::uint64_t size) = 0;
  /// When this returns ok, data and size are on stable storage. A new name also needs FileSystem::SyncDirectory.
  virtual Status Sync() = 0;
  virtual Result<FileStat> Stat() = 0;
  /// What Stat() said when the file was opened. Where that is remembered, it needs no operation.
  virtual Result<FileStat> StatAtOpening() { return Stat(); }
  /// Whether every change after a Stat() shows in the mtime of the next one, however soon it comes. Most file systems
  /// stamp by the tick of the clock, which is some milliseconds. Linux 6.13 and later stamps more finely if somebody
  /// has looked at the last stamp.
  virtual bool StampsEveryChange() { return false; }
  /// Sets access and modification time.
  virtual Status SetTimes(std::int64_t atime_ns, std::int64_t mtime_ns) = 0;
  /// The POSIX access ACL in the system's own encoding (extended attribute system.posix_acl_access). Empty if the file
  /// has none beyond its mode. With an ACL, the group bits of Stat().mode are the mask of the ACL, not the group's.
  virtual Result<std::vector<std::uint8_t>> AccessAcl() = 0;
  /// Gives this file the owner, ACL and mode of `like`, without execute and special bits. At no moment can anybody
  /// open it whom `like` keeps out. Setting the owner needs privilege and is best effort. If the group cannot be set or
  /// the ACL cannot be stored, access is narrower than that of `like`, never wider.
  virtual Status CopyAccess(File& like) = 0;
  /// Gives this file a recorded mode (07777) and, as far as the system allows, a recorded owner and group. If the group
  /// cannot be set, its bits are not granted. For files that are made again when no original is left to copy from.
  virtual Status SetAccess(std::uint32_t mode, std::uint32_t uid, std::uint32_t gid) = 0;
  /// Extended attributes of the name space `user`, by name. Empty if the file system has none.
  virtual Result<Attributes> UserAttributes() { return Attributes(); }
  /// Sets them; others stay. Not an error if the file system has none.
  virtual Status SetUserAttributes(const Attributes& attributes) {
    (void)attributes;
    return Status::Ok();
  }
  /// Takes the advisory write lock (OFD) on the whole file, without waiting. The file must be open for writing.
  /// kBusy: another open file description holds it, possibly one of this process. kNotFound: another node has replaced or
  /// removed the file. Released when this File is destroyed, or when the process dies.
  virtual Status Lock() = 0;
  /// Who else holds that lock, if anybody does: another open file description, possibly one of this process. Takes no lock,
  /// and needs a file that is open for reading only. Nothing, too, if the file system cannot tell.
  virtual std::optional<LockHolder> FindLockHolder() { return std::nullopt; }
  /// The path as the caller gave it, for messages. The file may have another name by now.
  virtual const std::string& path() const = 0;
  /// The system's descriptor, for another process that is to read this very file. It is closed with this object. -1: this
  /// file has none.
  virtual int SystemDescriptor() const { return -1; }
};

/// A file that is only read: what changes a file is refused, and so is what a subclass does not have. For what has
/// the bytes of a file, or its attributes, without being one.
class ReadOnlyFile : public File {
 public:
  explicit ReadOnlyFile(std::string path) : path_(std::move(path)) {}
  Result<std::size_t> ReadAt(std::uint64_t, MutableByteSpan) override { return Refuse(); }
  Result<std::size_t> ReadAtFromDevice(std::uint64_t, MutableByteSpan) override { return Refuse(); }
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

/// An entry of a directory, as far as the list of the directory tells.
struct DirectoryEntry {
  std::string name;
  /// The inode of its Stat(), without following a link. 0: the list does not tell, or not for sure.
  std::uint64_t inode = 0;
  /// Whether it was a regular file. False if the list does not tell.
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
  /// kNotFound if there is nothing of the name.
  virtual Result<FileStat> Stat(const std::string& path, bool follow = true) = 0;
  /// Replaces what has the name `to`, in one step.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  /// Renames only if nothing has the name `to`; otherwise returns false and does nothing. It is one step if the file
  /// system can rename in this way or make hard links. On others it looks first, so two callers can race.
  virtual Result<bool> RenameIfAbsent(const std::string& from, const std::string& to) = 0;
  /// Removes a file, not a directory. kNotFound if there is none.
  virtual Status Remove(const std::string& path) = 0;
  /// Makes created, renamed and removed entries of the directory durable.
  virtual Status SyncDirectory(const std::string& path) = 0;
  /// Names in the directory (no "." and ".."), sorted.
  virtual Result<std::vector<std::string>> List(const std::string& path) = 0;
  /// The same, and what the list tells besides. No operation for each name.
  virtual Result<std::vector<DirectoryEntry>> ListEntries(const std::string& path);
  /// Opens for reading what a list just told to be a regular file, so nobody looks again what it is before it is opened.
  /// No link is followed.
  virtual Result<std::unique_ptr<File>> OpenListed(const std::string& path) {
    return Open(path, OpenMode::kRead, /*follow=*/false);
  }
  /// Like mkdir -p. Directories that are made are durable.
  virtual Status MakeDirectories(const std::string& path) = 0;
  /// The text of a symbolic link. kInvalidArgument: it is none.
  virtual Result<std::string> ReadLink(const std::string& path) {
    return Status(Code::kInvalidArgument, path + ": is no symbolic link");
  }
  /// Makes a symbolic link with this text, with the times and, as far as the system allows, the owner and group of `like`.
  /// Nothing may have the name `path`.
  virtual Status MakeLink(const std::string& text, const std::string& path, const FileStat& like) {
    (void)text, (void)like;
    return {Code::kIo, path + ": this file system has no symbolic links"};
  }
  /// Makes `path` a further name of the file `of`. Nothing may have it yet. Links are not followed.
  virtual Status MakeHardLink(const std::string& of, const std::string& path) {
    (void)of;
    return {Code::kIo, path + ": this file system has no hard links"};
  }
  /// Those of a directory. Empty if the file system has none.
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
  /// Bytes that this user can still write to the directory's file system. If nobody can tell, the largest number.
  virtual Result<std::uint64_t> FreeBytes(const std::string& directory) {
    (void)directory;
    return std::numeric_limits<std::uint64_t>::max();
  }
  /// The absolute path without symbolic links. The last component need not exist; for a dangling link, this is where
  /// the link points to.
  virtual Result<std::string> RealPath(const std::string& path) = 0;
  /// Processes of one machine for which this is the same see the same files under the same paths, relative ones too.
  /// If that cannot be told, it is a text of this process alone.
  virtual std::string View();

  /// What a layer above remembers of this file system: one object of each type, made at first use. It lives as long as
  /// the file system. Thread-safe; the object must be, too.
  template <class T>
  T& Memo() {
    std::lock_guard lock(memo_mutex_);
    auto& memo = memos_[typeid(T)];
    if (!memo) memo = std::make_shared<T>();
    return *static_cast<T*>(memo.get());
  }

 protected:
  /// For a file system whose past can change, as in tests.
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
/// The same for tools, which root may run in directories where another user can plant anything (docs/design/hooks.md §10,
/// "Hostile directories"). `named` is what the user named: files, directories, and those that patterns begin in.
/// Thread-safe.
///  - Links in `named` are followed, once. Below that no link is followed (kIo), except links to directories that the
///    user owns, unless the user is root.
///  - A directory stays what it was at the first look, whatever gets its name later.
///  - Root follows another user's link only to something that this other user owns.
///  - Root does not write to a file of several names if other users may have given it one of them.
///  - Outside of what was named, root opens and changes files only in directories of the same owners.
std::unique_ptr<FileSystem> GuardedFileSystem(const std::vector<std::string>& named);

/// Whether two processes see the same file or directory, by what each of them sees. Inodes of node-local disks may be the
/// same by chance; times are not.
inline bool LooksSame(const FileStat& a, const FileStat& b) {
  return a.inode == b.inode && a.size == b.size && a.mtime_ns == b.mtime_ns && a.birth_ns == b.birth_ns;
}

/// Whether there is a directory of this name; links are followed. Not to tell what is missing from what cannot be seen.
bool IsDirectory(FileSystem& fs, const std::string& path);

/// "dir" of "dir/name" ("." if there is none) and "name". Trailing slashes do not count; the root is "/" and "".
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

/// Whether a file has the mtime that it was given. Some file systems keep whole seconds only, of all times.
constexpr bool HasMtime(const FileStat& file, std::int64_t given) {
  const std::int64_t rest = (given % kNsPerSecond + kNsPerSecond) % kNsPerSecond;
  return file.mtime_ns == given || (file.ctime_ns % kNsPerSecond == 0 && file.mtime_ns == given - rest);
}

/// The clock that file systems stamp mtime with (ns since the epoch), and its granularity (nominal: ticks can be late).
/// A file that changed after somebody looked at its times may have a finer stamp, ahead of this clock (Linux 6.13).
std::int64_t CoarseNowNs();
std::int64_t CoarseGranularityNs();
/// Wall-clock time (ns since 1970). For people, and to tell two commits of one number, or two sets of one name, apart. No
/// verdict on a block depends on it.
std::int64_t WallClockNs();

}  // namespace lzy
