// Describes a dataset by metadata and times. No data are read, so rot is not found, and only the mtime shows an edit. Losses
// are judged by the geometry, as lzy-verify judges them (Layout::CanRebuild).
//
// lzy-info, `heal` at startup and lzy-protect --remove call Info. It must be cheap for any size of data, so it only opens
// files and reads sidecars. "Intact" here means that nothing contradicts it.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <optional>
#include <span>
#include <vector>

#include "dataset/by_servers.h"
#include "dataset/view.h"
#include "engine/block_map.h"
#include "engine/engine.h"
#include "judge/examine.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

/// The signs from which the state follows. Signs of damage are in report.damage.
struct Signs {
  bool stale = false;
  bool at_risk = false;
  bool beyond_repair = false;
  bool repair_unfinished = false;
};

Damage Missing(const std::string& path, std::uint32_t device, DamagePart part, std::uint64_t length) {
  return {.path = path, .device = device, .part = part, .length = length, .cause = DamageCause::kMissing};
}

/// Judges an existing file: edited since its commit, or shorter or longer with the committed mtime.
void JudgeSizeAndTime(const FileView& file, Signs& signs, DatasetReport& report) {
  signs.stale = signs.stale || file.stat.mtime_ns != file.stamp.mtime_ns;
  if (file.stat.size == file.stamp.size) return;
  const auto [begin, end] = std::minmax(file.stat.size, file.stamp.size);
  const BlockFault fault = begin == file.stat.size ? BlockFault::kMissing : BlockFault::kHash;
  // An edit does not change the size and keep the mtime.
  const DamageCause cause = CauseOf(file, fault, {begin, end - begin});
  signs.stale = signs.stale || IsEdit(cause);
  if (IsEdit(cause)) return;
  report.damage.push_back({.path = file.path, .device = file.rank, .offset = begin, .length = end - begin, .cause = cause});
}

// Judges what is missing of one file, and its intent. Uses the parts that this rank has open: OpenDataset has checked that
// all ranks see the parts that rank 0 sees.
void JudgeFile(const FileView& file, Signs& signs, DatasetReport& report) {
  if (file.not_visible) {
    report.not_visible.push_back({file.rank, file.path, file.written_on});
    report.damage.push_back(Missing(file.path, file.rank, DamagePart::kData, file.stamp.size));
    report.damage.back().cause = DamageCause::kNotVisible;
    return;
  }
  if (!file.present) report.damage.push_back(Missing(file.path, file.rank, DamagePart::kData, file.stamp.size));
  if (!file.sidecar_usable()) {
    Damage& damage = report.damage.emplace_back(Missing(file.sidecar_path, file.rank, DamagePart::kMetadata, 0));
    if (file.fault != SidecarFault::kMissing) damage.cause = DamageCause::kHash;
  }
  for (std::size_t d = 0; file.parts && d < file.part_paths.size(); ++d) {
    if (file.parts->part(d) != nullptr) continue;
    report.damage.push_back(Missing(file.part_paths[d], static_cast<std::uint32_t>(d), DamagePart::kMetadata, 0));
  }
  signs.at_risk = signs.at_risk || (file.intent && !IsOfRepair(*file.intent));
  if (file.intent && IsOfRepair(*file.intent)) {
    signs.repair_unfinished = true;
    report.warnings.push_back(fmt::format("{}: a repair did not finish, or could not recover all of it", file.path));
  }
  if (file.present) JudgeSizeAndTime(file, signs, report);
}

/// Judges whether the existing parity can rebuild the missing files. Rot is not known, because nothing is read.
void JudgeLosses(const Ensemble& ensemble, Signs& signs, DatasetReport& report) {
  const Layout& layout = *ensemble.layout;
  std::vector<bool> gone;
  for (const FileView& file : ensemble.files) gone.push_back(!file.present && !file.not_visible);
  if (std::ranges::count(gone, true) == 0) return;
  const auto parity_lost = [&](std::uint32_t device, std::uint64_t unit_row) {
    const FileView& file = ensemble.files[layout.file_of(device)];
    if (!file.parts) return !file.sidecar_usable() && !file.not_visible;
    const std::uint64_t unit = layout.ParityBlock(device, unit_row, 0).offset / layout.unit();
    return file.parts->part(unit % file.part_paths.size()) == nullptr;
  };
  if (layout.CanRebuild(gone, parity_lost)) return;
  signs.beyond_repair = true;
  for (Damage& damage : report.damage) {
    for (const FileView& file : ensemble.files) {
      damage.beyond_repair = damage.beyond_repair || (!file.present && file.path == damage.path);
    }
  }
}

/// True if the end of the file is cut off, and this counts as damage.
bool IsCut(const FileView& file) {
  if (!file.present || file.not_visible || file.stat.size >= file.stamp.size) return false;
  return !IsEdit(CauseOf(file, BlockFault::kMissing, {file.stat.size, file.stamp.size - file.stat.size}));
}

// The blocks that are missing, as Examine would find them; nullopt if they are too many to look at each.
std::optional<std::vector<FileFindings>> MissingBlocks(const Ensemble& ensemble) {
  constexpr std::uint64_t kMost = 1u << 20;
  const Layout& layout = *ensemble.layout;
  std::vector<FileFindings> found(ensemble.files.size());
  std::uint64_t blocks = 0;
  for (std::uint32_t f = 0; f < found.size(); ++f) {
    const FileView& file = ensemble.files[f];
    if (file.not_visible) continue;
    const std::uint64_t first = !file.present ? 0 : IsCut(file) ? file.stat.size / layout.block_size() : layout.data_blocks(f);
    if (first < layout.data_blocks(f)) found[f].data.push_back({first, layout.data_blocks(f) - first, BlockFault::kMissing});
    const bool parity_lost = !file.sidecar_usable() && layout.parity_blocks(f) > 0;
    if (parity_lost) found[f].parity.push_back({0, layout.parity_blocks(f), BlockFault::kMissing});
    blocks += layout.data_blocks(f) - first + (parity_lost ? layout.parity_blocks(f) : 0);
  }
  return blocks > kMost ? std::nullopt : std::optional(std::move(found));
}

