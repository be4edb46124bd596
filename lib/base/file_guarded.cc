// Files in directories that other users may write to (docs/design/hooks.md §10, "Hostile directories").
//
// Root runs the tools in directories whose owners may exchange any name at any time, between a check and a use. So names
// are resolved component by component, each by the descriptor of the previous one (`Follow`). A directory is then used by
// its descriptor (`Directory`), and every operation takes a name within one (`SpotOf`, `TrustedSpotOf`). Each check
// examines the object that is used afterwards, never a path that is resolved again.
//
// openat2(RESOLVE_NO_SYMLINKS) would do a part of this, but old kernels do not have it.
#include <sys/stat.h>

#include <linux/limits.h>
#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <set>

#include "base/file_posix.h"
#include "fmt/format.h"

namespace lzy {

namespace {

using posix::CheckPath;
using posix::kMaxSymlinks;
using posix::Place;
using posix::Retry;
using posix::SystemError;

constexpr std::size_t kMostDirectories = 64;  // held open, apart from those in use
constexpr std::uint32_t kOthersMayWrite = 0022;  // permission bits of group and others

bool IsRoot() {
  return geteuid() == 0;
}

/// A unique spelling of each path, for use as a key: without doubled slashes, "." and trailing slashes. ".." stays, because
/// "a/.." is not "." if `a` is a link.
std::string Normal(const std::string& path) {
  std::string out = path.starts_with('/') ? "/" : "";
  for (const std::string& component : Components(path)) {
    if (component != ".") out = JoinPath(out, component);
  }
  return out.empty() ? "." : out;
}

Status LinkRefused(const std::string& path) {
  return Status(Code::kIo,
                path +
                    ": is a symbolic link. Only links in the given PATH are followed, because "
                    "others could lead to another file the next time");
}

/// Opens a name in a directory with O_PATH: this reads nothing and has no effect on a device or FIFO. Opens a link itself,
/// without following it. Tries O_DIRECTORY first, which makes the kernel mount directories that are mounted on demand.
Descriptor Look(int directory, const std::string& name) {
  constexpr int kFlags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
  Descriptor found(Retry([&] { return openat(directory, name.c_str(), kFlags | O_DIRECTORY); }));
  if (found.valid() || errno != ENOTDIR) return found;
  return Descriptor(Retry([&] { return openat(directory, name.c_str(), kFlags); }));
}

/// True if the name is a link.
bool IsLinkAt(const Place& place) {
  struct stat raw {};
  return fstatat(place.at(), place.name.c_str(), &raw, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(raw.st_mode);
}

/// The object at the end of a path, through links, and its path without links.
struct Target {
  Descriptor parent;  ///< the directory of the object; invalid for an object without a name of its own: "/", "." and ".."
  Descriptor self;    ///< the object itself; invalid: the name does not exist
  std::string real;
};

/// The text of a link that is open (O_PATH | O_NOFOLLOW). An empty name makes readlinkat read the descriptor itself.
Result<std::string> TextOf(const Descriptor& link, const std::string& path) {
  std::string text(PATH_MAX, '\0');
  const ssize_t length = readlinkat(link.get(), "", text.data(), text.size());
  if (length <= 0) return SystemError(path, "read link", length < 0 ? errno : ENOENT);
  text.resize(static_cast<std::size_t>(length));
  return text;
}

/// Root follows another user's link only to an object that this user owns. Otherwise, anybody who can make a link could
/// make root write anywhere. If the target does not exist yet, the owner of its directory counts.
Status CheckLinkOwner(const struct stat& link, const Target& target, const std::string& path) {
  if (!IsRoot() || link.st_uid == 0) return Status::Ok();
  struct stat what {};
  const Descriptor& owned = target.self.valid() ? target.self : target.parent;
  if (fstat(owned.get(), &what) != 0) return SystemError(path, "stat", errno);
  if (what.st_uid == link.st_uid) return Status::Ok();
  return Status(Code::kIo,
                fmt::format("{}: is a symbolic link of user {} to a file of user {}, so root does not follow it; if you mean "
                            "that file, name {}",
                            path, link.st_uid, what.st_uid, target.real));
}

/// True if only root can have arranged this directory: in it and above it, no other user may rename or replace objects of
/// root.
bool OnlyRootArranges(int directory) {
  const auto open = [](int at, const char* name) {
    return Descriptor(Retry([&] { return openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC); }));
  };
  struct stat here {}, above {};
  for (Descriptor at = open(directory, "."); at.valid() && fstat(at.get(), &here) == 0;) {
    const bool others = (here.st_mode & kOthersMayWrite) != 0 && (here.st_mode & S_ISVTX) == 0;
    if (here.st_uid != 0 || others) return false;
    Descriptor next = open(at.get(), "..");
    if (!next.valid() || fstat(next.get(), &above) != 0) return false;
    if (above.st_dev == here.st_dev && above.st_ino == here.st_ino) return true;  // "/"
    at = std::move(next);
  }
  return false;
}

/// Resolves `path` from the directory `from` (real path `from_real`), component by component. Opens each by the descriptor
/// of the previous one, so exchanged names have no effect. Follows at most `links_left` links, and checks their owners. The
/// last component need not exist. `shown` is for messages.
Result<Target> Follow(int from, const std::string& from_real, const std::string& path, int links_left,
                      const std::string& shown) {
  const bool absolute = path.starts_with('/');
  Target at;
  at.self = Descriptor(Retry([&] { return openat(from, absolute ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC); }));
  if (!at.self.valid()) return SystemError(shown, "open directory", errno);
  at.real = absolute ? "/" : from_real;
  for (const std::string& name : Components(path)) {
    if (name == ".") continue;
    if (!at.self.valid()) return SystemError(shown, "resolve", ENOENT);
    Target next;
    const bool up = name == "..";
    next.self = Look(at.self.get(), name);
    if (!next.self.valid() && errno != ENOENT) return SystemError(shown, "resolve", errno);
    next.real = up ? DirectoryOf(at.real) : JoinPath(at.real, name);
    struct stat raw {};
    if (next.self.valid() && fstat(next.self.get(), &raw) != 0) return SystemError(shown, "stat", errno);
    // A link is resolved from the directory that contains it. Its text may have several components and links of its own.
    if (next.self.valid() && S_ISLNK(raw.st_mode)) {
      if (links_left == 0) return SystemError(shown, "resolve", ELOOP);
      LZY_ASSIGN_OR_RETURN(const std::string text, TextOf(next.self, shown));
      const std::string link = next.real;
      LZY_ASSIGN_OR_RETURN(next, Follow(at.self.get(), at.real, text, links_left - 1, shown));
      LZY_RETURN_IF_ERROR(CheckLinkOwner(raw, next, link));
    } else if (!up) {
      next.parent = std::move(at.self);
    }
    at = std::move(next);
  }
  return at;
}

/// The path of the working directory.
Result<std::string> WorkingDirectory() {
  std::array<char, PATH_MAX> path{};
  if (getcwd(path.data(), path.size()) == nullptr) return SystemError(".", "resolve", errno);
  return std::string(path.data());
}

/// A directory as it was when first opened, held by its descriptor. If another directory gets its name later, this one
/// stays.
struct Directory {
  std::shared_ptr<const Descriptor> fd;
  std::string real;
  bool within = false;  ///< it was named, contains a named file, or is below such a directory
  std::uint32_t owner = 0;
  std::uint32_t mode = 0;
  std::uint64_t file_system = 0;
  std::uint64_t inode = 0;
};
using DirectoryPtr = std::shared_ptr<const Directory>;

/// Takes over an open descriptor, which must be one of a directory. `path` is for messages, `real` without links.
Result<DirectoryPtr> MakeDirectory(Descriptor fd, const std::string& path, std::string real, bool within) {
  struct stat raw {};
  if (fstat(fd.get(), &raw) != 0) return SystemError(path, "stat", errno);
  if (!S_ISDIR(raw.st_mode)) return SystemError(path, "open directory", ENOTDIR);
  return std::make_shared<const Directory>(Directory{std::make_shared<const Descriptor>(std::move(fd)), std::move(real),
                                                     within, raw.st_uid, raw.st_mode & 07777, raw.st_dev, raw.st_ino});
}

/// The file system. Maps are keyed by normal paths (see Normal) and guarded by mutex_, which is not held during system
/// calls. If two threads enter the same directory, the first one to store it wins.
class GuardedFiles final : public FileSystem {
 public:
  explicit GuardedFiles(const std::vector<std::string>& named) {
    for (const std::string& path : named) Name(Normal(path));
  }

