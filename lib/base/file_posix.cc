// One open file: reading through and past the page cache, writing, syncing, access, locks. directory_posix.cc has what
// concerns names. Both file systems open their files here (posix::Open at the end).
//
// Invariants: no call raises SIGXFSZ or blocks on a FIFO, because lzy is a guest in other programs. Every call that a
// signal can interrupt is repeated.

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <linux/limits.h>
#include <linux/magic.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>

#include "base/file.h"
#include "base/file_posix.h"
#include "base/printable.h"
#include "fmt/format.h"

namespace lzy {

using posix::CheckPath;
using posix::Descriptor;
using posix::NotRegular;
using posix::Place;
using posix::Retry;
using posix::StatAt;
using posix::SystemError;

namespace {

/// What a user can do about an error, if that is not obvious; empty for most.
std::string Remedy(const std::string& path, int error) {
  switch (error) {
    case ENOSPC: {
      const std::string directory = ShellQuote(DirectoryOf(path));
      return fmt::format(" (make room there: df -h {0}; df -i {0})", directory);
    }
    case EDQUOT:
      return " (make room there, or have the quota raised)";
    case EFBIG:
      return " (the limit is that of ulimit -f, or of the file system)";
    default:
      return "";
  }
}

}  // namespace

Status posix::SystemError(const std::string& path, std::string_view operation, int error) {
  Code code = error == ENOENT ? Code::kNotFound : error == ENOMEM ? Code::kNoMemory : Code::kIo;
  return Status(code, fmt::format("{}: {}: {}{}", path, operation, std::generic_category().message(error),
                                  Remedy(path, error)));
}

Status posix::NotRegular(const std::string& path) {
  return Status(Code::kInvalidArgument, path + ": not a regular file");
}

Status posix::CheckPath(const std::string& path) {
  if (path.find('\0') == std::string::npos) return Status::Ok();
  return Status(Code::kInvalidArgument, path.substr(0, path.find('\0')) + ": path with a NUL character in it");
}

namespace {

constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;  // Linux stops a little short of 2 GiB
constexpr std::size_t kDirectAlignment = 4096;              // covers 512 and 4096 byte sectors
constexpr std::size_t kDirectBufferSize = std::size_t{4} << 20;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr const char* kAclName = "system.posix_acl_access";

timespec FromNs(std::int64_t ns) {
  std::int64_t nanoseconds = ns % kNsPerSecond;
  // Before 1970, % yields a negative rest, but tv_nsec still counts forward.
  if (nanoseconds < 0) nanoseconds += kNsPerSecond;
  timespec time{};
  time.tv_sec = (ns - nanoseconds) / kNsPerSecond;
  time.tv_nsec = nanoseconds;
  return time;
}

/// The errors by which Linux reports a range that the medium no longer yields. EIO comes from the page cache. Under
/// O_DIRECT the codes of the block layer come through (blk_errors[] in block/blk-core.c). File systems with checksums
/// have codes of their own. All of these are erasures to be repaired, not failures of the operation.
bool IsMediumError(int error) {
  return error == EIO || error == ENODATA || error == EREMOTEIO || error == EILSEQ || error == EBADMSG ||
         error == EUCLEAN;
}

/// Whether a write up to `end` would pass RLIMIT_FSIZE. The kernel raises SIGXFSZ then, which would kill the program
/// that lzy is a guest of. So check before each write.
bool ExceedsFileSizeLimit(std::uint64_t end) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur;
}

/// Takes the execute permission out of every entry of a POSIX ACL (linux/posix_acl_xattr.h: u32 version, then entries
/// of u16 tag, u16 permissions, u32 id, all little-endian).
void ClearExecute(std::vector<std::uint8_t>& acl) {
  constexpr std::size_t kHeader = 4, kEntry = 8, kPermissions = 2;
  for (std::size_t at = kHeader; at + kEntry <= acl.size(); at += kEntry) {
    std::uint8_t* permissions = acl.data() + at + kPermissions;
    StoreLe(permissions, static_cast<std::uint16_t>(LoadLe<std::uint16_t>(permissions) & ~1u));
  }
}

/// A regular file by its descriptor. It remembers its name, too, for O_DIRECT and for a temporary file beside it. The
/// name's directory is a weak pointer: a GuardedFileSystem may close directories that it does not need any more.
class PosixFile final : public File {
 public:
  PosixFile(const Place& place, Descriptor fd)
      : path_(place.path),
        name_(place.name),
        relative_(place.directory != nullptr),
        directory_(place.directory),
        fd_(std::move(fd)) {}

  Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) override;
  Result<std::size_t> ReadAtFromDevice(std::uint64_t offset, MutableByteSpan to) override;
  Status WriteAt(std::uint64_t offset, ByteSpan from) override;
  Status Truncate(std::uint64_t size) override;
  Status Sync() override;
  Result<FileStat> Stat() override;
  bool StampsEveryChange() override;
  Status SetTimes(std::int64_t atime_ns, std::int64_t mtime_ns) override;
  Result<std::vector<std::uint8_t>> AccessAcl() override;
  Status CopyAccess(File& like) override;
  Status SetAccess(std::uint32_t mode, std::uint32_t uid, std::uint32_t gid) override;
  Status Lock() override;
  const std::string& path() const override { return path_; }

