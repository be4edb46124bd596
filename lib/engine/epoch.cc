// Epochs as the interposition layer begins and abandons them, and Info (docs/design.md "Epochs").

#include <fmt/format.h>

#include "engine/engine.h"
#include "engine/examine.h"
#include "engine/rehome.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy {

Result<EpochStart> BeginEpoch(FileSystem& fs, const Options& options, const std::string& data_path,
                              const std::string& pattern) {
  EpochStart start;
  LZY_ASSIGN_OR_RETURN(auto data, fs.Open(data_path, OpenMode::kRead));
  LZY_ASSIGN_OR_RETURN(const std::string sidecar_path, Rehome(fs, data_path));
  const bool member = !pattern.empty();
  std::uint32_t rank = 0;
  if (member) rank = MatchPattern(pattern, data_path).value_or(0);
  const SidecarContents empty = EmptyContents(options, member ? DatasetKind::kSet : DatasetKind::kShared,
                                              member ? PatternTail(pattern) : BaseNameOf(data_path), rank);
  LZY_ASSIGN_OR_RETURN(auto sidecar, LockSidecar(fs, sidecar_path, data.get(), &empty, options.timeout_seconds));
  LZY_ASSIGN_OR_RETURN(const FileStat stat, data->Stat());
  const Stamp& stamp = sidecar->contents().superblock.stamp;
  start.had_sidecar = sidecar->contents().superblock.state == SidecarState::kCommitted;
  // An intent that is already set is from an epoch that broke off, or from another process that writes now: neither
  // leaves anything to rely on.
  start.changed_behind =
      !start.had_sidecar || stat.size != stamp.size || stat.mtime_ns != stamp.mtime_ns || sidecar->intent().has_value();
  LZY_RETURN_IF_ERROR(sidecar->SetIntent(kIntentWholeFile, {}));
  return start;
}

Status AbandonEpoch(FileSystem& fs, const std::string& data_path) {
  LZY_ASSIGN_OR_RETURN(const std::string path, SidecarPath(data_path));
  auto sidecar = Sidecar::Load(fs, path, OpenMode::kReadWrite);
  if (!sidecar.ok()) return sidecar.status().code() == Code::kNotFound ? Status::Ok() : sidecar.status();
  if (!(*sidecar)->committed()) return fs.Remove(path);
  return (*sidecar)->ClearIntent();
}

Status Forget(FileSystem& fs, const std::string& data_path) {
  LZY_ASSIGN_OR_RETURN(const std::string path, SidecarPath(data_path));
  for (const std::string& one : {path, NewSidecarPath(data_path)}) {
    if (Status removed = fs.Remove(one); !removed.ok() && removed.code() != Code::kNotFound) return removed;
  }
  return Status::Ok();
}

DatasetReport Info(const Context& context, const DatasetRef& dataset) {
  DatasetReport report;
  report.path = dataset.path;
  report.kind = dataset.kind;
  auto view = OpenDataset(context, dataset, {});
  if (!view.ok()) {
    report.status = view.status();
    return report;
  }
  DescribeMetadata(*view, report);
  if (!view->committed) {
    report.status = view->unusable;
    return report;
  }
  bool stale = false, at_risk = false;
  const auto damaged = [&](const FileView& file, DamagePart part) {
    const bool data = part == DamagePart::kData;
    const bool unusable = !data && file.fault != SidecarFault::kMissing;
    report.damage.push_back({data ? file.path : file.sidecar_path, file.rank, part, 0, data ? file.stamp.size : 0,
                             unusable ? DamageCause::kHash : DamageCause::kMissing, false, false, false, {}});
  };
  for (const Ensemble& ensemble : view->ensembles) {
    for (const FileView& file : ensemble.files) {
      if (!file.present) damaged(file, DamagePart::kData);
      if (!file.sidecar_usable()) damaged(file, DamagePart::kMetadata);
      at_risk = at_risk || (file.intent && (file.intent->flags & kIntentRepair) == 0);
      stale =
          stale || (file.present && (file.stat.size != file.stamp.size || file.stat.mtime_ns != file.stamp.mtime_ns));
    }
    for (std::uint32_t g = 0; g < ensemble.layout->group_count(); ++g) {
      GroupMap& map = report.map.emplace_back();
      for (std::uint32_t device : ensemble.layout->group(g)) {
        if (dataset.kind == DatasetKind::kSet) {
          map.devices.push_back(
              {ensemble.files[device].rank, ensemble.files[device].path, ensemble.records[device].domain});
        } else {
          map.devices.push_back({device, "", ""});
        }
      }
    }
  }
  for (const std::uint32_t rank : view->unknown_ranks) {
    report.damage.push_back(
        {ExpandPattern(dataset.path, rank), rank, DamagePart::kData, 0, 0, DamageCause::kMissing, false, false, true, {}});
  }
  report.state = !report.damage.empty() ? DatasetState::kDamaged
                 : at_risk              ? DatasetState::kAtRisk
                 : stale                ? DatasetState::kStale
                                        : DatasetState::kIntact;
  return report;
}

}  // namespace lzy
