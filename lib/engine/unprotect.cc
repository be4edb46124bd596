// Removes the protection of a dataset: sidecars and parts, never data. Without force, reads the data, and keeps sidecars that can still
// repair something or that are in use.

#include <fmt/format.h>

#include <algorithm>

#include "comm/records.h"
#include "dataset/lock.h"
#include "dataset/parts.h"
#include "dataset/view.h"
#include "encode/resemblance.h"
#include "engine/engine.h"
#include "judge/examine.h"
#include "judge/last_proof.h"
#include "names/holders.h"
#include "names/lookup.h"
#include "names/neighbours.h"
#include "names/peek.h"
#include "names/reach.h"

namespace lzy {
namespace {

/// True if the sidecars can repair missing data, or are in use.
bool IsNeeded(const DatasetReport& report) {
  return report.in_epoch || std::ranges::count(report.damage, DamagePart::kData, &Damage::part) != 0;
}

/// The files of the dataset that this process owns. Files that match the pattern of a committed set but are not members do
/// not belong to it.
std::vector<FileView*> OwnFileViews(const Context& context, DatasetView& view) {
  std::vector<FileView*> own;
  const auto add = [&](FileView& file) {
    if (file.owner == context.comm.rank()) own.push_back(&file);
  };
  std::ranges::for_each(view.files(), add);
  if (!view.committed) std::ranges::for_each(view.extras, add);
  return own;
}

/// True if the parts are those of this file. The parts of a copy of a file and its sidecar belong to the original.
bool OwnsItsParts(const Context& context, const FileView& file) {
  if (!file.sidecar || !file.parts) return false;
  const auto real = context.fs.RealPath(file.path);
  return !real.ok() || OwnsParts(context.fs, *real, file.sidecar->contents());
}

/// The existing files of lzy for `file`.
std::vector<std::string> FilesToRemove(const Context& context, const FileView& file) {
  std::vector<std::string> paths;
  for (std::size_t d = 0; OwnsItsParts(context, file) && d < file.part_paths.size(); ++d) {
    if (file.parts->part(d) != nullptr) paths.push_back(file.part_paths[d]);
  }
  if (context.fs.Stat(file.sidecar_path, /*follow=*/false).ok()) paths.push_back(file.sidecar_path);
  return paths;
}

/// Removes the sidecar last: as long as it exists, the parts can be found again.
Status RemoveFor(const Context& context, FileView& file) {
  if (OwnsItsParts(context, file)) RemoveOurs(context.fs, *file.sidecar, file.part_paths);
  const Status removed = context.fs.Remove(file.sidecar_path);
  if (removed.code() == Code::kNotFound) return Status::Ok();
  LZY_RETURN_IF_ERROR(removed);
  return context.fs.SyncDirectory(DirectoryOf(file.sidecar_path));
}

/// The paths of all ranks, sorted, each once.
Result<std::vector<std::string>> GatherPaths(Communicator& comm, const std::vector<std::string>& mine) {
  LZY_ASSIGN_OR_RETURN(std::vector<std::string> paths, UniteRecords(comm, mine));
  std::ranges::sort(paths);
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

/// True if another sidecar of the set `of` exists than those of `own`, beside `sidecar` or in reach.
bool HasOtherSidecar(const Context& context, const Peek& of, const std::string& sidecar, const std::vector<FileView*>& own) {
  constexpr std::uint32_t kMostAsked = 64;
  const std::string directory = DirectoryOf(sidecar);
  Directory around(context.fs, directory);
  const auto is_other = [&](const std::string& path) {
    return std::ranges::none_of(own, [&](const FileView* file) { return RealPathOf(context.fs, file->sidecar_path) == RealPathOf(context.fs, path); });
  };
  for (const std::string& name : around.Sidecars()) {
    const auto& peek = around.PeekAt(name);
    if (peek.ok() && peek->committed && peek->uuid == of.uuid && is_other(JoinPath(directory, name))) return true;
  }
  for (std::uint32_t rank = 0; rank < std::min(of.members, kMostAsked); ++rank) {
    const auto path = SidecarOfMemberInReach(context.fs, directory, of.uuid, rank);
    if (path && is_other(*path)) return true;
  }
  return false;
}

/// Returns an error if another set needs a sidecar of this process, because a member was renamed, or exchanged with one of this set.
Status NeededByASet(const Context& context, const DatasetView& view, const std::vector<FileView*>& own) {
  for (const FileView* file : own) {
    const auto peek = PeekSidecar(context.fs, file->sidecar_path);
    if (!peek.ok() || !peek->committed || peek->kind != DatasetKind::kSet) continue;
    const bool of_another = view.ref.kind == DatasetKind::kShared || (peek->uuid != view.superblock.uuid && HasOtherSidecar(context, *peek, file->sidecar_path, own));
    if (of_another) {
      return {Code::kUnprotected, fmt::format("{}: its sidecar is that of rank {} of the set {}, whose other members may need it; it was not "
                                              "removed. Rename the file back, or --force removes it", file->path, peek->rank, peek->name)};
    }
  }
  return Status::Ok();
}

/// Returns an error if the sidecar was made for another file beside it: one that was renamed, while this file got its name.
Status NeededByRenamed(const Context& context, const DatasetRef& dataset, const std::vector<FileView*>& own) {
  if (dataset.kind == DatasetKind::kSet) return Status::Ok();
  for (const FileView* file : own) {
    const auto peek = PeekSidecar(context.fs, file->sidecar_path);
    if (!peek.ok() || !peek->committed || !file->present || IsSameFile(file->stat, peek->stamp)) continue;
    const std::string real = FollowLink(context.fs, file->path), directory = DirectoryOf(real);
    const auto look = Neighbours::For(context.fs, directory, BaseNameOf(real), file->stat).look;
    for (const std::string& name : look->FilesOf(peek->stamp.inode)) {
      const auto other = context.fs.Stat(JoinPath(directory, name), /*follow=*/false);
      if (name == BaseNameOf(real) || !other.ok() || !IsSameFile(*other, peek->stamp)) continue;
      return {Code::kUnprotected, fmt::format("{}: its sidecar is that of '{}', which was renamed; it was not removed. --force removes it",
                                              file->path, JoinPath(DirectoryOf(file->path), name))};
    }
  }
  return Status::Ok();
}

/// Returns an error if another file may be what is left of the committed one: only the sidecar can give its content back.
Status NeededByRotten(const Context& context, const std::vector<FileView*>& own) {
  for (const FileView* file : own) {
    if (!file->sidecar_usable() || (file->present && MayBe(file->stat, file->stamp) && HasSizeAndTime(file->stat, file->stamp))) continue;
    const auto rotten = FindRotten(context.fs, file->sidecar_path, FollowLink(context.fs, file->path), context.options.key.get());
    if (!rotten) continue;
    return {Code::kUnprotected, fmt::format("{}: its sidecar may be that of '{}', which has the size and time and most of the content of its last "
                                            "commit: it was renamed or moved, and is damaged. The sidecar was not removed. First give that file its name "
                                            "back, and repair it; or --force removes it", file->path, *rotten)};
  }
  return Status::Ok();
}

/// True if data are damaged, whether or not the sidecars can repair them. Reads all data. If so, `report` is what was found. An error if
/// the sidecars may be the last to know what a file was: then a commit would need --force, too.
Result<bool> HasDamage(const Context& context, DatasetView& view, DatasetReport& report) {
  if (!view.committed) return false;
  LZY_ASSIGN_OR_RETURN(const Findings findings, Examine(context, view, /*from_disk=*/false));
  LZY_RETURN_IF_ERROR(RecognizeRot(context, view, findings));
  DatasetReport found(report.path, report.kind);
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] { Describe(view, findings, found); }));
  const auto has_data = [&](const auto& counts) {
    return std::ranges::any_of(found.damage, [&](const Damage& d) {
      return d.part == DamagePart::kData && !d.transient && d.cause != DamageCause::kNotVisible && counts(d.cause);
    });
  };
  if (has_data([](DamageCause cause) { return !IsEdit(cause); })) {
    report = std::move(found);
    return true;
  }
  if (!has_data([](DamageCause cause) { return IsEdit(cause); })) return false;
  if (!found.another) LZY_RETURN_IF_ERROR(WarnWhyNotToCommit(context, view, found));
  if (!found.another) return false;
  report.warnings = std::move(found.warnings);
  return Status(Code::kUnprotected, fmt::format("{}: its sidecars may be the last to know what some of its files were (see the warnings); they were "
                                                "not removed. --force removes them", view.ref.path));
}