 private:
  Status Error(std::string_view operation, int error) const { return SystemError(path_, operation, error); }
  Status ReadError(std::uint64_t offset, std::size_t size, int error) const;
  Status CheckRange(std::uint64_t offset, std::uint64_t size) const;
  /// The descriptor for O_DIRECT, opened at first use; -1 if the file system does not support it.
  int DirectDescriptor();
  Descriptor OpenDirect() const;
  /// Reads with O_DIRECT from `fd`. kInvalidArgument if the file system does not support it after all.
  Result<std::size_t> ReadDirect(int fd, std::uint64_t offset, MutableByteSpan to);
  /// Writes back and drops the cached pages of the range, then reads.
  Result<std::size_t> DropAndRead(std::uint64_t offset, MutableByteSpan to);
  Status ChangeMode(std::uint32_t mode);
  /// Sets owner and group as far as allowed; returns the file's state afterwards.
  Result<FileStat> ChangeOwner(const FileStat& want);

  /// Where the file is by name. Nothing if its directory has been closed meanwhile.
  std::optional<Place> Whereabouts() const {
    Place place{directory_.lock(), name_, path_};
    return relative_ && !place.directory ? std::nullopt : std::optional(std::move(place));
  }

  const std::string path_;
  const std::string name_;
  // Whether name_ is relative to directory_ (and not to the working directory).
  const bool relative_;
  const std::weak_ptr<const Descriptor> directory_;
  const Descriptor fd_;
  std::once_flag direct_once_;
  Descriptor direct_;
  // Cleared for good by the first thread that finds that O_DIRECT does not work; the descriptor stays open.
  std::atomic<bool> direct_works_{false};
};

// Bad media are kUnreadable, with range and size, because a repair can mend them. All else is kIo.
Status PosixFile::ReadError(std::uint64_t offset, std::size_t size, int error) const {
  if (!IsMediumError(error)) return Error(fmt::format("read at offset {}", offset), error);
  return Status(Code::kUnreadable, fmt::format("{}: read of {} bytes at offset {}: {}", path_, size, offset,
                                               std::generic_category().message(error)));
}

// Offsets may come from a hostile sidecar. Beyond off_t the casts below would turn them into other, valid offsets.
Status PosixFile::CheckRange(std::uint64_t offset, std::uint64_t size) const {
  constexpr auto kLimit = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
  if (offset <= kLimit && size <= kLimit - offset) return Status::Ok();
  return Status(Code::kInvalidArgument,
                fmt::format("{}: {} bytes at offset {} are beyond what a file can hold", path_, size, offset));
}

