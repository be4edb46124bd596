// Parts of a file's parity in device directories.
//
// Names in a sidecar are not trusted: a user who can write the sidecar can name any file. So lzy writes to a part only if
// the part is of the encoding that the sidecar names (IsOurs).
//
// A commit makes and fills the parts of a new encoding before the sidecar that names them counts. It removes the parts of
// the old encoding afterwards. So a sidecar that counts never names parts that did not exist. lzy-info --prune removes parts
// that no sidecar names.

#include "dataset/parts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <utility>

#include "dataset/lock.h"
#include "dataset/view.h"
#include "names/lookup.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

/// True if opening failed because the part, its directory, its disk or its server is gone. False if only permissions, or the
/// guard against hostile directories, prevent opening.
bool IsGone(const Status& opening, const std::string& path) {
  if (opening.code() == Code::kNotFound || opening.code() == Code::kInvalidArgument) return true;
  if (opening.code() != Code::kIo) return false;
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return errno != EACCES && errno != EPERM && errno != EMFILE && errno != ENFILE;
  close(fd);
  return false;
}

/// True if `peek` is of a sidecar or part of the encoding of `contents`.
bool IsOf(const Peek& peek, const SidecarContents& contents) {
  return peek.uuid == contents.superblock.uuid && peek.parts.id == contents.info.parts.id;
}

/// True if the file at `path` is a part of this encoding. A user who can write a sidecar can name any other file of lzy in
/// it.
bool IsOurs(FileSystem& fs, const std::string& path, const SidecarContents& contents, std::uint32_t owner) {
  if (const auto peek = PeekSidecar(fs, path); peek.ok()) return IsOf(*peek, contents);
  const auto stat = fs.Stat(path, /*follow=*/false);
  return stat.ok() && stat->uid == owner;  // a part with ruined metadata
}

bool IsThere(FileSystem& fs, const std::string& path) {
  return fs.Stat(path, /*follow=*/false).ok();
}

/// The contents of `home` as part `part` records them.
SidecarContents OfPart(const SidecarContents& home, std::size_t part) {
  SidecarContents contents = home;
  contents.superblock.rank = static_cast<std::uint32_t>(part) + 1;
  return contents;
}

/// How surely `peek` is a spare for the file that `data_path` (without symbolic links) is now: 3 is best, 0 means it is
/// none. The path alone is no evidence: another file may have had it.
int IsSpareOf(const Peek& peek, const std::string& data_path, const FileStat& file) {
  const Stamp& stamp = peek.stamp;
  if (!peek.committed || peek.kind != DatasetKind::kShared || peek.parts.directories.empty()) return 0;
  if (file.birth_ns != 0 && stamp.birth_ns != 0 && MayBe(file, stamp)) return 3;
  if (peek.parts.home != data_path) return 0;
  if (file.size == stamp.size && file.mtime_ns == stamp.mtime_ns) return 2;
  return MayBe(file, stamp) ? 1 : 0;
}

/// True if the sidecar of the file `home` names this encoding. nullopt if that cannot be found out.
std::optional<bool> Claims(FileSystem& fs, const std::string& home, const Uuid& uuid, std::uint64_t id) {
  const auto path = SidecarPath(home);
  if (!path.ok()) return std::nullopt;
  const auto sidecar = PeekSidecar(fs, *path);
  if (sidecar.ok()) return sidecar->uuid == uuid && sidecar->parts.id == id;
  if (sidecar.status().code() == Code::kNotFound) return false;
  return std::nullopt;
}

/// True if the file for which the part was made still has its sidecar, and that file is not `data_path`. Then `data_path` is
/// a hard link to it or a copy of it.
bool IsClaimed(FileSystem& fs, const Peek& part, const std::string& data_path) {
  return part.parts.home != data_path && Claims(fs, part.parts.home, part.uuid, part.parts.id) == true;
}

Status NotOurs(const std::string& path, const std::string& sidecar) {
  return {Code::kIo, fmt::format("{}: is not of the encoding that {} tells of; nothing was written to it", path, sidecar)};
}

