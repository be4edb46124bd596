#include "dataset/member.h"

#include <fmt/format.h>

#include "dataset/lock.h"
#include "dataset/parts.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

constexpr int kLooks = 5;

/// The parity of a file with device directories is in parts there, and none of it beside the file.
Status OpenItsParts(const Context& context, const std::string& path, bool write, FileView& view, Summary& s) {
  s.part_base = std::exchange(s.parity_base, 0);
  s.part_paths = PartPaths(context.fs, view.sidecar->contents().info.parts, context.options.device_dirs);
  LZY_ASSIGN_OR_RETURN(view.parts, OpenParts(context.fs, *view.sidecar, s.part_paths, /*write=*/false));
  for (std::size_t d = 0; d < s.part_paths.size(); ++d) {
    s.parts_there.push_back(view.parts->part(d) != nullptr);
    s.part_obstacles.push_back(write ? WhyNotMended(context.fs, path, *view.sidecar, s.part_paths, d) : std::string());
  }
  LZY_ASSIGN_OR_RETURN(const FileStat all, view.parts->Stat());
  s.sidecar_bytes += all.size;
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<File>> OpenData(FileSystem& fs, DatasetKind kind, const std::string& path, bool write) {
  const bool follow = kind == DatasetKind::kShared;
  auto file = fs.Open(path, write ? OpenMode::kReadWrite : OpenMode::kRead, follow);
  // Restoring parity of a read-only file needs no more than reading it; a repair will say what it lacks.
  if (!file.ok() && write && file.status().code() == Code::kIo) return fs.Open(path, OpenMode::kRead, follow);
  return file;
}

Result<Summary> OpenMember(const Context& context, DatasetKind kind, const std::string& path, bool write,
                           FileView& view) {
  Summary s;
  FileSystem& fs = context.fs;
  auto data = OpenData(fs, kind, path, write);
  if (data.ok()) {
    view.data = std::move(data).value();
    LZY_ASSIGN_OR_RETURN(s.stat, view.data->Stat());
    s.present = true;
  } else if (data.status().code() != Code::kNotFound) {
    return data.status();
  }
  if (write && kind == DatasetKind::kShared && view.data) {
    LZY_ASSIGN_OR_RETURN(s.recovered, RecoverSidecar(fs, path, *view.data, context.options));
  }
  auto found = FindSidecar(fs, path);
  Result<std::unique_ptr<Sidecar>> sidecar = found.status();
  // Somebody may give it another name just now.
  for (int again = 0; found.ok(); ++again) {
    s.sidecar_path = *found;
    sidecar = write ? LockSidecar(fs, *found, view.data.get(), nullptr, context.options.timeout_seconds, &view.held)
                    : Sidecar::Load(fs, *found, OpenMode::kRead);
    if (sidecar.status().code() != Code::kNotFound || again == kLooks) break;
    found = FindSidecar(fs, path);
  }
  if (!found.ok() && found.status().code() != Code::kNotFound) return found.status();
  // Whoever had the lock until now may have changed the file.
  if (write && view.data) {
    LZY_ASSIGN_OR_RETURN(s.stat, view.data->Stat());
  }
  // To look at, a spare will do.
  const bool outdated = kind == DatasetKind::kShared && sidecar.ok() && (*sidecar)->contents().superblock.parted() &&
                        CheckContents((*sidecar)->contents()).ok() && IsOutdated(fs, path, **sidecar, context.options);
  const bool lost = (IsLost(sidecar.status()) || outdated) && kind == DatasetKind::kShared && !write;
  auto spare = lost ? FindSpare(fs, path, outdated ? WithItsDirectories(context.options, **sidecar) : context.options)
                    : Result<std::unique_ptr<Sidecar>>(Code::kNotFound, "");
  if (outdated && spare.ok() && (*spare)->generation() <= (*sidecar)->generation()) spare = Status(Code::kNotFound, "");
  if (spare.status().code() == Code::kInvalidArgument) return spare.status();
  const bool stands_in = spare.ok();
  if (stands_in) {
    if (!found.ok()) {
      LZY_ASSIGN_OR_RETURN(s.sidecar_path, SidecarPath(path));
    }
    sidecar = std::move(spare);
  }
  if (stands_in || (found.ok() && sidecar.status().code() != Code::kNotFound)) {
    Status sound = sidecar.ok() ? CheckContents((*sidecar)->contents()) : sidecar.status();
    const bool is_part = sound.ok() && kind == DatasetKind::kShared && (*sidecar)->contents().superblock.rank != 0;
    if (is_part) sound = {Code::kCorrupt, "is a part of a file's parity, and not its sidecar"};
    const Status unsealed = sound.ok() && !stands_in ? (*sidecar)->Unseal(context.options.key) : Status::Ok();
    if (sound.ok() && unsealed.ok()) {
      view.sidecar = std::move(sidecar).value();
      s.fault = SidecarFault::kNone;
      s.superblock = view.sidecar->contents().superblock;
      s.superblock.copy = 0;
      s.superblock.extents.clear();
      s.info = EncodeInfo(view.sidecar->contents().info);
      s.intent = view.sidecar->intent();
      s.prepared = view.sidecar->prepared_generation();
      LZY_ASSIGN_OR_RETURN(const FileStat made, view.sidecar->file().Stat());
      s.sidecar_bytes = stands_in ? 0 : view.sidecar->file_size();
      s.sidecar_uid = made.uid;
      s.sidecar_gid = made.gid;
      s.parity_base = view.sidecar->ParityFileOffset(0);
      if (!s.superblock.parted()) return s;
      LZY_RETURN_IF_ERROR(OpenItsParts(context, path, write, view, s));
    } else if (sound.code() == Code::kIo || sound.code() == Code::kBusy || sound.code() == Code::kNewerFormat) {
      return sound;
    } else if (!unsealed.ok()) {
      s.fault = SidecarFault::kUnsealed;
      s.other_key = unsealed.code() == Code::kInvalidArgument;
      s.fault_text = unsealed.message();
      if (write) view.held = Sidecar::ReleaseFile(std::move(sidecar).value());
    } else {
      s.fault = context.options.key ? SidecarFault::kUnsealed : SidecarFault::kDestroyed;
      s.fault_text = sidecar.ok() ? fmt::format("{}: {}", s.sidecar_path, sound.message()) : sound.message();
    }
  } else {
    LZY_ASSIGN_OR_RETURN(s.sidecar_path, SidecarPath(path));
    if (const auto there = context.fs.Stat(s.sidecar_path, /*follow=*/false); there.ok()) {
      s.fault_text = fmt::format("{}: is not a regular file, so that {} can have no sidecar", s.sidecar_path, path);
    }
  }
  return s;
}

void Fill(FileView& view, const Summary& s) {
  view.rank = s.rank;
  view.present = s.present;
  view.seen = s.present || s.fault != SidecarFault::kMissing;
  view.stat = s.stat;
  view.fault = s.fault;
  view.fault_text = s.fault_text;
  view.past = s.past;
  view.sidecar_path = s.sidecar_path;
  view.sidecar_bytes = s.sidecar_bytes;
  view.sidecar_uid = s.sidecar_uid;
  view.sidecar_gid = s.sidecar_gid;
  view.parity_base = s.parity_base;
  view.part_paths = s.part_paths;
  view.part_base = s.part_base;
  view.part_obstacles = s.part_obstacles;
  view.intent = s.intent;
  view.stamp = s.superblock.stamp;
  view.commit_clock_ns = s.superblock.commit_clock_ns;
}

}  // namespace lzy
