#include "repair/lost_members.h"

#include <algorithm>

#include "encode/rebuild.h"
#include "repair/repair_plan.h"

// Ranks agree twice: on what each rank assumes, and on whether the blocks that Repair will not read are sound. If one rank
// disagrees, all of them stop, and Examine takes over.

namespace lzy {
namespace {

// True if the file is as committed, judged by its metadata.
bool LooksSound(const FileView& file, const Layout& layout, std::uint32_t f) {
  return file.present && file.stat.size == layout.file_size(f) && CauseOf(file, BlockFault::kHash, {0, 1}) == DamageCause::kHash;
}

/// True if the sidecar is usable and no intent is set. If this rank has it open (`own`), also all copies must be whole.
bool HasWholeSidecar(const FileView& file, bool own) {
  if (!file.sidecar_usable() || file.intent) return false;
  return !own || (file.sidecar != nullptr && file.sidecar->damage().empty() && file.sidecar->knows_all_leaves());
}

// True if there is neither data nor a sidecar: the whole device was lost.
bool HasNoTrace(const FileView& file) {
  return !file.present && file.fault == SidecarFault::kMissing;
}

// Assumes losses from metadata, plans their repair, and reads only the blocks that the plan will not read. All ranks get the
// same answer.
class Assumption {
 public:
  Assumption(const Context& context, const DatasetView& view) : context_(context), view_(view) {}

  Result<std::optional<Findings>> Make(const RepairRequest& request) {
    Findings findings;
    // Each rank assumes alone. One rank that sees an obstacle stops all.
    bool possible = false;
    RepairPlan plan;
    LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&]() -> Status {
      possible = Suppose(findings);
      if (!possible) return Status::Ok();
      LZY_ASSIGN_OR_RETURN(plan, PlanRepair(view_, findings, request));
      possible = !plan.beyond;
      return Status::Ok();
    }));
    LZY_ASSIGN_OR_RETURN(const std::uint64_t obstacles, context_.comm.AllReduceMax(possible ? 0 : 1));
    if (obstacles != 0) return std::optional<Findings>();
    // Sources are compared with their hashes when they are used. The other blocks are checked here.
    bool sound = true;
    LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&]() -> Status {
      for (std::size_t e = 0; e < view_.ensembles.size() && sound; ++e) {
        LZY_ASSIGN_OR_RETURN(sound, RestIsSound(view_.ensembles[e], plan.ensembles[e]));
      }
      return Status::Ok();
    }));
    LZY_ASSIGN_OR_RETURN(const std::uint64_t unsound, context_.comm.AllReduceMax(sound ? 0 : 1));
    return unsound == 0 ? std::optional<Findings>(std::move(findings)) : std::nullopt;
  }

 private:
  bool Own(const FileView& file) const { return file.owner == context_.comm.rank(); }

  // Returns false if something else is wrong, or nothing.
  bool Suppose(Findings& findings) const {
    bool any = false;
    if (!view_.unknown_ranks.empty() || view_.IsPartial()) return false;
    for (const Ensemble& ensemble : view_.ensembles) {
      const Layout& layout = *ensemble.layout;
      auto& files = findings.files.emplace_back(ensemble.files.size());
      for (std::uint32_t f = 0; f < files.size(); ++f) {
        const FileView& file = ensemble.files[f];
        const bool has_sidecar = HasWholeSidecar(file, Own(file));
        if (has_sidecar) findings.bytes_read += layout.parity_size(f);
        if (has_sidecar && LooksSound(file, layout, f)) {
          findings.bytes_read += layout.file_size(f);
          continue;
        }
        if (file.present || (!has_sidecar && !HasNoTrace(file))) return false;
        // A directory that is made for a member is not removed again if more turns out to be lost.
        if (Own(file) && !context_.fs.Stat(DirectoryOf(file.path)).ok()) return false;
        any = true;
        if (layout.data_blocks(f) > 0) files[f].data.push_back({0, layout.data_blocks(f), BlockFault::kMissing, false});
        if (has_sidecar) continue;
        if (layout.parity_blocks(f) > 0) files[f].parity.push_back({0, layout.parity_blocks(f), BlockFault::kMissing, false});
        files[f].metadata.push_back({0, 0, "sidecar"});
        files[f].whole_device = true;
      }
    }
    return any;
  }

  // Checks the blocks of this rank's files that are not sources: those of rows without a loss, and those that a rebuild does
  // not need.
  Result<bool> RestIsSound(const Ensemble& ensemble, const EnsemblePlan& plan) const {
    const Layout& layout = *ensemble.layout;
    std::vector<std::vector<bool>> data(ensemble.files.size()), parity(ensemble.files.size());
    for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) {
      if (!Own(ensemble.files[f])) continue;
      data[f].resize(layout.data_blocks(f));
      parity[f].resize(layout.parity_blocks(f));
    }
    for (const RowRun& run : plan.runs) {
      for (const std::uint32_t position : run.plan->sources) {
        const std::uint32_t device = layout.DeviceAt(run.group, position, run.unit_row);
        const bool is_parity = layout.IsParity(device, run.unit_row);
        std::vector<bool>& read = (is_parity ? parity : data)[layout.HolderOf(is_parity, device)];
        if (read.empty()) continue;
        for (std::uint32_t s = run.first_slice; s < run.first_slice + run.slices; ++s) {
          const BlockPlace place = layout.Block(is_parity, device, run.unit_row, s);
          if (place.length > 0) read[place.index] = true;
        }
      }
    }
    const RowStreams streams = StreamsOf(ensemble);
    for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) {
      for (const auto& [stream, read] : {std::pair(&streams.data[f], &data[f]), std::pair(&streams.parity[f], &parity[f])}) {
        if (stream->file == nullptr) continue;  // lost
        LZY_ASSIGN_OR_RETURN(const bool sound, OthersAreSound(*stream, *read));
        if (!sound) return false;
      }
    }
    return true;
  }

  // Checks the blocks that are not marked in `read`, run by run.
  Result<bool> OthersAreSound(const BlockStream& stream, const std::vector<bool>& read) const {
    for (std::uint64_t i = 0; i < read.size();) {
      const std::uint64_t first = i;
      while (i < read.size() && !read[i]) ++i;
      if (i > first) {
        LZY_ASSIGN_OR_RETURN(const CheckResult found, CheckBlocks(stream, first, i - first, SettingsFor(context_, false)));
        if (!found.bad.empty()) return false;
      }
      while (i < read.size() && read[i]) ++i;
    }
    return true;
  }

  const Context& context_;
  const DatasetView& view_;
};

}  // namespace

Result<std::optional<Findings>> AssumeOnlyMembersLost(const Context& context, const DatasetView& view,
                                                      const RepairRequest& request) {
  return Assumption(context, view).Make(request);
}

}  // namespace lzy