Status NoDirectory(const std::string& directory, std::size_t part, std::size_t count) {
  return {Code::kIo, fmt::format("{}: device directory {} is not there: mount it or make it, or say with --device-dirs where the {} "
                                 "directories are now", directory, part, count)};
}

// Writes the metadata of a part, and leaves its parity as it is.
Status RenewPart(FileSystem& fs, Sidecar& home, const std::string& path, std::size_t part) {
  SidecarContents own = OfPart(home.contents(), part);
  LZY_ASSIGN_OR_RETURN(auto file, fs.Open(path, OpenMode::kReadWrite, /*follow=*/false));
  (void)NarrowAccess(*file, home.file());
  LZY_ASSIGN_OR_RETURN(auto sidecar, Sidecar::Renew(std::move(file), own, home.contents().superblock.spacing));
  return sidecar->WriteAll(std::move(own));
}

}  // namespace

Result<std::vector<std::string>> ResolveDirectories(FileSystem& fs, const Options& options, std::uint32_t parity) {
  const auto refuse = [](std::string message) { return Status(Code::kInvalidArgument, "device-dirs: " + std::move(message)); };
  if (options.device_dirs.size() <= parity || options.device_dirs.size() > kMaxParts) {
    return refuse(fmt::format("{} named, and parity is {}: {} to {} directories are accepted", options.device_dirs.size(), parity,
                              parity + 1, kMaxParts));
  }
  std::vector<std::string> real;
  for (const std::string& directory : options.device_dirs) {
    const auto stat = fs.Stat(directory);
    if (!stat.ok() && stat.status().code() != Code::kNotFound) return stat.status();
    if (!stat.ok()) return refuse(fmt::format("'{}' does not exist: an existing directory is accepted", directory));
    if (stat->type != FileStat::Type::kDirectory) return refuse(fmt::format("'{}' is no directory", directory));
    LZY_ASSIGN_OR_RETURN(std::string path, fs.RealPath(directory));
    if (std::ranges::count(real, path) != 0) return refuse(fmt::format("'{}' is named twice: give each device a directory of its own", path));
    real.push_back(std::move(path));
  }
  return real;
}

// The recorded path goes first, so option device-dirs is needed only if a directory has moved.
std::vector<std::string> PartPaths(FileSystem& fs, const Parts& parts, const std::vector<std::string>& named) {
  std::vector<std::string> paths;
  for (std::size_t d = 0; d < parts.directories.size(); ++d) {
    std::string& path = paths.emplace_back(JoinPath(parts.directories[d], parts.name));
    if (named.size() != parts.directories.size() || IsThere(fs, path)) continue;
    if (const auto real = fs.RealPath(named[d]); real.ok()) path = JoinPath(*real, parts.name);
  }
  return paths;
}

// Parity exists for the loss of a directory, so readers go on without its part.
Result<std::unique_ptr<PartedFile>> OpenParts(FileSystem& fs, Sidecar& sidecar, const std::vector<std::string>& paths, bool write) {
  LZY_ASSIGN_OR_RETURN(const FileStat home, sidecar.file().Stat());
  const SidecarContents& contents = sidecar.contents();
  std::vector<std::unique_ptr<File>> files;
  for (const std::string& path : paths) {
    files.emplace_back();
    if (path.empty()) continue;
    auto file = fs.Open(path, write ? OpenMode::kReadWrite : OpenMode::kRead, /*follow=*/false);
    if (!file.ok() && (write || !IsGone(file.status(), path))) {
      const char* advice = geteuid() == 0 ? " (device directories are named by --device-dirs)" : "";
      return {file.status().code(), file.status().message() + advice};
    }
    if (write && !IsOurs(fs, path, contents, home.uid)) return NotOurs(path, sidecar.path());
    if (file.ok()) files.back() = std::move(file).value();
  }
  return std::make_unique<PartedFile>(sidecar.path(), std::move(files), sidecar.ParityFileOffset(0), contents.superblock.unit);
}