// Opens the dataset for writing, so nothing is removed during a commit. `report` is that of Info, made without a lock. A
// commit that happened in between is removed with the rest.
Status Run(const Context& context, const DatasetRef& dataset, const UnprotectRequest& request, DatasetReport& report) {
  if (!request.force && IsNeeded(report)) return Status::Ok();
  LZY_ASSIGN_OR_RETURN(DatasetView view, OpenDataset(context, dataset, {/*write=*/!request.dry_run}));
  const std::vector<FileView*> own = OwnFileViews(context, view);
  if (!request.force) LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] { return NeededByASet(context, view, own); }));
  if (!request.force) LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] { return NeededByRenamed(context, dataset, own); }));
  if (!request.force) LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] { return NeededByRotten(context, own); }));
  if (!request.force && !request.dry_run) {
    LZY_ASSIGN_OR_RETURN(const bool needed, HasDamage(context, view, report));
    if (needed) return Status::Ok();
  }
  std::vector<std::string> mine;
  for (const FileView* file : own) std::ranges::move(FilesToRemove(context, *file), std::back_inserter(mine));
  LZY_ASSIGN_OR_RETURN(report.removed, GatherPaths(context.comm, mine));
  if (report.removed.empty()) return {Code::kUnprotected, fmt::format("{}: has no sidecar", dataset.path)};
  report.planned = true;
  if (request.dry_run) return Status::Ok();
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&]() -> Status {
    for (FileView* file : own) LZY_RETURN_IF_ERROR(RemoveFor(context, *file));
    return Status::Ok();
  }));
  report.state = DatasetState::kUnprotected;
  report.damage.clear();
  return Status::Ok();
}

}  // namespace

DatasetReport Unprotect(const Context& context, const DatasetRef& dataset, const UnprotectRequest& request) {
  DatasetReport report = Info(context, dataset);
  // Ruined sidecars can be removed. Sidecars that are sealed with another key, or newer than this lzy, belong to somebody.
  if (IsRuined(report.status)) report.status = Status::Ok();
  if (report.status.ok()) {
    report.status = NoThrow([&] { return Run(context, dataset, request, report); });
  }
  return report;
}

}  // namespace lzy
