// Operations on names in directories: looking up, renaming, removing, listing. file_posix.cc and file_attributes_posix.cc
// have the operations on open files.
//
// Functions in lzy::posix take a Place, so both file systems can use them. PosixFiles at the end is the plain file system:
// its Places are paths relative to the working directory.

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "base/acl.h"
#include "base/file.h"
#include "base/file_posix.h"
#include "base/node.h"
#include "fmt/format.h"

namespace lzy {

using posix::CheckPath;
using posix::kMaxSymlinks;
using posix::Place;
using posix::Retry;
using posix::SystemError;

namespace {

// `follow`: 0 or O_NOFOLLOW.
Result<Descriptor> OpenDirectory(const Place& directory, int follow) {
  Descriptor fd(Retry([&] { return openat(directory.at(), directory.name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | follow); }));
  if (!fd.valid()) return SystemError(directory.path, "open directory", errno);
  return fd;
}

// Sets owner and group if the system allows it, else the group. Names and flags are those of fchownat.
void TakeOverOwner(int at, const char* name, int flags, const FileStat& like) {
  if (fchownat(at, name, like.uid, like.gid, flags) != 0) (void)!fchownat(at, name, static_cast<uid_t>(-1), like.gid, flags);
}

std::int64_t ToNs(const struct statx_timestamp& time) {
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}

// The kernel sets STATX_BTIME in the mask only if the file system knows the time of birth.
FileStat ToFileStat(const struct statx& raw) {
  FileStat out;
  out.size = raw.stx_size;
  out.file_system = makedev(raw.stx_dev_major, raw.stx_dev_minor);
  out.inode = raw.stx_ino;
  out.mtime_ns = ToNs(raw.stx_mtime);
  out.atime_ns = ToNs(raw.stx_atime);
  out.ctime_ns = ToNs(raw.stx_ctime);
  if ((raw.stx_mask & STATX_BTIME) != 0) out.birth_ns = ToNs(raw.stx_btime);
  out.mode = raw.stx_mode & 07777;
  out.uid = raw.stx_uid;
  out.gid = raw.stx_gid;
  out.links = raw.stx_nlink;
  out.type = S_ISREG(raw.stx_mode)   ? FileStat::Type::kRegular
             : S_ISDIR(raw.stx_mode) ? FileStat::Type::kDirectory
                                     : FileStat::Type::kOther;
  return out;
}

// True if a list of the directory gives each file the same inode as stat. FUSE, overlays and exports of them may give
// others, so only known file systems count.
bool ListsInodes(int directory) {
  constexpr std::int64_t kLustre = 0x0BD00BD0;
  constexpr std::int64_t kKnown[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC, kLustre};
  struct statfs system {};
  return fstatfs(directory, &system) == 0 && std::ranges::count(kKnown, static_cast<std::int64_t>(system.f_type)) > 0;
}

}  // namespace

// Uses statx instead of stat, because only statx returns the time of birth.
Result<FileStat> posix::StatAt(int directory, const char* name, int flags, const std::string& path) {
  struct statx raw {};
  if (statx(directory, name, flags | AT_NO_AUTOMOUNT, STATX_BASIC_STATS | STATX_BTIME, &raw) != 0) {
    return SystemError(path, "stat", errno);
  }
  return ToFileStat(raw);
}

Result<FileStat> posix::Stat(const Place& place, bool follow) {
  LZY_RETURN_IF_ERROR(CheckPath(place.path));
  return StatAt(place.at(), place.name.c_str(), follow ? 0 : AT_SYMLINK_NOFOLLOW, place.path);
}

Status posix::Rename(const Place& from, const Place& to) {
  LZY_RETURN_IF_ERROR(CheckPath(from.path));
  LZY_RETURN_IF_ERROR(CheckPath(to.path));
  if (renameat(from.at(), from.name.c_str(), to.at(), to.name.c_str()) != 0) {
    return SystemError(from.path, fmt::format("rename to {}", to.path), errno);
  }
  return Status::Ok();
}

Result<bool> posix::RenameIfAbsent(const Place& from, const Place& to) {
  LZY_RETURN_IF_ERROR(CheckPath(from.path));
  LZY_RETURN_IF_ERROR(CheckPath(to.path));
  const auto failed = [&](int error) { return SystemError(from.path, fmt::format("rename to {}", to.path), error); };
  // First choice: one system call that decides and renames.
  if (renameat2(from.at(), from.name.c_str(), to.at(), to.name.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno == EEXIST) return false;
  if (errno != EINVAL && errno != ENOSYS) return failed(errno);
  // NFS and older Lustre do not support the flag, but they have hard links, and making one fails if the name exists. For a
  // moment the file has both names. A crash then leaves the old one as debris.
  if (linkat(from.at(), from.name.c_str(), to.at(), to.name.c_str(), 0) == 0) {
    LZY_RETURN_IF_ERROR(Remove(from));
    return true;
  }
  if (errno == EEXIST) return false;
  if (errno != EPERM && errno != ENOSYS && errno != EOPNOTSUPP && errno != EMLINK) return failed(errno);
  // There are no hard links either (FAT, some FUSE file systems): look, then rename. Two callers can race here.
  auto there = Stat(to, /*follow=*/false);
  if (there.ok()) return false;
  if (there.status().code() != Code::kNotFound) return there.status();
  LZY_RETURN_IF_ERROR(Rename(from, to));
  return true;
}

Status posix::Remove(const Place& place) {
  LZY_RETURN_IF_ERROR(CheckPath(place.path));
  if (unlinkat(place.at(), place.name.c_str(), 0) != 0) return SystemError(place.path, "remove", errno);
  return Status::Ok();
}

Result<std::string> posix::ReadLink(const Place& place) {
  LZY_RETURN_IF_ERROR(CheckPath(place.path));
  std::string text(PATH_MAX, '\0');
  const ssize_t length = readlinkat(place.at(), place.name.c_str(), text.data(), text.size());
  if (length < 0 && errno == EINVAL) return Status(Code::kInvalidArgument, place.path + ": is no symbolic link");
  if (length < 0) return SystemError(place.path, "read link", errno);
  text.resize(static_cast<std::size_t>(length));
  return text;
}

Status posix::MakeLink(const std::string& text, const Place& place, const FileStat& like) {
  LZY_RETURN_IF_ERROR(CheckPath(place.path));
  const char* name = place.name.c_str();
  if (symlinkat(text.c_str(), place.at(), name) != 0) return SystemError(place.path, "make symbolic link", errno);
  TakeOverOwner(place.at(), name, AT_SYMLINK_NOFOLLOW, like);
  const timespec times[2] = {FromNs(like.atime_ns), FromNs(like.mtime_ns)};
  // Some file systems keep no times of links.
  (void)!utimensat(place.at(), name, times, AT_SYMLINK_NOFOLLOW);
  return Status::Ok();
}

Status posix::MakeHardLink(const Place& of, const Place& place) {
  LZY_RETURN_IF_ERROR(CheckPath(place.path));
  if (linkat(of.at(), of.name.c_str(), place.at(), place.name.c_str(), 0) != 0) return SystemError(place.path, "make hard link", errno);
  return Status::Ok();
}

namespace {

Result<Attributes> AclsOf(int fd, const std::string& path) {
  Attributes acls;
  for (const char* const name : {kAccessAcl, kDefaultAcl}) {
    LZY_ASSIGN_OR_RETURN(const Acl acl, posix::ReadAcl(fd, name, path));
    if (!acl.empty()) acls[name].assign(acl.begin(), acl.end());
  }
  return acls;
}

}  // namespace

Result<Attributes> posix::DirectoryAttributes(const Place& directory) {
  LZY_ASSIGN_OR_RETURN(const Descriptor fd, OpenDirectory(directory, 0));
  LZY_ASSIGN_OR_RETURN(Attributes attributes, UserAttributes(fd.get(), directory.path));
  LZY_ASSIGN_OR_RETURN(Attributes acls, AclsOf(fd.get(), directory.path));
  attributes.merge(acls);
  return attributes;
}

namespace {

// False if the file system has no ACLs, or does not accept this one.
bool StoreAcl(int fd, const char* name, const Attributes& attributes) {
  const auto acl = attributes.find(name);
  return acl != attributes.end() && fsetxattr(fd, name, acl->second.data(), acl->second.size(), 0) == 0;
}

// Closes the directory to all but the owner while its owner changes. Removes ACLs that it has from the directory above.
Status ChangeHands(int fd, const FileStat& like, const std::string& path) {
  if (fchmod(fd, like.mode & 0700) != 0) return SystemError(path, "change mode", errno);
  for (const char* const name : {kAccessAcl, kDefaultAcl}) {
    const bool removed = fremovexattr(fd, name) == 0 || errno == ENODATA || errno == EOPNOTSUPP || errno == ENOSYS;
    if (!removed) return SystemError(path, "remove ACL", errno);
  }
  TakeOverOwner(fd, "", AT_EMPTY_PATH, like);
  return Status::Ok();
}

// The mode for a directory. Stores its access ACL if possible.
std::uint32_t ModeOfDirectory(int fd, const FileStat& like, const FileStat& is, const Attributes& attributes) {
  std::uint32_t mode = like.mode;
  if (is.uid != like.uid) mode &= ~04000u;
  const auto acl = attributes.find(kAccessAcl);
  if (is.gid == like.gid && (acl == attributes.end() || StoreAcl(fd, kAccessAcl, attributes))) return mode;
  if (acl != attributes.end()) mode = NarrowedMode(mode, Acl(acl->second.begin(), acl->second.end()));
  return is.gid == like.gid ? mode : ModeForOtherGroup(mode);
}

}  // namespace

// Uses one descriptor, so that everything concerns the same directory. A mode with set-group-ID is only valid with its
// group. The attributes come first, because the mode may forbid writing them. If they cannot be written, everything else is
// still set. A directory that has its owner and its ACLs already is never closed.
Status posix::SetDirectory(const Place& directory, const FileStat& like, const Attributes& attributes) {
  const std::string& path = directory.path;
  LZY_ASSIGN_OR_RETURN(const Descriptor fd, OpenDirectory(directory, O_NOFOLLOW));
  Attributes of_user, acls;
  for (const auto& attribute : attributes) (attribute.first.starts_with("user.") ? of_user : acls).insert(attribute);
  const Status attributed = SetUserAttributes(fd.get(), path, of_user);
  LZY_ASSIGN_OR_RETURN(FileStat is, StatAt(fd.get(), "", AT_EMPTY_PATH, path));
  LZY_ASSIGN_OR_RETURN(const Attributes has, AclsOf(fd.get(), path));
  if (is.uid != like.uid || is.gid != like.gid || has != acls) LZY_RETURN_IF_ERROR(ChangeHands(fd.get(), like, path));
  LZY_ASSIGN_OR_RETURN(is, StatAt(fd.get(), "", AT_EMPTY_PATH, path));
  if (fchmod(fd.get(), ModeOfDirectory(fd.get(), like, is, acls)) != 0) return SystemError(path, "change mode", errno);
  (void)StoreAcl(fd.get(), kDefaultAcl, acls);
  const timespec times[2] = {FromNs(like.atime_ns), FromNs(like.mtime_ns)};
  if (futimens(fd.get(), times) != 0) return SystemError(path, "set times", errno);
  return attributed;
}

Status posix::SyncDirectory(const Place& place) {
  LZY_RETURN_IF_ERROR(CheckPath(place.path));
  Descriptor fd(Retry([&] { return openat(place.at(), place.name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!fd.valid()) return SystemError(place.path, "open directory", errno);
  // EINVAL: this file system cannot sync directories.
  if (Retry([&] { return fsync(fd.get()); }) != 0 && errno != EINVAL) return SystemError(place.path, "fsync", errno);
  return Status::Ok();
}

Result<std::uint64_t> posix::FreeBytes(const Place& directory) {
  const Descriptor fd(
      Retry([&] { return openat(directory.at(), directory.name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC); }));
  struct statvfs system {};
  if (!fd.valid() || fstatvfs(fd.get(), &system) != 0) return SystemError(directory.path, "statvfs", errno);
  // f_bavail, not f_bfree: a user cannot use blocks that are reserved for root.
  return static_cast<std::uint64_t>(system.f_bavail) * system.f_frsize;
}

// fdopendir takes over the descriptor if it succeeds. If it fails, the descriptor is closed here.
Result<std::vector<DirectoryEntry>> posix::ListEntries(const Place& place) {
  LZY_RETURN_IF_ERROR(CheckPath(place.path));
  const int fd = Retry([&] { return openat(place.at(), place.name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  std::unique_ptr<DIR, int (*)(DIR*)> directory(fd < 0 ? nullptr : fdopendir(fd), &closedir);
  if (!directory) {
    const Status failed = SystemError(place.path, "list", errno);
    if (fd >= 0) close(fd);
    return failed;
  }
  const bool knows_inodes = ListsInodes(fd);
  std::vector<DirectoryEntry> entries;
  for (;;) {
    // readdir returns null at the end and after an error; only errno tells which.
    errno = 0;
    const dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    entries.push_back({std::move(name), knows_inodes ? entry->d_ino : 0, entry->d_type == DT_REG});
  }
  if (errno != 0) return SystemError(place.path, "list", errno);
  std::ranges::sort(entries, {}, &DirectoryEntry::name);
  return entries;
}

Result<std::vector<std::string>> posix::List(const Place& place) {
  LZY_ASSIGN_OR_RETURN(auto entries, ListEntries(place));
  std::vector<std::string> names;
  names.reserve(entries.size());
  for (DirectoryEntry& entry : entries) names.push_back(std::move(entry.name));
  return names;
}

// The meaning of a path depends on the machine, the mounts, the root, the working directory, and the user. If one of these
// is not known, the text is unique to this process.
std::string posix::View() {
  struct stat mounts {}, root {}, here {};
  std::array<char, PATH_MAX> directory{};
  const bool known = stat("/proc/self/ns/mnt", &mounts) == 0 && stat("/", &root) == 0 && stat(".", &here) == 0 &&
                     getcwd(directory.data(), directory.size()) != nullptr;
  if (!known) return fmt::format("{} process {}", ThisNode(), getpid());
  return fmt::format("{} mounts {}:{} root {}:{} in {}:{} {} user {}", ThisNode(), mounts.st_dev, mounts.st_ino, root.st_dev,
                     root.st_ino, here.st_dev, here.st_ino, directory.data(), geteuid());
}

namespace {

// A path as given: relative to the working directory if it is not absolute.
Place Here(const std::string& path) {
  return {nullptr, path, path};
}

class PosixFiles final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode, bool follow,
                                     std::uint32_t create_mode) override {
    return posix::Open(Here(path), mode, follow, create_mode, /*may_map=*/false);
  }
  Result<FileStat> Stat(const std::string& path, bool follow) override { return posix::Stat(Here(path), follow); }
  Status Rename(const std::string& from, const std::string& to) override { return posix::Rename(Here(from), Here(to)); }
  Result<bool> RenameIfAbsent(const std::string& from, const std::string& to) override {
    return posix::RenameIfAbsent(Here(from), Here(to));
  }
  Status Remove(const std::string& path) override { return posix::Remove(Here(path)); }
  Status SyncDirectory(const std::string& path) override { return posix::SyncDirectory(Here(path)); }
  Result<std::uint64_t> FreeBytes(const std::string& directory) override { return posix::FreeBytes(Here(directory)); }
  Result<std::vector<std::string>> List(const std::string& path) override { return posix::List(Here(path)); }
  Result<std::vector<DirectoryEntry>> ListEntries(const std::string& path) override { return posix::ListEntries(Here(path)); }
  Status MakeDirectories(const std::string& path) override;
  Result<std::string> RealPath(const std::string& path) override { return Resolve(path, kMaxSymlinks); }
  std::string View() override { return posix::View(); }
  Result<std::string> ReadLink(const std::string& path) override { return posix::ReadLink(Here(path)); }
  Status MakeLink(const std::string& text, const std::string& path, const FileStat& like) override {
    return posix::MakeLink(text, Here(path), like);
  }
  Status MakeHardLink(const std::string& of, const std::string& path) override { return posix::MakeHardLink(Here(of), Here(path)); }
  Result<Attributes> DirectoryAttributes(const std::string& path) override { return posix::DirectoryAttributes(Here(path)); }
  Status SetDirectory(const std::string& path, const FileStat& like, const Attributes& attributes) override {
    return posix::SetDirectory(Here(path), like, attributes);
  }

 private:
  Result<std::string> Resolve(const std::string& path, int symlinks_left);
};

// Tries the last component first, so an existing path needs no access to the directories above it.
Status PosixFiles::MakeDirectories(const std::string& path) {
  LZY_RETURN_IF_ERROR(CheckPath(path));
  const std::string parent = DirectoryOf(path);
  if (mkdir(path.c_str(), 0777) != 0) {
    int error = errno;
    if (error == ENOENT && parent != path && !path.empty()) {
      LZY_RETURN_IF_ERROR(MakeDirectories(parent));
      error = mkdir(path.c_str(), 0777) == 0 ? 0 : errno;
    }
    if (error != 0) {
      // mkdir fails with EEXIST if the directory exists, but also with EROFS or EACCES. So check whether it exists.
      struct stat raw {};
      if (stat(path.c_str(), &raw) == 0 && S_ISDIR(raw.st_mode)) return Status::Ok();
      return SystemError(path, "make directory", error);
    }
  }
  return SyncDirectory(parent);
}

// realpath() fails if the last component does not exist. Then its directory is resolved instead. If the last component
// is a dangling link, its target is resolved in turn, at most `symlinks_left` times: links can form a loop.
Result<std::string> PosixFiles::Resolve(const std::string& path, int symlinks_left) {
  LZY_RETURN_IF_ERROR(CheckPath(path));
  auto resolve = [](const std::string& name) {
    return std::unique_ptr<char, decltype(&std::free)>(realpath(name.c_str(), nullptr), &std::free);
  };
  if (auto whole = resolve(path)) return std::string(whole.get());
  if (errno != ENOENT || path.empty()) return SystemError(path, "resolve", errno);
  auto directory = resolve(DirectoryOf(path));
  if (!directory) return SystemError(path, "resolve", errno);
  const std::string last = JoinPath(directory.get(), BaseNameOf(path));
  std::string target(PATH_MAX, '\0');
  ssize_t length = readlink(last.c_str(), target.data(), target.size());
  if (length < 0) return last;  // no link: the name does not exist yet
  if (symlinks_left == 0) return SystemError(path, "resolve", ELOOP);
  target.resize(static_cast<std::size_t>(length));
  return Resolve(target.starts_with('/') ? target : JoinPath(directory.get(), target), symlinks_left - 1);
}

}  // namespace

FileSystem& PosixFileSystem() {
  static PosixFiles* files = new PosixFiles;  // never destroyed: hooks may run after static destructors
  return *files;
}

}  // namespace lzy