// The reason that the user must know first comes first.
std::string WhyNotRepaired(FileSystem& fs, const std::string& data_path, Sidecar& sidecar, const std::vector<std::string>& paths,
                           std::size_t part) {
  const SidecarContents& contents = sidecar.contents();
  const auto real = fs.RealPath(data_path);
  const auto home = sidecar.file().Stat();
  if (!real.ok() || !home.ok() || !OwnsParts(fs, *real, contents)) {
    return fmt::format("the parity in its device directories is that of {}, of which it is a copy; lzy-protect gives it parity of its own",
                       contents.info.parts.home.empty() ? "another file" : contents.info.parts.home);
  }
  const auto stat = fs.Stat(paths[part], /*follow=*/false);
  if (stat.ok() && stat->type != FileStat::Type::kRegular) return paths[part] + ": is not a regular file. Remove it; lzy makes it again";
  if (stat.ok()) {
    const bool ours = IsOurs(fs, paths[part], contents, home->uid);
    return ours ? "" : NotOurs(paths[part], sidecar.path()).message();
  }
  const std::string directory = DirectoryOf(paths[part]);
  return fs.Stat(directory).ok() ? "" : NoDirectory(directory, part, paths.size()).message();
}

// Parts are created with their final size: parity of blocks that are never written is zero.
Status CreateParts(FileSystem& fs, const SidecarContents& shape, Sidecar& home, const std::vector<std::string>& paths,
                   std::vector<std::string>* made) {
  for (std::size_t d = 0; d < paths.size(); ++d) {
    if (paths[d].empty() || IsThere(fs, paths[d])) continue;
    const std::string directory = DirectoryOf(paths[d]);
    if (!fs.Stat(directory).ok()) return NoDirectory(directory, d, paths.size());
    const SidecarContents own = OfPart(shape, d);
    if (made != nullptr) made->push_back(paths[d]);
    LZY_ASSIGN_OR_RETURN(auto part, Sidecar::Create(fs, paths[d], own, home.file(), home.contents().superblock.spacing));
    LZY_RETURN_IF_ERROR(part->file().Truncate(part->ParityFileOffset(0) + own.superblock.parity_here()));
    LZY_RETURN_IF_ERROR(fs.SyncDirectory(directory));
  }
  return Status::Ok();
}

Status RenewParts(FileSystem& fs, Sidecar& home, const std::vector<std::string>& paths) {
  Status first_failure;
  for (std::size_t d = 0; d < paths.size(); ++d) {
    if (paths[d].empty()) continue;
    const Status renewed = RenewPart(fs, home, paths[d], d);
    if (first_failure.ok()) first_failure = renewed;  // continue: spares matter most when another part is lost
  }
  return first_failure;
}

// Compares the roots and the hash of the info record, which cover everything else.
std::vector<MetadataDamage> CheckPart(FileSystem& fs, const SidecarContents& contents, const std::string& path, std::uint32_t part) {
  const auto all = [&](const char* what) { return std::vector<MetadataDamage>{{0, 0, what, part + 1}}; };
  const auto loaded = Sidecar::Load(fs, path, OpenMode::kRead);
  const Code code = loaded.status().code();
  const bool there = IsRuined(loaded.status()) || code == Code::kNewerFormat || code == Code::kUnreadable;
  if (!loaded.ok()) return all(there ? "metadata" : "part");
  if (!(*loaded)->Unseal(contents.key).ok()) return all("seal");
  const Superblock& want = contents.superblock;
  const Superblock& have = (*loaded)->contents().superblock;
  const bool same = have.uuid == want.uuid && have.generation == want.generation && have.data_root == want.data_root &&
                    have.parity_root == want.parity_root && have.info_hash == want.info_hash && have.rank == part + 1;
  std::vector<MetadataDamage> damage = same ? (*loaded)->damage() : all("metadata of another commit");
  for (MetadataDamage& one : damage) {
    one.part = part + 1;
    // Parts are updated after their sidecar, copy by copy. A commit that was interrupted leaves older copies.
    const bool behind = have.uuid == want.uuid && have.generation < want.generation;
    one.unfinished = same ? one.what == kOlderSuperblock : behind;
  }
  return damage;
}

