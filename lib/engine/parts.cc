#include "engine/parts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/lookup.h"
#include "engine/view.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

/// A part whose directory is gone, or its disk or server: not one that nobody but the guard of hostile directories keeps from us.
bool IsGone(const Status& opening, const std::string& path) {
  if (opening.code() == Code::kNotFound) return true;
  return opening.code() == Code::kIo && !PosixFileSystem().Stat(path, /*follow=*/false).ok();
}

bool IsThere(FileSystem& fs, const std::string& path) {
  return fs.Stat(path, /*follow=*/false).ok();
}

/// As the superblock of part `part` says it.
SidecarContents OfPart(const SidecarContents& home, std::size_t part) {
  SidecarContents contents = home;
  contents.superblock.rank = static_cast<std::uint32_t>(part) + 1;
  return contents;
}

/// The file of which this is a spare: by what it is, or by name where that cannot be told.
bool IsSpareOf(const Peek& peek, const std::string& data_path, const Result<FileStat>& file) {
  const bool knows_births = file.ok() && file->birth_ns != 0 && peek.stamp.birth_ns != 0;
  if (knows_births) return MayBe(*file, peek.stamp);
  return peek.parts.home == data_path;
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
    if (std::ranges::count(real, path) != 0) return refuse(fmt::format("'{}' is named twice: one a device is accepted", path));
    real.push_back(std::move(path));
  }
  return real;
}

std::vector<std::string> PartPaths(FileSystem& fs, const Parts& parts, const std::vector<std::string>& named) {
  std::vector<std::string> paths;
  for (std::size_t d = 0; d < parts.directories.size(); ++d) {
    std::string& path = paths.emplace_back(JoinPath(parts.directories[d], parts.name));
    if (named.size() != parts.directories.size() || IsThere(fs, path)) continue;
    if (const auto real = fs.RealPath(named[d]); real.ok()) path = JoinPath(*real, parts.name);
  }
  return paths;
}

Result<std::unique_ptr<PartedFile>> OpenParts(FileSystem& fs, const Sidecar& sidecar, const std::vector<std::string>& paths,
                                              bool write) {
  std::vector<std::unique_ptr<File>> files;
  for (const std::string& path : paths) {
    auto file = fs.Open(path, write ? OpenMode::kReadWrite : OpenMode::kRead, /*follow=*/false);
    if (!file.ok() && (write || !IsGone(file.status(), path))) {
      const char* advice = geteuid() == 0 ? " (device directories are named by --device-dirs)" : "";
      return {file.status().code(), file.status().message() + advice};
    }
    files.push_back(file.ok() ? std::move(file).value() : nullptr);
  }
  return std::make_unique<PartedFile>(sidecar.path(), std::move(files), sidecar.ParityFileOffset(0),
                                      sidecar.contents().superblock.unit);
}

Status CreateParts(FileSystem& fs, const SidecarContents& shape, Sidecar& home, const std::vector<std::string>& paths) {
  for (std::size_t d = 0; d < paths.size(); ++d) {
    if (IsThere(fs, paths[d])) continue;
    const std::string directory = DirectoryOf(paths[d]);
    const auto stat = fs.Stat(directory);
    if (!stat.ok()) {
      return {Code::kIo, fmt::format("{}: device directory {} is not there: mount it or make it, or say with --device-dirs where the {} "
                                     "directories are now", directory, d, paths.size())};
    }
    const SidecarContents own = OfPart(shape, d);
    LZY_ASSIGN_OR_RETURN(auto part, Sidecar::Create(fs, paths[d], own, home.file(), home.contents().superblock.spacing));
    LZY_RETURN_IF_ERROR(part->file().Truncate(part->ParityFileOffset(0) + own.superblock.parity_here()));
    LZY_RETURN_IF_ERROR(fs.SyncDirectory(directory));
  }
  return Status::Ok();
}

Status RenewParts(FileSystem& fs, Sidecar& home, const std::vector<std::string>& paths) {
  for (std::size_t d = 0; d < paths.size(); ++d) {
    SidecarContents own = OfPart(home.contents(), d);
    LZY_ASSIGN_OR_RETURN(auto file, fs.Open(paths[d], OpenMode::kReadWrite, /*follow=*/false));
    (void)NarrowAccess(*file, home.file());
    LZY_ASSIGN_OR_RETURN(auto part, Sidecar::Renew(std::move(file), own, home.contents().superblock.spacing));
    LZY_RETURN_IF_ERROR(part->WriteAll(std::move(own)));
  }
  return Status::Ok();
}