  Result<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode, bool follow,
                                     std::uint32_t create_mode) override;
  Result<FileStat> Stat(const std::string& path, bool follow) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Result<bool> RenameIfAbsent(const std::string& from, const std::string& to) override;
  Status Remove(const std::string& path) override;
  Status SyncDirectory(const std::string& path) override;
  Result<std::vector<std::string>> List(const std::string& path) override;
  Result<std::vector<DirectoryEntry>> ListEntries(const std::string& path) override;
  Result<std::unique_ptr<File>> OpenListed(const std::string& path) override;
  Status MakeDirectories(const std::string& path) override;
  Result<std::uint64_t> FreeBytes(const std::string& directory) override;
  Result<std::string> RealPath(const std::string& path) override;
  Result<std::string> ReadLink(const std::string& path) override;
  Status MakeLink(const std::string& text, const std::string& path, const FileStat& like) override;
  Status MakeHardLink(const std::string& of, const std::string& path) override;
  Result<Attributes> DirectoryAttributes(const std::string& path) override;
  Status SetDirectory(const std::string& path, const FileStat& like, const Attributes& attributes) override;
  std::string View() override { return posix::View(); }

 private:
  /// A name in a directory.
  struct Spot {
    DirectoryPtr directory;
    Place place;
  };
  /// The directory `path` (normal); the same one at each call.
  Result<DirectoryPtr> At(const std::string& path);
  /// Opens the directory `path` (normal). `named`: links in it may be followed.
  Result<DirectoryPtr> Enter(const std::string& path, bool named);
  /// The place of `path`. With `follow`, a named path means the object that it led to when first resolved.
  Result<Spot> SpotOf(const std::string& path, bool follow);
  /// The same, for objects that are opened or changed. kIo if root must not touch the directory.
  Result<Spot> TrustedSpotOf(const std::string& path, bool follow);
  /// kIo if this is root, the directory is outside of the named paths, and its owner owns none of the named directories.
  Status CheckWithin(const Directory& directory, const std::string& path);
  /// Enters all named paths, so that their owners are known. Otherwise results would depend on the paths that this process
  /// has used before: under MPI, each process uses members of its own.
  void EnterNamed();
  /// For a named path: this path without links, the same at each call. It need not exist. Empty: not named.
  Result<std::string> Pinned(const std::string& normal);
  /// True if the directory contains a named file. The file may be lost.
  bool HoldsNamed(const Descriptor& directory, const std::string& real, const std::string& path);

