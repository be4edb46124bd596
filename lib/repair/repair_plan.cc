#include "repair/repair_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "encode/rebuild.h"

// Plans in two steps. PlanFile decides for a whole file whether it is made again or repaired in place. PlanRow decides for
// each row which lost blocks to write, and whether the row can be rebuilt. Both use only the view and the findings.

namespace lzy {
namespace {

// Goes through the lost blocks row by row.
class Planner {
 public:
  Planner(const DatasetView& view, const Findings& findings, const RepairRequest& request)
      : view_(view), findings_(findings), request_(request) {}

  Result<RepairPlan> Run() {
    RepairPlan plan;
    plan.beyond = !view_.UnknownFilesAreThere();
    for (std::size_t e = 0; e < view_.ensembles.size(); ++e) {
      LZY_ASSIGN_OR_RETURN(EnsemblePlan one, PlanEnsemble(view_.ensembles[e], findings_.files[e], plan.beyond));
      plan.ensembles.push_back(std::move(one));
    }
    return plan;
  }

 private:
  bool shared() const { return view_.ref.kind == DatasetKind::kShared; }
  bool Named(const FileView& file) const { return !shared() && request_.devices.contains(file.rank); }

  Result<EnsemblePlan> PlanEnsemble(const Ensemble& ensemble, const std::vector<FileFindings>& found, bool& beyond) const {
    EnsemblePlan plan;
    for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) {
      plan.files.push_back(PlanFile(ensemble.files[f], found[f]));
    }
    const std::vector<LostBlock> lost = LostBlocks(ensemble, found);
    if (shared() && std::ranges::any_of(lost, [](const LostBlock& block) { return block.unproven; })) {
      // Unknown hashes cannot be written, and a sidecar without them would contradict itself.
      plan.files[0].rehash_parity = CanRehash(ensemble, lost);
      plan.files[0].repair_metadata = plan.files[0].repair_metadata && plan.files[0].rehash_parity;
    }
    PlanCache plans(*ensemble.layout);
    Status status;
    ForEachRow(lost, [&](std::size_t begin, std::size_t end) {
      const Status one = PlanRow(ensemble, plans, std::span(lost).subspan(begin, end - begin), plan, beyond);
      if (status.ok()) status = one;
    });
    LZY_RETURN_IF_ERROR(status);
    for (std::uint32_t f = 0; f < plan.files.size(); ++f) {
      // Do not make a file of nothing but zeros: it would look as if something had been saved. An existing file may even be
      // right.
      std::uint64_t unrepaired = 0;
      for (const ByteRange& range : plan.files[f].unrepaired) unrepaired += range.length;
      const bool nothing = unrepaired > 0 && unrepaired == ensemble.layout->file_size(f);
      if (nothing) plan.files[f].rebuild_data = false;
    }
    // Without all hashes, a sidecar would contradict what the other sidecars record of it.
    for (FilePlan& file : plan.files) {
      if (!file.unrepaired.empty() || !file.unrepaired_parity.empty()) file.rebuild_sidecar = false;
    }
    return plan;
  }

  FilePlan PlanFile(const FileView& file, const FileFindings& found) const {
    FilePlan plan;
    if (request_.create_missing) {
      plan.rebuild_data = !file.present || found.whole_device || Named(file);
      // The path to the dataset root needs the roots of all members, so none can be written if some are unknown.
      plan.rebuild_sidecar = (!file.sidecar_usable() || Named(file)) && view_.unknown_ranks.empty();
      if (plan.rebuild_data && file.present && !request_.force && IsEdit(CauseOf(file, BlockFault::kHash, {0, 1}))) {
        // The file was edited since the commit. Only --force takes that back, also if the device is named. The sidecar
        // cannot be made again without the committed data.
        plan.rebuild_data = plan.rebuild_sidecar = false;
      }
    }
    for (std::size_t d = 0; d < file.part_obstacles.size(); ++d) {
      if (!file.part_obstacles[d].empty()) plan.parts_left.insert(file.part_paths[d]);
    }
    const bool repairs = PartsMoved(view_) || std::ranges::any_of(found.metadata, [&](const MetadataDamage& damage) {
      return damage.part == 0 || damage.part > file.part_paths.size() || !plan.parts_left.contains(file.part_paths[damage.part - 1]);
    });
    plan.repair_metadata = file.sidecar_usable() && !plan.rebuild_sidecar && repairs;
    if (found.extra_bytes != 0 && !plan.rebuild_data && !found.whole_device &&
        (file.sidecar_usable() || plan.rebuild_sidecar)) {
      plan.cut_tail = request_.force || !IsEdit(CauseOf(file, BlockFault::kHash, {file.stamp.size, 1}));
      plan.edits_left = !plan.cut_tail;
      plan.undoes_edits = plan.cut_tail && CauseOf(file, BlockFault::kHash, {file.stamp.size, 1}) == DamageCause::kStale;
      if (plan.cut_tail) plan.changed.push_back({file.stamp.size, found.extra_bytes});
    }
    plan.finish_repair =
        file.present && !plan.rebuild_data && file.intent && IsOfRepair(*file.intent);
    return plan;
  }

