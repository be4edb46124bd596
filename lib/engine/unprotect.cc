// Taking protection away: sidecars and parts are removed, data never. What could still repair something, or is in use,
// stays unless force is set.

#include <fmt/format.h>

#include <algorithm>

#include "comm/records.h"
#include "dataset/lock.h"
#include "dataset/parts.h"
#include "dataset/view.h"
#include "engine/engine.h"
#include "names/peek.h"

namespace lzy {
namespace {

/// Whether what is to be removed can mend data that are missing, or is in use.
bool IsNeeded(const DatasetReport& report) {
  return report.in_epoch || std::ranges::count(report.damage, DamagePart::kData, &Damage::part) != 0;
}

/// The files of the dataset that this process sees to. What matches the pattern of a committed set, and is no member,
/// is not of it.
std::vector<FileView*> OwnFileViews(const Context& context, DatasetView& view) {
  std::vector<FileView*> own;
  const auto add = [&](FileView& file) {
    if (file.owner == context.comm.rank()) own.push_back(&file);
  };
  std::ranges::for_each(view.files(), add);
  if (!view.committed) std::ranges::for_each(view.extras, add);
  return own;
}

/// Whether the parts are this file's: those of a copy of a file and its sidecar are the original's.
bool OwnsItsParts(const Context& context, const FileView& file) {
  if (!file.sidecar || !file.parts) return false;
  const auto real = context.fs.RealPath(file.path);
  return !real.ok() || OwnsParts(context.fs, *real, file.sidecar->contents());
}

/// What there is of lzy's for `file`.
std::vector<std::string> FilesToRemove(const Context& context, const FileView& file) {
  std::vector<std::string> paths;
  for (std::size_t d = 0; OwnsItsParts(context, file) && d < file.part_paths.size(); ++d) {
    if (file.parts->part(d) != nullptr) paths.push_back(file.part_paths[d]);
  }
  if (context.fs.Stat(file.sidecar_path, /*follow=*/false).ok()) paths.push_back(file.sidecar_path);
  return paths;
}

/// The sidecar goes last: while it is there, the rest can be found again.
Status RemoveFor(const Context& context, FileView& file) {
  if (OwnsItsParts(context, file)) RemoveOurs(context.fs, *file.sidecar, file.part_paths);
  const Status removed = context.fs.Remove(file.sidecar_path);
  if (removed.code() == Code::kNotFound) return Status::Ok();
  LZY_RETURN_IF_ERROR(removed);
  return context.fs.SyncDirectory(DirectoryOf(file.sidecar_path));
}

/// What all ranks list, without doubles, sorted.
Result<std::vector<std::string>> GatherPaths(Communicator& comm, const std::vector<std::string>& mine) {
  LZY_ASSIGN_OR_RETURN(std::vector<std::string> paths, UniteRecords(comm, mine));
  std::ranges::sort(paths);
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

/// Why the sidecars of this process may not go, if a set needs them whose member was renamed.
Status NeededByASet(const Context& context, const DatasetRef& dataset, const std::vector<FileView*>& own) {
  for (const FileView* file : own) {
    const auto peek = PeekSidecar(context.fs, file->sidecar_path);
    if (!peek.ok() || !peek->committed) continue;
    if (dataset.kind == DatasetKind::kShared && peek->kind == DatasetKind::kSet) {
      return {Code::kUnprotected, fmt::format("{}: its sidecar is that of rank {} of the set {}, whose other members may need it; it was not "
                                              "removed. Rename the file back, or --force removes it", file->path, peek->rank, peek->name)};
    }
  }
  return Status::Ok();
}

// The dataset is opened for writing, so nothing is removed while somebody commits. `report` is that of Info, made
// without a lock. So a commit may come in between; it is then removed with the rest.
Status Run(const Context& context, const DatasetRef& dataset, const UnprotectRequest& request, DatasetReport& report) {
  if (!request.force && IsNeeded(report)) return Status::Ok();
  LZY_ASSIGN_OR_RETURN(DatasetView view, OpenDataset(context, dataset, {/*write=*/!request.dry_run}));
  const std::vector<FileView*> own = OwnFileViews(context, view);
  if (!request.force) LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] { return NeededByASet(context, dataset, own); }));
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
  // Ruins tell nothing, and can go; what is sealed with another key, or newer than this lzy, is somebody's.
  if (IsRuined(report.status)) report.status = Status::Ok();
  if (report.status.ok()) {
    report.status = NoThrow([&] { return Run(context, dataset, request, report); });
  }
  return report;
}

}  // namespace lzy