  std::mutex mutex_;
  void Name(const std::string& path) {
    named_.insert(path);
    above_named_[DirectoryOf(path)].insert(BaseNameOf(path));
  }

  /// The named paths, and the targets of links among them.
  std::set<std::string> named_;
  /// The directories of these paths, and their names there.
  std::map<std::string, std::set<std::string>> above_named_;
  /// Open directories, at most about kMostDirectories; see At.
  std::map<std::string, DirectoryPtr> directories_;
  using Identity = std::pair<std::uint64_t, std::uint64_t>;  // file system, inode
  /// Named directories as they were when first opened. Kept even after their descriptors are closed.
  std::map<std::string, Identity> seen_;
  /// Results of Pinned.
  std::map<std::string, std::string> pinned_;
  /// Owners of the named directories and of directories with named files.
  std::set<std::uint32_t> owners_;
  std::once_flag named_once_;
};

Result<DirectoryPtr> GuardedFiles::At(const std::string& path) {
  bool named = false;
  {
    std::lock_guard lock(mutex_);
    const auto known = directories_.find(path);
    if (known != directories_.end()) return known->second;
    named = named_.contains(path) || above_named_.contains(path);
  }
  LZY_ASSIGN_OR_RETURN(DirectoryPtr entered, Enter(path, named));
  std::lock_guard lock(mutex_);
  // A walk through a large tree must not run out of descriptors. Code that still uses a directory keeps it open.
  if (directories_.size() > kMostDirectories) directories_.clear();
  if (named) {
    // A named directory is resolved through links, so after it was closed, the path could lead elsewhere. Compare it with
    // the identity when it was first opened.
    const Identity is{entered->file_system, entered->inode};
    const auto [first, added] = seen_.try_emplace(path, is);
    if (!added && first->second != is) return Status(Code::kIo, path + ": another directory has its name by now");
  }
  // Store it under its real path, too: files in it are looked up by that path once they are pinned.
  if (named) entered = directories_.try_emplace(entered->real, entered).first->second;
  if (named && entered->within) owners_.insert(entered->owner);
  return directories_.try_emplace(path, std::move(entered)).first->second;
}

Result<DirectoryPtr> GuardedFiles::Enter(const std::string& path, bool named) {
  // Named paths, and the starting points of relative and absolute paths: resolved from the start, including links.
  if (named || path == "." || path == "/") {
    LZY_ASSIGN_OR_RETURN(const std::string here, path.starts_with('/') ? Result<std::string>("/") : WorkingDirectory());
    LZY_ASSIGN_OR_RETURN(Target target, Follow(AT_FDCWD, here, path, kMaxSymlinks, path));
    if (!target.self.valid()) return SystemError(path, "resolve", ENOENT);
    const bool within = named && HoldsNamed(target.self, target.real, path);
    return MakeDirectory(std::move(target.self), path, std::move(target.real), within);
  }
  // All other paths: one step from the directory above.
  const std::string name = BaseNameOf(path);
  if (name == "..") return Status(Code::kInvalidArgument, path + ": leads out of the given PATH");
  LZY_ASSIGN_OR_RETURN(const DirectoryPtr above, At(DirectoryOf(path)));
  Descriptor self = Look(above->fd->get(), name);
  if (!self.valid()) return SystemError(path, "open directory", errno);
  struct stat raw {};
  if (fstat(self.get(), &raw) != 0) return SystemError(path, "stat", errno);
  std::string real = JoinPath(above->real, name);
  if (S_ISLNK(raw.st_mode)) {
    // A user's own link is the user's own decision, and a link of root's is trusted, because root could do anything. But if
    // root runs the tool, its own links prove nothing where another user may write. Root may have made them in a directory
    // that now belongs to that user, who can move them to any place below it.
    const bool own = raw.st_uid == geteuid() || raw.st_uid == 0;
    if (!own || (IsRoot() && !OnlyRootArranges(above->fd->get()))) return LinkRefused(path);
    LZY_ASSIGN_OR_RETURN(const std::string text, TextOf(self, path));
    LZY_ASSIGN_OR_RETURN(Target target, Follow(above->fd->get(), above->real, text, kMaxSymlinks, path));
    if (!target.self.valid()) return SystemError(path, "resolve", ENOENT);
    self = std::move(target.self);
    real = std::move(target.real);
  }
  return MakeDirectory(std::move(self), path, std::move(real), above->within);
}

// The directory above a named object counts as named only if the object is a file, or lost (then it would have been a
// file). Naming a directory gives no right to objects beside it.
bool GuardedFiles::HoldsNamed(const Descriptor& directory, const std::string& real, const std::string& path) {
  std::vector<std::string> names;
  {
    std::lock_guard lock(mutex_);
    if (named_.contains(path)) return true;
    const auto held = above_named_.find(path);
    if (held != above_named_.end()) names.assign(held->second.begin(), held->second.end());
  }
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    const auto target = Follow(directory.get(), real, name, kMaxSymlinks, name);
    struct stat raw {};
    return target.ok() && (!target->self.valid() || (fstat(target->self.get(), &raw) == 0 && !S_ISDIR(raw.st_mode)));
  });
}