  // True if this lost block will be written. Asks first what can never be written, then the plan of the file, then force. A
  // block that is not wanted still counts as a loss of its row.
  bool Wanted(const Ensemble& ensemble, const EnsemblePlan& plan, const LostBlock& block) const {
    const std::uint32_t f = ensemble.layout->HolderOf(block.parity, block.device);
    const FileView& file = ensemble.files[f];
    // Parity of rows with edits is out of date, and some rows have none. The next commit makes it again.
    if (block.forsaken) return false;
    // The row does not give the committed parity. Only a commit can write it (engine/verify.cc).
    if (block.cause == DamageCause::kEncoding) return false;
    if (shared() && block.unproven && !plan.files[0].rehash_parity) return false;  // a rebuilt block could not be checked
    if (block.parity && !file.part_paths.empty() && plan.files[f].parts_left.contains(file.part_paths[block.device])) return false;
    if (block.parity) {
      return plan.files[f].rebuild_sidecar || (file.sidecar_usable() && (request_.force || !IsEdit(block.cause)));
    }
    if (plan.files[f].rebuild_data) return true;
    if (!file.present) return false;
    if (!shared() && !file.sidecar_usable()) return false;  // single blocks could not be checked
    return request_.force || !IsEdit(block.cause);
  }

  Status PlanRow(const Ensemble& ensemble, PlanCache& plans, std::span<const LostBlock> row, EnsemblePlan& plan,
                 bool& beyond) const {
    const Layout& layout = *ensemble.layout;
    std::vector<std::uint32_t> bad, wanted;
    bool damaged = false;
    for (const LostBlock& block : row) {
      damaged = damaged || (!IsEdit(block.cause) && !(shared() && block.unknown));
      if (!block.in_replica) bad.push_back(block.device);
      if (Wanted(ensemble, plan, block)) {
        if (!block.in_replica) wanted.push_back(block.device);
        if (block.in_replica) TakeFromReplica(layout, block, plan);
        if (!block.parity && block.cause == DamageCause::kStale) plan.files[layout.file_of(block.device)].undoes_edits = true;
      } else if (!block.parity && IsEdit(block.cause)) {
        plan.files[layout.file_of(block.device)].edits_left = true;
      }
    }
    // A lost row forbids writing, also if none of its blocks is to be written now.
    if (wanted.empty() && !damaged) return Status::Ok();
    if (bad.size() > layout.parity()) {  // blocks that a replica has do not count as lost
      // If only parity of edited data is lost, nothing is beyond repair: the next commit makes the parity.
      const bool only_parity = std::ranges::all_of(row, [&](const LostBlock& block) {
        return block.in_replica || block.parity || (shared() && block.unknown) || (IsEdit(block.cause) && !Wanted(ensemble, plan, block));
      });
      beyond = beyond || !only_parity;
      NoteUnrepaired(ensemble, row, plan);
      return Status::Ok();
    }
    if (wanted.empty()) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(auto rebuild, plans.Rebuild(row[0].group, row[0].unit_row, bad, wanted));
    for (const LostBlock& block : row) {
      if (block.in_replica || !Wanted(ensemble, plan, block)) continue;
      FilePlan& file = plan.files[layout.HolderOf(block.parity, block.device)];
      if (block.parity) {
        file.parity_in_place = file.parity_in_place || !file.rebuild_sidecar;
      } else if (!file.rebuild_data) {
        file.data_in_place = true;
        const BlockPlace place = layout.DataBlock(block.device, block.unit_row, block.slice);
        file.changed.push_back({place.offset, place.length});
      }
    }
    AppendRun(plan.runs, {row[0].group, row[0].unit_row, row[0].slice, 1, std::move(rebuild)});
    return Status::Ok();
  }

  static void TakeFromReplica(const Layout& layout, const LostBlock& block, EnsemblePlan& plan) {
    const BlockPlace place = layout.DataBlock(block.device, block.unit_row, block.slice);
    plan.from_replica.push_back({block.device, false, place});
    FilePlan& file = plan.files[layout.file_of(block.device)];
    if (file.rebuild_data) return;
    file.data_in_place = true;
    file.changed.push_back({place.offset, place.length});
  }