// Short reads are repeated until the buffer is full or the file ends: signals and network file systems cause them, too.
Result<std::size_t> PosixFile::ReadAt(std::uint64_t offset, MutableByteSpan to) {
  LZY_RETURN_IF_ERROR(CheckRange(offset, to.size()));
  std::size_t done = 0;
  while (done < to.size()) {
    std::size_t want = std::min(to.size() - done, kMaxTransfer);
    ssize_t got = Retry([&] { return pread(fd_.get(), to.data() + done, want, static_cast<off_t>(offset + done)); });
    if (got < 0) return ReadError(offset + done, want, errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

Result<std::size_t> PosixFile::ReadAtFromDevice(std::uint64_t offset, MutableByteSpan to) {
  LZY_RETURN_IF_ERROR(CheckRange(offset, to.size()));
  if (to.empty()) return std::size_t{0};
  // Some file systems open with O_DIRECT and refuse only the read. Fall back then, and do not try again.
  if (int direct = DirectDescriptor(); direct >= 0) {
    Result<std::size_t> got = ReadDirect(direct, offset, to);
    if (got.ok() || got.status().code() != Code::kInvalidArgument) return got;
    direct_works_ = false;
  }
  return DropAndRead(offset, to);
}

int PosixFile::DirectDescriptor() {
  std::call_once(direct_once_, [this] {
    direct_ = OpenDirect();
    direct_works_ = direct_.valid();
  });
  return direct_works_ ? direct_.get() : -1;
}

// A second descriptor, because O_DIRECT on the first would need aligned writes. By /proc it is surely the same file,
// even after a rename or removal. Without /proc it is opened by name; device and inode then show whether it is the
// same.
Descriptor PosixFile::OpenDirect() const {
  constexpr int kFlags = O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  std::string self = fmt::format("/proc/self/fd/{}", fd_.get());
  Descriptor direct(Retry([&] { return open(self.c_str(), kFlags); }));
  if (direct.valid()) return direct;
  const auto place = Whereabouts();
  if (!place) return Descriptor();
  const int flags = kFlags | (relative_ ? O_NOFOLLOW : 0);
  Descriptor by_name(Retry([&] { return openat(place->at(), place->name.c_str(), flags); }));
  struct stat ours {};
  struct stat theirs {};
  bool same = by_name.valid() && fstat(fd_.get(), &ours) == 0 && fstat(by_name.get(), &theirs) == 0 &&
              ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
  return same ? std::move(by_name) : Descriptor();
}

// O_DIRECT needs aligned offsets, lengths and buffers. So this reads in two phases: whole sectors straight into `to` if
// everything is aligned, then the rest by way of an aligned buffer that covers a little more than was asked for.
Result<std::size_t> PosixFile::ReadDirect(int fd, std::uint64_t offset, MutableByteSpan to) {
  std::size_t done = 0;
  if (offset % kDirectAlignment == 0 && reinterpret_cast<std::uintptr_t>(to.data()) % kDirectAlignment == 0) {
    // Phase 1: whole sectors, without a copy. It ends at the first read that stops within a sector.
    const std::size_t whole = to.size() / kDirectAlignment * kDirectAlignment;
    while (done < whole) {
      const ssize_t got = Retry([&] {
        return pread(fd, to.data() + done, std::min(whole - done, kMaxTransfer), static_cast<off_t>(offset + done));
      });
      if (got < 0 && (errno == EINVAL || errno == EOPNOTSUPP)) return Status(Code::kInvalidArgument, "no O_DIRECT");
      if (got < 0) return ReadError(offset + done, whole - done, errno);
      done += static_cast<std::size_t>(got) / kDirectAlignment * kDirectAlignment;
      if (got == 0 || static_cast<std::size_t>(got) % kDirectAlignment != 0) break;
    }
    if (done == to.size()) return done;
  }
  // Phase 2: from the sector that holds the next byte on, by way of the buffer.
  const std::uint64_t end = offset + to.size();
  std::uint64_t at = (offset + done) / kDirectAlignment * kDirectAlignment;
  const std::uint64_t span = (end - at + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
  const auto buffer_size = static_cast<std::size_t>(std::min<std::uint64_t>(span, kDirectBufferSize));
  std::unique_ptr<std::uint8_t, decltype(&std::free)> buffer(
      static_cast<std::uint8_t*>(std::aligned_alloc(kDirectAlignment, buffer_size)), &std::free);
  if (!buffer) return Error("read", ENOMEM);

  while (done < to.size()) {
    // Invariant: `at` is aligned and at most offset + done, which is less than at + kDirectAlignment.
    ssize_t got = Retry([&] { return pread(fd, buffer.get(), buffer_size, static_cast<off_t>(at)); });
    if (got < 0 && (errno == EINVAL || errno == EOPNOTSUPP)) return Status(Code::kInvalidArgument, "no O_DIRECT");
    if (got < 0) return ReadError(at, buffer_size, errno);
    const std::uint64_t read_end = at + static_cast<std::uint64_t>(got);
    const std::uint64_t from = offset + done;
    if (read_end > from) {
      auto count = static_cast<std::size_t>(std::min(read_end, end) - from);
      std::copy_n(buffer.get() + (from - at), count, to.data() + done);
      done += count;
    }
    if (read_end <= from || static_cast<std::size_t>(got) % kDirectAlignment != 0) {
      // The read ended within a sector. As a rule this is the end of the file. If not, the next sector is bad, or the
      // file system behaves in its own way. The other method then decides, for this read only.
      if (done == to.size()) break;
      LZY_ASSIGN_OR_RETURN(FileStat stat, Stat());
      if (read_end < stat.size) return DropAndRead(offset, to);
      break;
    }
    at = read_end;
  }
  return done;
}

Result<std::size_t> PosixFile::DropAndRead(std::uint64_t offset, MutableByteSpan to) {
  // Dirty pages cannot be dropped, so they are written back first. The kernel reports a write error to a descriptor
  // only once. So it is returned here: a later Sync() would not see it.
  if (Retry([&] { return fdatasync(fd_.get()); }) != 0 && errno != EINVAL && errno != EROFS) {
    return Error("fdatasync", errno);
  }
  const std::uint64_t start = offset / kDirectAlignment * kDirectAlignment;
  // Only pages that lie wholly in the range are dropped, so the range is extended to whole pages.
  const std::uint64_t length = offset + to.size() - start + kDirectAlignment;
  posix_fadvise(fd_.get(), static_cast<off_t>(start), static_cast<off_t>(length), POSIX_FADV_DONTNEED);
  return ReadAt(offset, to);
}

Status PosixFile::WriteAt(std::uint64_t offset, ByteSpan from) {
  LZY_RETURN_IF_ERROR(CheckRange(offset, from.size()));
  if (from.empty()) return Status::Ok();
  if (ExceedsFileSizeLimit(offset + from.size())) return Error("write", EFBIG);
  std::size_t done = 0;
  while (done < from.size()) {
    std::size_t want = std::min(from.size() - done, kMaxTransfer);
    ssize_t put = Retry([&] { return pwrite(fd_.get(), from.data() + done, want, static_cast<off_t>(offset + done)); });
    // A write that takes nothing and gives no error would loop forever.
    if (put <= 0) return Error(fmt::format("write at offset {}", offset + done), put < 0 ? errno : EIO);
    done += static_cast<std::size_t>(put);
  }
  return Status::Ok();
}

Status PosixFile::Truncate(std::uint64_t size) {
  LZY_RETURN_IF_ERROR(CheckRange(size, 0));
  // Only growth raises SIGXFSZ. A file that is already longer than the limit may be cut.
  if (ExceedsFileSizeLimit(size)) {
    LZY_ASSIGN_OR_RETURN(FileStat stat, Stat());
    if (size > stat.size) return Error("truncate", EFBIG);
  }
  if (Retry([&] { return ftruncate(fd_.get(), static_cast<off_t>(size)); }) != 0) return Error("truncate", errno);
  return Status::Ok();
}

// fsync, not fdatasync: a commit compares the mtime, so that must be as durable as the data.
Status PosixFile::Sync() {
  if (Retry([&] { return fsync(fd_.get()); }) != 0) return Error("fsync", errno);
  return Status::Ok();
}

namespace {

// Whether this is one of the local file systems, whose stamps are all made by this kernel. On a network file system the
// server or another client makes stamps, so a test here says nothing about them.
bool HasLocalStamps(int fd) {
  struct statfs about {};
  if (fstatfs(fd, &about) != 0) return false;
  const auto type = static_cast<std::uint32_t>(about.f_type);
  return type == EXT4_SUPER_MAGIC || type == XFS_SUPER_MAGIC || type == TMPFS_MAGIC || type == BTRFS_SUPER_MAGIC;
}

// Changes a file without a name twice and compares the stamps. If the clock ticked between the two changes, the stamps
// differ anyway; then the attempt says nothing and is repeated.
bool TellsChangesOfOneTick(int at, const std::string& directory) {
  const Descriptor file(Retry([&] { return openat(at, directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); }));
  if (!file.valid()) return false;
  const auto change = [&](struct stat& about) {
    return pwrite(file.get(), "x", 1, 0) == 1 && fstat(file.get(), &about) == 0;
  };
  for (int attempt = 0; attempt < 10; ++attempt) {
    struct stat first {};
    struct stat second {};
    const std::int64_t tick = CoarseNowNs();
    if (!change(first) || !change(second)) return false;
    if (CoarseNowNs() != tick) continue;
    return first.st_mtim.tv_sec != second.st_mtim.tv_sec || first.st_mtim.tv_nsec != second.st_mtim.tv_nsec;
  }
  return false;
}

}  // namespace

// Measured once for each device and remembered for the life of the process. The test file is made in the directory of
// this file, which is checked to be on the same device: a mount point or a symbolic link may lie between.
bool PosixFile::StampsEveryChange() {
  static std::mutex mutex;
  static std::map<dev_t, bool> known;
  struct stat about {};
  if (fstat(fd_.get(), &about) != 0 || !HasLocalStamps(fd_.get())) return false;
  const std::lock_guard lock(mutex);
  const auto at = known.find(about.st_dev);
  if (at != known.end()) return at->second;
  const auto place = Whereabouts();
  if (!place) return false;
  const std::string directory = DirectoryOf(place->name);
  struct stat there {};
  if (fstatat(place->at(), directory.c_str(), &there, 0) != 0 || there.st_dev != about.st_dev) return false;
  return known[about.st_dev] = TellsChangesOfOneTick(place->at(), directory);
}

Result<FileStat> PosixFile::Stat() {
  return StatAt(fd_.get(), "", AT_EMPTY_PATH, path());
}

Status PosixFile::SetTimes(std::int64_t atime_ns, std::int64_t mtime_ns) {
  const timespec times[2] = {FromNs(atime_ns), FromNs(mtime_ns)};
  if (futimens(fd_.get(), times) != 0) return Error("set times", errno);
  return Status::Ok();
}

Result<std::vector<std::uint8_t>> PosixFile::AccessAcl() {
  std::vector<std::uint8_t> acl(XATTR_SIZE_MAX);
  ssize_t size = fgetxattr(fd_.get(), kAclName, acl.data(), acl.size());
  if (size < 0 && errno != ENODATA && errno != EOPNOTSUPP && errno != ENOSYS) return Error("read ACL", errno);
  acl.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return acl;
}

Status PosixFile::ChangeMode(std::uint32_t mode) {
  if (fchmod(fd_.get(), mode) != 0) return Error("change mode", errno);
  return Status::Ok();
}

Result<FileStat> PosixFile::ChangeOwner(const FileStat& want) {
  LZY_ASSIGN_OR_RETURN(FileStat have, Stat());
  if (have.uid == want.uid && have.gid == want.gid) return have;
  // Refused without privilege (EPERM), or for ids that a user name space does not know (EINVAL). A user may still set a
  // group of their own, hence the second attempt. What counts is what stat says afterwards: some file systems accept
  // the call and ignore it.
  if (fchown(fd_.get(), want.uid, want.gid) != 0 && fchown(fd_.get(), static_cast<uid_t>(-1), want.gid) != 0 &&
      errno != EPERM && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS) {
    return Error("change owner", errno);
  }
  return Stat();
}

// The order of steps keeps everybody out whom `like` keeps out: first close the file to all but the owner, then change
// owner and ACL, and open it last.
Status PosixFile::CopyAccess(File& like) {
  constexpr std::uint32_t kReadWriteBits = 0666, kOwnerBits = 0600, kGroupBits = 0060;
  LZY_ASSIGN_OR_RETURN(const FileStat want, like.Stat());
  LZY_ASSIGN_OR_RETURN(std::vector<std::uint8_t> want_acl, like.AccessAcl());
  ClearExecute(want_acl);
  LZY_ASSIGN_OR_RETURN(FileStat have, Stat());
  LZY_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> have_acl, AccessAcl());
  std::uint32_t mode = want.mode & kReadWriteBits;
  if (have.uid == want.uid && have.gid == want.gid && have.mode == mode && have_acl == want_acl) return Status::Ok();

  // Closed to all but the owner while it changes hands. The file may have an ACL from the directory's default ACL.
  LZY_RETURN_IF_ERROR(ChangeMode(have.mode & mode & kOwnerBits));
  if (!have_acl.empty() && fremovexattr(fd_.get(), kAclName) != 0 && errno != ENODATA) {
    return Error("remove ACL", errno);
  }
  LZY_ASSIGN_OR_RETURN(have, ChangeOwner(want));

  if (have.gid != want.gid) {
    // The group could not be set. So members of like's group are "others" of this file, and others get no more than
    // that group had.
    mode &= kOwnerBits | ((mode & kGroupBits) >> 3);
    if (!want_acl.empty()) mode &= kOwnerBits;
  } else if (!want_acl.empty() && fsetxattr(fd_.get(), kAclName, want_acl.data(), want_acl.size(), 0) != 0) {
    // The ACL could not be stored. An ACL can also deny, so without it only the owner's access is certain.
    mode &= kOwnerBits;
  }
  return ChangeMode(mode);
}

Status PosixFile::SetAccess(std::uint32_t mode, std::uint32_t uid, std::uint32_t gid) {
  FileStat want;
  want.uid = uid;
  want.gid = gid;
  LZY_RETURN_IF_ERROR(ChangeMode(mode & 0700));
  LZY_ASSIGN_OR_RETURN(const FileStat have, ChangeOwner(want));
  // Set-user-ID and set-group-ID are granted only if the recorded owner and group could be set: with another owner they
  // would give that owner's rights to everybody.
  std::uint32_t allowed = mode & 01777;
  if (have.uid == uid) allowed |= mode & 04000;
  if (have.gid == gid) allowed |= mode & 02000;
  if (have.gid != gid) allowed &= ~070u;
  return ChangeMode(allowed);
}

Status PosixFile::Lock() {
  // OFD locks belong to the open file description. POSIX locks would be lost as soon as any descriptor of the file is
  // closed anywhere in the process. Zeros mean: from offset 0 to the end, and l_pid 0, which OFD locks require.
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (Retry([&] { return fcntl(fd_.get(), F_OFD_SETLK, &lock); }) == 0) return Status::Ok();
  switch (int error = errno; error) {
    // POSIX allows both for a lock that somebody else holds.
    case EAGAIN:
    case EACCES:
      return Status(Code::kBusy, path_ + ": locked by another process");
    case EBADF:
      return Status(Code::kInvalidArgument, path_ + ": lock: not open for writing");
    case ENOLCK:
    case EOPNOTSUPP:
    case ENOSYS:
      return Error("lock: not supported by this file system", error);
    default:
      return Error("lock", error);
  }
}

int OpenFlags(OpenMode mode) {
  switch (mode) {
    case OpenMode::kRead:
      return O_RDONLY;
    case OpenMode::kReadWrite:
      return O_RDWR;
    case OpenMode::kCreate:
      return O_RDWR | O_CREAT;
    case OpenMode::kCreateNew:
      return O_RDWR | O_CREAT | O_EXCL;
  }
  return O_RDONLY;
}

}  // namespace

Result<std::unique_ptr<File>> posix::Open(const Place& place, OpenMode mode, bool follow, std::uint32_t create_mode) {
  const std::string& path = place.path;
  LZY_RETURN_IF_ERROR(CheckPath(path));
  // Opening a FIFO waits for the other end. O_NONBLOCK prevents this until the file is known to be a regular one.
  const int flags = OpenFlags(mode) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (follow ? 0 : O_NOFOLLOW);
  Descriptor fd(Retry([&] { return openat(place.at(), place.name.c_str(), flags, static_cast<mode_t>(create_mode)); }));
  if (!fd.valid()) {
    int error = errno;
    if (error == ELOOP && !follow) return Status(Code::kInvalidArgument, path + ": is a symbolic link");
    if (error == EISDIR || error == ENXIO || error == ENODEV) return NotRegular(path);
    return SystemError(path, "open", error);
  }
  struct stat raw {};
  if (fstat(fd.get(), &raw) != 0) return SystemError(path, "stat", errno);
  if (!S_ISREG(raw.st_mode)) return NotRegular(path);
  int status_flags = fcntl(fd.get(), F_GETFL);
  if (status_flags < 0 || fcntl(fd.get(), F_SETFL, status_flags & ~O_NONBLOCK) != 0) {
    return SystemError(path, "open", errno);
  }
  return std::unique_ptr<File>(std::make_unique<PosixFile>(place, std::move(fd)));
}

}  // namespace lzy