// Resolves the links of a named path once and stores the result. The result counts as named from then on, so objects beside
// it (its sidecar) are within the named paths.
Result<std::string> GuardedFiles::Pinned(const std::string& normal) {
  {
    std::lock_guard lock(mutex_);
    const auto known = pinned_.find(normal);
    if (known != pinned_.end()) return known->second;
    if (!named_.contains(normal)) return std::string();
  }
  LZY_ASSIGN_OR_RETURN(const DirectoryPtr directory, At(DirectoryOf(normal)));
  LZY_ASSIGN_OR_RETURN(const Target target,
                       Follow(directory->fd->get(), directory->real, BaseNameOf(normal), kMaxSymlinks, normal));
  std::lock_guard lock(mutex_);
  const std::string& pinned = pinned_.try_emplace(normal, target.real).first->second;
  Name(pinned);
  return pinned;
}

Result<GuardedFiles::Spot> GuardedFiles::SpotOf(const std::string& path, bool follow) {
  LZY_RETURN_IF_ERROR(CheckPath(path));
  if (path.empty()) return SystemError(path, "resolve", ENOENT);
  std::string normal = Normal(path);
  // These have no usable name in a directory above them: they are entered, and the name is ".".
  const auto is_directory = [&] { return normal == "." || normal == "/" || BaseNameOf(normal) == ".."; };
  if (follow && !is_directory()) {
    LZY_ASSIGN_OR_RETURN(std::string pinned, Pinned(normal));
    if (!pinned.empty()) normal = std::move(pinned);
  }
  if (is_directory()) {
    LZY_ASSIGN_OR_RETURN(const DirectoryPtr self, At(normal));
    return Spot{self, {self->fd, ".", path}};
  }
  LZY_ASSIGN_OR_RETURN(const DirectoryPtr directory, At(DirectoryOf(normal)));
  return Spot{directory, {directory->fd, BaseNameOf(normal), path}};
}