void RemoveParts(FileSystem& fs, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (fs.Remove(path).ok()) (void)fs.SyncDirectory(DirectoryOf(path));
  }
}

// Removes parts only if they are certainly those of this file.
void RemovePartsOf(FileSystem& fs, const std::string& data_path, const std::string& sidecar_path) {
  const auto sidecar = Sidecar::Load(fs, sidecar_path, OpenMode::kRead);
  const auto real = fs.RealPath(data_path);
  if (!sidecar.ok() || !(*sidecar)->committed() || !real.ok() || !OwnsParts(fs, *real, (*sidecar)->contents())) return;
  RemoveOurs(fs, **sidecar, PartPaths(fs, (*sidecar)->contents().info.parts, {}));
}

void RemoveOurs(FileSystem& fs, Sidecar& sidecar, const std::vector<std::string>& paths) {
  const auto home = sidecar.file().Stat();
  if (!home.ok()) return;
  std::vector<std::string> ours = paths;
  std::erase_if(ours, [&](const std::string& path) { return !IsOurs(fs, path, sidecar.contents(), home->uid); });
  RemoveParts(fs, ours);
}

bool OwnsParts(FileSystem& fs, const std::string& data_path, const SidecarContents& contents) {
  const Parts& parts = contents.info.parts;
  if (parts.home == data_path) return true;
  // The file was renamed if it has the committed inode and birth, and no sidecar at the recorded path names these parts.
  const auto file = fs.Stat(data_path);
  const Stamp& stamp = contents.superblock.stamp;
  const bool renamed = file.ok() && file->birth_ns != 0 && stamp.birth_ns != 0 && MayBe(*file, stamp);
  return renamed && Claims(fs, parts.home, contents.superblock.uuid, parts.id) == false;
}

// Takes the first spare that can be read completely, in the order of certainty, then of generation.
Result<std::unique_ptr<Sidecar>> FindSpare(FileSystem& fs, const std::string& data_path, const Options& options) {
  const Status none(Code::kNotFound, "no spare of its sidecar");
  if (options.device_dirs.empty()) return none;
  LZY_ASSIGN_OR_RETURN(const std::string real, fs.RealPath(data_path));
  const auto file = fs.Stat(real);
  if (!file.ok()) return none;
  std::multimap<std::pair<int, std::uint64_t>, std::string, std::greater<>> found;  // by certainty, then generation; highest first
  for (const std::string& directory : options.device_dirs) {
    const auto names = fs.List(directory);
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      if (!name.starts_with(kPartPrefix)) continue;
      const std::string path = JoinPath(directory, name);
      const auto stat = fs.Stat(path, /*follow=*/false);
      if (!stat.ok() || (stat->uid != file->uid && stat->uid != 0)) continue;  // spares of other users are not trusted
      const auto peek = PeekSidecar(fs, path);
      const int sure = peek.ok() && !IsClaimed(fs, *peek, real) ? IsSpareOf(*peek, real, *file) : 0;
      if (sure > 0) found.emplace(std::pair(sure, peek->generation), path);
    }
  }
  for (const auto& [order, path] : found) {
    auto spare = Sidecar::Load(fs, path, OpenMode::kRead);
    if (!spare.ok() || !(*spare)->knows_all_leaves()) continue;
    if (!CheckContents((*spare)->contents()).ok()) continue;
    const Status unsealed = (*spare)->Unseal(options.key);
    if (unsealed.code() == Code::kInvalidArgument) return unsealed;  // the file is sealed, so the key is needed
    if (!unsealed.ok()) continue;
    (*spare)->StandIn();
    return spare;
  }
  return none;
}

bool IsLost(const Status& loading) {
  return loading.code() == Code::kNotFound || IsRuined(loading);
}

Options WithItsDirectories(const Options& options, const Sidecar& home) {
  Options all = options;
  if (all.device_dirs.empty()) all.device_dirs = home.contents().info.parts.directories;
  return all;
}