  // Notes blocks that cannot be rebuilt, for the report and for Finish. A file with such blocks must not look as committed.
  static void NoteUnrepaired(const Ensemble& ensemble, std::span<const LostBlock> row, EnsemblePlan& plan) {
    const Layout& layout = *ensemble.layout;
    for (const LostBlock& block : row) {
      if (block.in_replica) continue;
      const std::uint32_t f = layout.HolderOf(block.parity, block.device);
      const BlockPlace place = layout.Block(block.parity, block.device, block.unit_row, block.slice);
      if (block.parity) {
        const PlaceInFile where = ParityPlace(ensemble.files[f], layout.unit(), place.offset);
        plan.files[f].unrepaired_parity[where.path].push_back({where.offset, place.length});
      } else {
        plan.files[f].unrepaired.push_back({place.offset, place.length});
      }
    }
  }

  const DatasetView& view_;
  const Findings& findings_;
  const RepairRequest& request_;
};

// True if the plan has repaired the damage `d`.
bool IsRepaired(const FilePlan& plan, const RepairRequest& request, const Damage& d) {
  if (plan.parts_left.contains(d.path) || d.cause == DamageCause::kEncoding) return false;
  const bool edit = IsEdit(d.cause) && !request.force;
  const ByteRange bytes{d.offset, d.length};
  switch (d.part) {
    case DamagePart::kData:
      return !Meets(plan.unrepaired, bytes) && (plan.rebuild_data || (!edit && (plan.data_in_place || plan.cut_tail)));
    case DamagePart::kParity:
      if (const auto at = plan.unrepaired_parity.find(d.path); at != plan.unrepaired_parity.end() && Meets(at->second, bytes)) return false;
      return plan.rebuild_sidecar || (plan.parity_in_place && !edit);
    case DamagePart::kMetadata:
      return plan.rebuild_sidecar || plan.repair_metadata;
  }
  return false;
}

}  // namespace

// Blocks that are known to be bad keep their cause. The others of the device are added as missing, one by one, because the
// blocks of one device of a shared file are not contiguous.
Status AddLostDevices(const DatasetView& view, const RepairRequest& request, Findings& findings) {
  for (std::uint32_t wanted : request.devices) {
    bool found = false;
    for (std::size_t e = 0; e < view.ensembles.size(); ++e) {
      const Ensemble& ensemble = view.ensembles[e];
      const Layout& layout = *ensemble.layout;
      for (std::uint32_t device = 0; device < layout.devices(); ++device) {
        const std::uint32_t number = view.ref.kind == DatasetKind::kSet ? ensemble.files[device].rank : device;
        if (number != wanted) continue;
        found = true;
        for (const bool parity : {false, true}) {
          const std::uint32_t f = layout.HolderOf(parity, device);
          auto& list = parity ? findings.files[e][f].parity : findings.files[e][f].data;
          std::vector<bool> bad(layout.Blocks(parity, f), false);
          std::vector<BadBlocks> kept;
          for (const BadBlocks& b : list) {
            if (b.transient) continue;
            for (std::uint64_t i = b.first; i < b.first + b.count; ++i) bad[i] = true;
            kept.push_back(b);
          }
          for (std::uint64_t i = 0; i < bad.size(); ++i) {
            if (!bad[i] && layout.Locate(parity, f, i).device == device) kept.push_back({i, 1, BlockFault::kMissing, false});
          }
          list = std::move(kept);
        }
      }
    }
    if (!found) {
      return {Code::kInvalidArgument, fmt::format("--device: {} has no device {}: 0 to {} are accepted", view.ref.path,
                                                  wanted, view.superblock.members - 1)};
    }
  }
  return Status::Ok();
}

Result<RepairPlan> PlanRepair(const DatasetView& view, const Findings& findings, const RepairRequest& request) {
  return Planner(view, findings, request).Run();
}

std::uint64_t BytesFromReplica(const RepairPlan& plan) {
  std::uint64_t bytes = 0;
  for (const EnsemblePlan& ensemble : plan.ensembles) {
    for (const RowBlock& block : ensemble.from_replica) bytes += block.place.length;
  }
  return bytes;
}

// Finds plans by path, because reports name paths. A part that was not repaired, or a range beyond repair, stays damage.
void MarkRepaired(const DatasetView& view, const RepairPlan& plan, const RepairRequest& request, DatasetReport& report) {
  std::map<std::string, const FilePlan*> by_path;
  for (std::size_t e = 0; e < plan.ensembles.size(); ++e) {
    for (std::uint32_t f = 0; f < plan.ensembles[e].files.size(); ++f) {
      const FileView& file = view.ensembles[e].files[f];
      by_path[file.path] = by_path[file.sidecar_path] = &plan.ensembles[e].files[f];
      for (const std::string& part : file.part_paths) by_path[part] = &plan.ensembles[e].files[f];
    }
  }
  if (view.ref.kind == DatasetKind::kShared && plan.ensembles[0].files[0].rebuild_data) report.gone = false;
  for (Damage& d : report.damage) {
    const auto at = by_path.find(d.path);
    if (at == by_path.end() || d.transient || d.beyond_repair) continue;
    d.repaired = IsRepaired(*at->second, request, d);
  }
}

}  // namespace lzy