// A path that does not exist, or cannot be entered, has no owner here.
void GuardedFiles::EnterNamed() {
  std::vector<std::string> named;
  {
    std::lock_guard lock(mutex_);
    named.assign(named_.begin(), named_.end());
  }
  for (const std::string& path : named) {
    (void)SpotOf(path, /*follow=*/true);
    (void)At(path);
  }
}

Status GuardedFiles::CheckWithin(const Directory& directory, const std::string& path) {
  if (directory.within || !IsRoot()) return Status::Ok();
  std::call_once(named_once_, [&] { EnterNamed(); });
  std::lock_guard lock(mutex_);
  if (owners_.contains(directory.owner)) return Status::Ok();
  return Status(
      Code::kIo,
      fmt::format("{}: not below the given PATH, and in a directory of another user ({}): root goes there only "
                  "if PATH names it, as a file or by the pattern of a set",
                  path, directory.owner));
}

Result<GuardedFiles::Spot> GuardedFiles::TrustedSpotOf(const std::string& path, bool follow) {
  LZY_ASSIGN_OR_RETURN(Spot spot, SpotOf(path, follow));
  LZY_RETURN_IF_ERROR(CheckWithin(*spot.directory, path));
  return spot;
}

Result<std::unique_ptr<File>> GuardedFiles::Open(const std::string& path, OpenMode mode, bool follow,
                                                 std::uint32_t create_mode) {
  LZY_ASSIGN_OR_RETURN(const Spot spot, TrustedSpotOf(path, follow));
  // Check the type first, because opening a device can have effects, e.g. rewind a tape. posix::Open checks the opened file
  // again.
  const auto looked = posix::Stat(spot.place, /*follow=*/false);
  if (looked.ok() && looked->type != FileStat::Type::kRegular) {
    return IsLinkAt(spot.place) ? LinkRefused(path) : posix::NotRegular(path);
  }
  auto file = posix::Open(spot.place, mode, /*follow=*/false, create_mode, /*may_map=*/true);
  if (!file.ok() || mode == OpenMode::kRead || !IsRoot()) return file;
  // Anybody with write access to the directory could have made a hard link here to any file on the file system. Then root
  // would write to that file. A directory in which only root and the file's owner may write is safe.
  LZY_ASSIGN_OR_RETURN(const FileStat stat, (*file)->StatAtOpening());
  const Directory& directory = *spot.directory;
  const bool others = (directory.mode & kOthersMayWrite) != 0 || (directory.owner != 0 && directory.owner != stat.uid);
  if (stat.links < 2 || !others) return file;
  return Status(
      Code::kInvalidArgument,
      fmt::format(
          "{}: belongs to user {} and has {} names, and another user may have made this one: root does not write to "
          "it",
          path, stat.uid, stat.links));
}