bool IsOutdated(FileSystem& fs, const std::string& data_path, Sidecar& home, const Options& options) {
  const SidecarContents& contents = home.contents();
  const std::vector<std::string> paths = PartPaths(fs, contents.info.parts, options.device_dirs);
  const auto is_later = [&](const std::string& path) {
    const auto peek = PeekSidecar(fs, path);
    return peek.ok() && peek->committed && IsOf(*peek, contents) && peek->generation > contents.superblock.generation;
  };
  if (std::ranges::any_of(paths, is_later)) return true;
  // A commit that encoded everything anew removes these parts and makes others. So look for others only if some are gone.
  if (std::ranges::all_of(paths, [&](const std::string& path) { return IsThere(fs, path); })) return false;
  const auto spare = FindSpare(fs, data_path, WithItsDirectories(options, home));
  return spare.ok() && (*spare)->contents().superblock.uuid == contents.superblock.uuid && (*spare)->generation() > contents.superblock.generation;
}

// An existing sidecar is replaced only under its lock, and only if it is still the one that was examined.
Result<bool> RecoverSidecar(FileSystem& fs, const std::string& data_path, File& data, const Options& given) {
  if (given.device_dirs.empty()) {  // the usual case: then only the superblock is read
    const auto peek = FindAndPeek(fs, data_path);
    if (!peek.ok() || peek->parts.directories.empty()) return false;
  }
  const auto found = FindSidecar(fs, data_path);
  const auto there = found.ok() ? Sidecar::Load(fs, *found, OpenMode::kRead) : Result<std::unique_ptr<Sidecar>>(found.status());
  const Status sound = there.ok() ? CheckContents((*there)->contents()) : there.status();
  const bool outdated = sound.ok() && (*there)->contents().superblock.parted() && IsOutdated(fs, data_path, **there, given);
  const Options options = outdated ? WithItsDirectories(given, **there) : given;
  if (options.device_dirs.empty() || (!outdated && !IsLost(sound))) return false;
  const auto spare = FindSpare(fs, data_path, options);
  if (spare.status().code() == Code::kNotFound) return false;
  if (!spare.ok()) return spare.status();
  if (outdated && (*spare)->generation() <= (*there)->generation()) return false;
  LZY_ASSIGN_OR_RETURN(const std::string real, fs.RealPath(data_path));
  LZY_ASSIGN_OR_RETURN(const std::string path, SidecarPath(real));
  // The lock makes sure that no newer sidecar is replaced that another process has made meanwhile.
  std::shared_ptr<File> ruins;
  std::unique_ptr<Sidecar> old;
  if (outdated) {
    const auto known = FindSidecar(fs, real);
    if (!known.ok() || *known != path) return false;  // the file was renamed: BeginEpoch renames its sidecar first
    LZY_ASSIGN_OR_RETURN(old, LockSidecar(fs, path, nullptr, nullptr, options.timeout_seconds));
    if (old->generation() != (*there)->generation() || old->contents().superblock.uuid != (*there)->contents().superblock.uuid) return false;
  } else if (there.status().code() != Code::kNotFound) {
    const Status locked = LockSidecar(fs, path, nullptr, nullptr, options.timeout_seconds, &ruins).status();
    if (!IsLost(locked)) return locked.ok() ? Result<bool>(false) : Result<bool>(locked);
  }
  const SidecarContents& contents = (*spare)->contents();
  const std::string temporary = TemporarySidecarPath(path);
  const auto build = [&]() -> Status {
    LZY_ASSIGN_OR_RETURN(const auto home, Sidecar::Create(fs, temporary, contents, data, contents.superblock.spacing));
    return home->WriteAll(contents);
  };
  Status built = NoThrow(build);
  if (!built.ok()) (void)fs.Remove(temporary);
  if (built.ok()) built = GiveName(fs, temporary, path, /*replace=*/ruins != nullptr || old != nullptr);
  if (built.code() == Code::kNotFound) return false;  // another process has renamed it
  LZY_RETURN_IF_ERROR(built);
  return true;
}

}  // namespace lzy
