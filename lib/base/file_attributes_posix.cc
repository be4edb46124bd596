// Attributes of one open file: size and times, owner, mode and ACL. file_posix.cc handles its bytes.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <linux/limits.h>
#include <linux/magic.h>
#include <algorithm>
#include <cerrno>
#include <map>

#include "base/acl.h"
#include "base/posix_file.h"
#include "fmt/format.h"

namespace lzy::posix {

timespec FromNs(std::int64_t ns) {
  std::int64_t nanoseconds = ns % kNsPerSecond;
  // Before 1970, % yields a negative rest, but tv_nsec still counts forward.
  if (nanoseconds < 0) nanoseconds += kNsPerSecond;
  timespec time{};
  time.tv_sec = (ns - nanoseconds) / kNsPerSecond;
  time.tv_nsec = nanoseconds;
  return time;
}

namespace {

// True for the local file systems whose times only this kernel sets. On a network file system the server or another client
// sets times, so a test on this machine proves nothing.
bool HasLocalStamps(int fd) {
  struct statfs about {};
  if (fstatfs(fd, &about) != 0) return false;
  const auto type = static_cast<std::uint32_t>(about.f_type);
  return type == EXT4_SUPER_MAGIC || type == XFS_SUPER_MAGIC || type == TMPFS_MAGIC || type == BTRFS_SUPER_MAGIC;
}

// Changes a file without a name twice and compares the times. If the clock ticked between the two changes, the times differ
// in any case; then the attempt is repeated.
bool DistinguishesChangesOfOneTick(int at, const std::string& directory) {
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

// Measured once for each st_dev and remembered until the process ends. The test file is made in the directory of this file.
// The function checks that both have the same st_dev, because a mount point or a symbolic link may lie between.
bool PosixFile::StampsEveryChange() {
  // Never destroyed: commits in the background may go on while the process ends.
  static auto& mutex = *new std::mutex;
  static auto& known = *new std::map<dev_t, bool>;
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
  return known[about.st_dev] = DistinguishesChangesOfOneTick(place->at(), directory);
}

// Asks the server, to learn whether somebody has changed the file. If the server no longer knows the file, the data of this
// node describe it as it was.
Result<FileStat> PosixFile::Stat() {
  auto asked = StatAt(fd_.get(), "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, path());
  return asked.ok() ? asked : StatAt(fd_.get(), "", AT_EMPTY_PATH, path());
}

// False for files on a block device of this node, in its memory, or on file systems built from these: only this node
// changes them, or a cluster file system that keeps its nodes consistent. All other file systems have no st_dev of a block
// device.
bool PosixFile::may_see_late() {
  constexpr std::int64_t kZfs = 0x2FC12FC1, kBcachefs = 0xCA451A4E;
  constexpr std::int64_t kLocal[] = {TMPFS_MAGIC, RAMFS_MAGIC, BTRFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, kZfs, kBcachefs};
  if (major(static_cast<dev_t>(at_opening_.file_system)) != 0) return false;
  struct statfs about {};
  return fstatfs(fd_.get(), &about) != 0 || std::ranges::count(kLocal, static_cast<std::int64_t>(about.f_type)) == 0;
}

// An open makes clients of NFS and sshfs ask the server again. A sync does so on GlusterFS (10.3: it may wait a second, as
// long as another node keeps its lock after a write). The kernel reports an error of a sync only once, so this function
// must return it.
Status PosixFile::Refresh() {
  const std::string self = fmt::format("/proc/self/fd/{}", fd_.get());
  const Descriptor again(Retry([&] { return open(self.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); }));
  const bool synced = Retry([&] { return fsync(again.valid() ? again.get() : fd_.get()); }) == 0;
  if (synced || errno == EINVAL || errno == EROFS) return Status::Ok();
  if (errno == ESTALE || errno == ENOENT) return {Code::kNotFound, path() + ": another node has just replaced or removed the file. Try again"};
  return Error("fsync", errno);
}

// Clients of CephFS and others keep pages until the server revokes them, perhaps after this node saw the change.
void PosixFile::ForgetPages() {
  posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED);
}

Status PosixFile::SetTimes(std::int64_t atime_ns, std::int64_t mtime_ns) {
  const timespec times[2] = {FromNs(atime_ns), FromNs(mtime_ns)};
  if (futimens(fd_.get(), times) != 0) return Error("set times", errno);
  return Status::Ok();
}

Result<std::vector<std::uint8_t>> PosixFile::AccessAcl() {
  return ReadAcl(fd_.get(), kAccessAcl, path());
}

Result<Acl> ReadAcl(int fd, const char* name, const std::string& path) {
  Acl acl(XATTR_SIZE_MAX);
  const ssize_t size = fgetxattr(fd, name, acl.data(), acl.size());
  if (size < 0 && errno != ENODATA && errno != EOPNOTSUPP && errno != ENOSYS) return SystemError(path, "read ACL", errno);
  acl.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return acl;
}

// The kernel lists all names of all name spaces, each ended by a NUL. If the list grows meanwhile, this is an error.
Result<Attributes> UserAttributes(int fd, const std::string& path) {
  Attributes attributes;
  std::string names(XATTR_LIST_MAX, '\0');
  const ssize_t size = flistxattr(fd, names.data(), names.size());
  if (size < 0 && errno != EOPNOTSUPP && errno != ENOSYS) return SystemError(path, "list extended attributes", errno);
  names.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  std::string value(XATTR_SIZE_MAX, '\0');
  for (std::size_t at = 0, end; (end = names.find('\0', at)) != std::string::npos; at = end + 1) {
    const std::string name = names.substr(at, end - at);
    if (!name.starts_with("user.")) continue;
    const ssize_t length = fgetxattr(fd, name.c_str(), value.data(), value.size());
    if (length < 0 && errno == ENODATA) continue;  // removed meanwhile
    if (length < 0) return SystemError(path, "read extended attribute " + name, errno);
    attributes[name] = value.substr(0, static_cast<std::size_t>(length));
  }
  return attributes;
}

Status SetUserAttributes(int fd, const std::string& path, const Attributes& attributes) {
  for (const auto& [name, value] : attributes) {
    if (fsetxattr(fd, name.c_str(), value.data(), value.size(), 0) == 0) continue;
    const int error = errno;
    if (error == EOPNOTSUPP || error == ENOSYS) continue;
    // If the attribute has this value already, a mode that forbids writing does not matter.
    std::string there(value.size() + 1, '\0');
    const ssize_t length = fgetxattr(fd, name.c_str(), there.data(), there.size());
    if (length == static_cast<ssize_t>(value.size()) && there.compare(0, value.size(), value) == 0) continue;
    return SystemError(path, "write extended attribute " + name, error);
  }
  return Status::Ok();
}

Status PosixFile::ChangeMode(std::uint32_t mode) {
  if (fchmod(fd_.get(), mode) != 0) return Error("change mode", errno);
  return Status::Ok();
}

Result<FileStat> PosixFile::ChangeOwner(const FileStat& want) {
  LZY_ASSIGN_OR_RETURN(FileStat have, Stat());
  if (have.uid == want.uid && have.gid == want.gid) return have;
  // Refused without privilege (EPERM), or for ids that a user name space does not know (EINVAL). A user may still set a
  // group of their own, hence the second attempt. Only stat shows the result, because some file systems accept the call and
  // ignore it.
  if (fchown(fd_.get(), want.uid, want.gid) != 0 && fchown(fd_.get(), static_cast<uid_t>(-1), want.gid) != 0 &&
      errno != EPERM && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS) {
    return Error("change owner", errno);
  }
  return Stat();
}

// The order of steps keeps out everybody without access to `like`: close the file to all but the owner, change owner and
// ACL, then set the final mode.
Status PosixFile::CopyAccess(File& like) {
  constexpr std::uint32_t kReadWriteBits = 0666, kOwnerBits = 0600;
  LZY_ASSIGN_OR_RETURN(const FileStat want, like.Stat());
  LZY_ASSIGN_OR_RETURN(const Acl like_acl, like.AccessAcl());
  const Acl want_acl = WithoutExecute(like_acl);
  LZY_ASSIGN_OR_RETURN(FileStat have, Stat());
  LZY_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> have_acl, AccessAcl());
  std::uint32_t mode = want.mode & kReadWriteBits;
  if (have.uid == want.uid && have.gid == want.gid && have.mode == mode && have_acl == want_acl) return Status::Ok();

  // Closed to all but the owner while the owner changes. The file may have an ACL from the directory's default ACL.
  LZY_RETURN_IF_ERROR(ChangeMode(have.mode & mode & kOwnerBits));
  if (!have_acl.empty() && fremovexattr(fd_.get(), kAccessAcl) != 0 && errno != ENODATA) {
    return Error("remove ACL", errno);
  }
  LZY_ASSIGN_OR_RETURN(have, ChangeOwner(want));

  if (have.gid != want.gid) {
    mode = ModeForOtherGroup(NarrowedMode(mode, want_acl));
  } else if (!want_acl.empty() && fsetxattr(fd_.get(), kAccessAcl, want_acl.data(), want_acl.size(), 0) != 0) {
    mode = NarrowedMode(mode, want_acl);  // the ACL could not be stored
  }
  return ChangeMode(mode);
}

Status PosixFile::SetAccess(std::uint32_t mode, std::uint32_t uid, std::uint32_t gid) {
  FileStat want;
  want.uid = uid;
  want.gid = gid;
  LZY_RETURN_IF_ERROR(ChangeMode(mode & 0700));
  LZY_ASSIGN_OR_RETURN(const FileStat have, ChangeOwner(want));
  // Set-user-ID and set-group-ID are granted only if the recorded owner and group could be set. With another owner they
  // would give that owner's rights to everybody.
  std::uint32_t allowed = mode & 01777;
  if (have.uid == uid) allowed |= mode & 04000;
  if (have.gid == gid) allowed |= mode & 02000;
  if (have.gid != gid) allowed = ModeForOtherGroup(allowed);
  return ChangeMode(allowed);
}

}  // namespace lzy::posix