// Examining is allowed everywhere (SpotOf, not TrustedSpotOf). With `follow`, a named path was pinned before. So a link
// found here must not be followed, unless it leads to a directory that may be entered.
Result<FileStat> GuardedFiles::Stat(const std::string& path, bool follow) {
  LZY_ASSIGN_OR_RETURN(const Spot spot, SpotOf(path, follow));
  LZY_ASSIGN_OR_RETURN(FileStat stat, posix::Stat(spot.place, /*follow=*/false));
  if (!follow || stat.type != FileStat::Type::kOther) return stat;
  // A link, or another object that is no file. For a link to a directory that may be entered, return the stat of the
  // directory.
  const std::string normal = Normal(path);
  const auto directory = At(normal);
  if (directory.ok()) return posix::Stat({(*directory)->fd, ".", path}, /*follow=*/false);
  // The link leads to a directory that must not be entered. Return this refusal, so that callers do not treat it as a
  // missing file. Only the type of the target is examined.
  struct stat target {};
  const bool leads = fstatat(spot.place.at(), spot.place.name.c_str(), &target, 0) == 0 && S_ISDIR(target.st_mode);
  return leads && IsLinkAt(spot.place) ? Result<FileStat>(directory.status()) : stat;
}

Result<std::uint64_t> GuardedFiles::FreeBytes(const std::string& directory) {
  LZY_ASSIGN_OR_RETURN(const DirectoryPtr at, At(Normal(directory)));
  return posix::FreeBytes({at->fd, ".", directory});
}

// Both names are checked: root must neither move a file out of a foreign directory nor into one.
Status GuardedFiles::Rename(const std::string& from, const std::string& to) {
  LZY_ASSIGN_OR_RETURN(const Spot was, TrustedSpotOf(from, /*follow=*/false));
  LZY_ASSIGN_OR_RETURN(const Spot is, TrustedSpotOf(to, /*follow=*/false));
  return posix::Rename(was.place, is.place);
}

Result<bool> GuardedFiles::RenameIfAbsent(const std::string& from, const std::string& to) {
  LZY_ASSIGN_OR_RETURN(const Spot was, TrustedSpotOf(from, /*follow=*/false));
  LZY_ASSIGN_OR_RETURN(const Spot is, TrustedSpotOf(to, /*follow=*/false));
  return posix::RenameIfAbsent(was.place, is.place);
}

Status GuardedFiles::Remove(const std::string& path) {
  LZY_ASSIGN_OR_RETURN(const Spot spot, TrustedSpotOf(path, /*follow=*/false));
  return posix::Remove(spot.place);
}

Result<std::string> GuardedFiles::ReadLink(const std::string& path) {
  LZY_ASSIGN_OR_RETURN(const Spot spot, SpotOf(path, /*follow=*/false));
  return posix::ReadLink(spot.place);
}

Status GuardedFiles::MakeLink(const std::string& text, const std::string& path, const FileStat& like) {
  LZY_ASSIGN_OR_RETURN(const Spot spot, TrustedSpotOf(path, /*follow=*/false));
  return posix::MakeLink(text, spot.place, like);
}