/// Judges whether parity can rebuild the ends of files that were cut off, row by row, as lzy-verify does.
void JudgeCuts(DatasetKind kind, const Ensemble& ensemble, Signs& signs, DatasetReport& report) {
  const Layout& layout = *ensemble.layout;
  if (std::ranges::none_of(ensemble.files, IsCut)) return;
  const auto missing = MissingBlocks(ensemble);
  if (!missing) {
    // Whoever loses so much of one file loses whole rows; of a set, it depends on the other members.
    signs.beyond_repair = signs.beyond_repair || kind == DatasetKind::kShared;
    for (Damage& d : report.damage) d.beyond_repair = d.beyond_repair || (kind == DatasetKind::kShared && d.part == DamagePart::kData);
    return;
  }
  std::set<std::string> cut;
  for (const FileView& file : ensemble.files) {
    if (IsCut(file)) cut.insert(file.path);
  }
  std::erase_if(report.damage, [&](const Damage& d) {
    return d.part == DamagePart::kData && d.cause == DamageCause::kMissing && cut.contains(d.path);
  });
  const std::vector<LostBlock> lost = LostBlocks(ensemble, *missing);
  ForEachRow(lost, [&](std::size_t begin, std::size_t end) {
    const auto row = std::span(lost).subspan(begin, end - begin);
    const bool beyond = CountForParity(row) > layout.parity();
    for (const LostBlock& block : row) {
      const FileView& file = ensemble.files[layout.file_of(block.device)];
      if (block.parity) continue;
      signs.beyond_repair = signs.beyond_repair || beyond;
      for (Damage& d : report.damage) d.beyond_repair = d.beyond_repair || (beyond && !file.present && d.path == file.path);
      if (!file.present) continue;
      const BlockPlace place = layout.DataBlock(block.device, block.unit_row, block.slice);
      report.damage.push_back({.path = file.path, .device = kind == DatasetKind::kSet ? file.rank : block.device, .offset = place.offset,
                               .length = place.length, .cause = block.cause, .beyond_repair = beyond});
    }
  });
  MergeDamage(report.damage);
}

// Takes no lock. If nothing is lost, only OpenDataset communicates; everything else follows from agreed facts. `met_commit`:
// losses may not be real, because another process commits.
DatasetReport LookOnce(const Context& context, const DatasetRef& dataset, bool& met_commit) {
  DatasetReport report(dataset.path, dataset.kind);
  auto view = OpenDataset(context, dataset, {.stripes = true});
  met_commit = view.status().code() == Code::kBusy;
  if (!view.ok()) {
    report.status = view.status();
    return report;
  }
  DescribeMetadata(*view, report);
  if (!view->committed) {
    report.status = view->unusable;
    return report;
  }
  Signs signs;
  for (const Ensemble& ensemble : view->ensembles) {
    for (const FileView& file : ensemble.files) JudgeFile(file, signs, report);
    JudgeLosses(ensemble, signs, report);
    JudgeCuts(dataset.kind, ensemble, signs, report);
    for (std::uint32_t g = 0; g < ensemble.layout->group_count(); ++g) report.map.push_back(MapOfGroup(dataset.kind, ensemble, g));
  }
  DescribeServers(*view, report);
  for (const std::uint32_t rank : view->unknown_ranks) {
    if (const FileView* file = view->UnknownFile(rank); file != nullptr) {
      report.unjudged = true;
      report.unchecked.push_back({file->path, 0, file->stat.size});
      continue;
    }
    if (view->unknown_elsewhere) {
      report.not_visible.push_back({rank, ExpandPattern(dataset.path, rank), ""});
      report.damage.push_back(Missing(ExpandPattern(dataset.path, rank), rank, DamagePart::kData, 0));
      report.damage.back().cause = DamageCause::kNotVisible;
      continue;
    }
    signs.beyond_repair = true;
    Damage& damage =
        report.damage.emplace_back(Missing(ExpandPattern(dataset.path, rank), rank, DamagePart::kData, 0));
    damage.beyond_repair = true;
  }
  report.in_epoch = signs.at_risk;
  // The gravest sign decides. report.damage has only losses here; edits are only in the signs.
  const bool damaged = signs.repair_unfinished || report.damage.size() > report.not_visible.size();
  report.state = signs.beyond_repair ? DatasetState::kUnrepairable
                 : report.unjudged   ? DatasetState::kUnprotected
                 : damaged           ? DatasetState::kDamaged
                 : signs.at_risk     ? DatasetState::kAtRisk
                 : signs.stale       ? DatasetState::kStale
                 : report.not_visible.empty() ? DatasetState::kIntact
                                              : DatasetState::kUnprotected;
  if (!signs.beyond_repair && !report.unjudged && !damaged) return report;
  const auto met = CommittedMeanwhile(context, *view);
  met_commit = met.ok() && *met;
  if (!met.ok()) report.status = met.status();
  return report;
}

}  // namespace

DatasetReport Info(const Context& context, const DatasetRef& dataset) {
  bool met_commit = false;
  DatasetReport report = LookOnce(context, dataset, met_commit);
  if (met_commit) report = LookOnce(context, dataset, met_commit);
  if (!met_commit) return report;
  report.status = Status::Ok();
  ReportCommitUnderWay(report);
  return report;
}

}  // namespace lzy