std::vector<MetadataDamage> CheckPart(FileSystem& fs, const SidecarContents& contents, const std::string& path, std::uint32_t part) {
  const auto all = [&](const char* what) { return std::vector<MetadataDamage>{{0, 0, what, part + 1}}; };
  const auto loaded = Sidecar::Load(fs, path, OpenMode::kRead);
  if (!loaded.ok()) return all(loaded.status().code() == Code::kUnprotected ? "metadata" : "part");
  const Superblock& want = contents.superblock;
  const Superblock& have = (*loaded)->contents().superblock;
  const bool same = have.uuid == want.uuid && have.generation == want.generation && have.data_root == want.data_root &&
                    have.parity_root == want.parity_root && have.info_hash == want.info_hash && have.rank == part + 1;
  if (!same) return all("metadata of another commit");
  std::vector<MetadataDamage> damage = (*loaded)->damage();
  for (MetadataDamage& one : damage) one.part = part + 1;
  return damage;
}

void RemoveParts(FileSystem& fs, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (fs.Remove(path).ok()) (void)fs.SyncDirectory(DirectoryOf(path));
  }
}

void RemovePartsOf(FileSystem& fs, const std::string& data_path, const std::string& sidecar_path) {
  const auto peek = PeekSidecar(fs, sidecar_path);
  const auto real = fs.RealPath(data_path);
  if (!peek.ok() || !real.ok() || !OwnsParts(fs, *real, peek->uuid, peek->parts)) return;
  RemoveParts(fs, PartPaths(fs, peek->parts, {}));
}

bool OwnsParts(FileSystem& fs, const std::string& data_path, const Uuid& uuid, const Parts& parts) {
  if (parts.home == data_path) return true;
  const auto path = SidecarPath(parts.home);
  const auto other = path.ok() ? PeekSidecar(fs, *path) : Result<Peek>(path.status());
  return !other.ok() || other->uuid != uuid || other->parts.id != parts.id;
}

Result<std::unique_ptr<Sidecar>> FindSpare(FileSystem& fs, const std::string& data_path, const Options& options) {
  const Status none(Code::kNotFound, "no spare of its sidecar");
  if (options.device_dirs.empty()) return none;
  LZY_ASSIGN_OR_RETURN(const std::string real, fs.RealPath(data_path));
  const auto file = fs.Stat(real);
  std::multimap<std::uint64_t, std::string, std::greater<>> found;  // by generation
  for (const std::string& directory : options.device_dirs) {
    const auto names = fs.List(directory);
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      if (!name.starts_with(kPartPrefix)) continue;
      const std::string path = JoinPath(directory, name);
      const auto peek = PeekSidecar(fs, path);
      if (peek.ok() && peek->committed && IsSpareOf(*peek, real, file)) found.emplace(peek->generation, path);
    }
  }
  for (const auto& [generation, path] : found) {
    auto spare = Sidecar::Load(fs, path, OpenMode::kRead);
    if (!spare.ok() || !(*spare)->knows_all_leaves()) continue;
    if (!CheckContents((*spare)->contents()).ok() || !(*spare)->Unseal(options.key).ok()) continue;
    (*spare)->StandIn();
    return spare;
  }
  return none;
}

bool IsLost(const Status& loading) {
  return loading.code() == Code::kNotFound || loading.code() == Code::kUnprotected || loading.code() == Code::kCorrupt;
}

Result<bool> RecoverSidecar(FileSystem& fs, const std::string& data_path, File& data, const Options& options) {
  if (options.device_dirs.empty()) return false;
  const auto found = FindSidecar(fs, data_path);
  const Status there = found.ok() ? PeekSidecar(fs, *found).status() : found.status();
  if (!IsLost(there)) return false;
  const auto spare = FindSpare(fs, data_path, options);
  if (spare.status().code() == Code::kNotFound) return false;
  if (!spare.ok()) return spare.status();
  LZY_ASSIGN_OR_RETURN(const std::string real, fs.RealPath(data_path));
  LZY_ASSIGN_OR_RETURN(const std::string path, SidecarPath(real));
  const SidecarContents& contents = (*spare)->contents();
  const std::string temporary = TemporarySidecarPath(path);
  const auto build = [&]() -> Result<bool> {
    LZY_ASSIGN_OR_RETURN(const auto home, Sidecar::Create(fs, temporary, contents, data, contents.superblock.spacing));
    LZY_RETURN_IF_ERROR(home->WriteAll(contents));
    if (there.code() == Code::kNotFound) return fs.RenameIfAbsent(temporary, path);
    LZY_RETURN_IF_ERROR(fs.Rename(temporary, path));  // over the ruins
    return true;
  };
  const Result<bool> built = build();
  if (!built.ok() || !*built) (void)fs.Remove(temporary);
  if (!built.ok()) return built;
  LZY_RETURN_IF_ERROR(fs.SyncDirectory(DirectoryOf(path)));
  return true;
}

}  // namespace lzy