Status GuardedFiles::MakeHardLink(const std::string& of, const std::string& path) {
  LZY_ASSIGN_OR_RETURN(const Spot was, TrustedSpotOf(of, /*follow=*/false));
  LZY_ASSIGN_OR_RETURN(const Spot is, TrustedSpotOf(path, /*follow=*/false));
  return posix::MakeHardLink(was.place, is.place);
}

Result<Attributes> GuardedFiles::DirectoryAttributes(const std::string& path) {
  LZY_RETURN_IF_ERROR(CheckPath(path));
  LZY_ASSIGN_OR_RETURN(const DirectoryPtr directory, At(Normal(path)));
  return posix::DirectoryAttributes({directory->fd, ".", path});
}

// Changes the directory that was entered, even if its name means another one now.
Status GuardedFiles::SetDirectory(const std::string& path, const FileStat& like, const Attributes& attributes) {
  LZY_RETURN_IF_ERROR(CheckPath(path));
  LZY_ASSIGN_OR_RETURN(const DirectoryPtr directory, At(Normal(path)));
  LZY_RETURN_IF_ERROR(CheckWithin(*directory, path));
  return posix::SetDirectory({directory->fd, ".", path}, like, attributes);
}

Status GuardedFiles::SyncDirectory(const std::string& path) {
  LZY_RETURN_IF_ERROR(CheckPath(path));
  LZY_ASSIGN_OR_RETURN(const DirectoryPtr directory, At(Normal(path)));
  return posix::SyncDirectory({directory->fd, ".", path});
}

// Follows no link, and accepts only a regular file, as in Open.
Result<std::unique_ptr<File>> GuardedFiles::OpenListed(const std::string& path) {
  LZY_ASSIGN_OR_RETURN(const Spot spot, TrustedSpotOf(path, /*follow=*/false));
  return posix::Open(spot.place, OpenMode::kRead, /*follow=*/false, 0, /*may_map=*/false);
}

Result<std::vector<DirectoryEntry>> GuardedFiles::ListEntries(const std::string& path) {
  LZY_RETURN_IF_ERROR(CheckPath(path));
  LZY_ASSIGN_OR_RETURN(const DirectoryPtr directory, At(Normal(path)));
  return posix::ListEntries({directory->fd, ".", path});
}

Result<std::vector<std::string>> GuardedFiles::List(const std::string& path) {
  LZY_RETURN_IF_ERROR(CheckPath(path));
  LZY_ASSIGN_OR_RETURN(const DirectoryPtr directory, At(Normal(path)));
  return posix::List({directory->fd, ".", path});
}

Status GuardedFiles::MakeDirectories(const std::string& path) {
  LZY_RETURN_IF_ERROR(CheckPath(path));
  const std::string normal = Normal(path);
  const auto there = At(normal);
  if (there.ok() || there.status().code() != Code::kNotFound) return there.status();
  // Make the directories above it first. Each directory is made relative to the open one above it.
  const std::string above = DirectoryOf(normal);
  if (above == normal) return there.status();
  LZY_RETURN_IF_ERROR(MakeDirectories(above));
  LZY_ASSIGN_OR_RETURN(const Spot spot, TrustedSpotOf(normal, /*follow=*/false));
  if (mkdirat(spot.place.at(), spot.place.name.c_str(), 0777) != 0 && errno != EEXIST) {
    return SystemError(path, "make directory", errno);
  }
  // EEXIST: another process may have made it, or a link. Entering it applies the rules for links.
  LZY_RETURN_IF_ERROR(At(normal).status());
  return posix::SyncDirectory({spot.directory->fd, ".", above});
}

// Starts from the pinned path, so the result agrees with the file that Open opens.
Result<std::string> GuardedFiles::RealPath(const std::string& path) {
  LZY_ASSIGN_OR_RETURN(const Spot spot, SpotOf(path, /*follow=*/true));
  if (spot.place.name == ".") return spot.directory->real;
  return JoinPath(spot.directory->real, spot.place.name);
}

}  // namespace

std::unique_ptr<FileSystem> GuardedFileSystem(const std::vector<std::string>& named) {
  return std::make_unique<GuardedFiles>(named);
}

}  // namespace lzy
