#pragma once
// Plans a repair or restore before anything is written. No I/O: the plan follows from the view and the findings, which are
// the same on all ranks. So all ranks have the same plan without communication.
//
// If a row has lost more blocks than it has parity, it is beyond repair. Then nothing is written, unless salvage is
// requested: a partly repaired dataset could hide a loss. Repairer (repairer.h) carries the plan out; dry runs only print it.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "repair/repair.h"
#include "rows/rows.h"

namespace lzy {

/// What happens to one file and its sidecar. Byte ranges are those of the data file.
struct FilePlan {
  bool rebuild_data = false;     ///< the whole file, under a temporary name, then renamed
  bool rebuild_sidecar = false;  ///< the whole sidecar, likewise
  bool data_in_place = false;    ///< only some blocks
  bool parity_in_place = false;
  bool repair_metadata = false;
  bool rehash_parity = false;         ///< some hashes of parity are lost: compute them again, and compare with the root
  bool cut_tail = false;              ///< remove bytes behind the committed end
  bool undoes_edits = false;          ///< with force: data that were edited since the commit are set back
  bool edits_left = false;            ///< stale or at-risk data stay, so the file must not get the committed mtime
  bool finish_repair = false;         ///< an earlier repair was interrupted: remove its intent and set the mtime
  std::vector<ByteRange> changed;     ///< of the data: written in place
  std::vector<ByteRange> unrepaired;  ///< of the data: beyond repair
  std::set<std::string> parts_left;   ///< paths of parts of the parity that are not repaired
  std::map<std::string, std::vector<ByteRange>> unrepaired_parity;  ///< beyond repair, by path of the file
  /// True if the rebuilt file will have gaps and has a sidecar. An intent of a repair in the sidecar marks the gaps.
  bool leaves_gaps(const FileView& file) const { return rebuild_data && !unrepaired.empty() && file.sidecar != nullptr; }
  bool any() const {
    return rebuild_data || rebuild_sidecar || data_in_place || parity_in_place || repair_metadata || cut_tail || finish_repair;
  }
};

/// The plan for one group of a set, or for the shared file: its files, by number in the layout, and the rows to rebuild.
struct EnsemblePlan {
  std::vector<FilePlan> files;
  std::vector<RowRun> runs;
  std::vector<RowBlock> from_replica;  ///< blocks of data to copy from the replica
};

struct RepairPlan {
  std::vector<EnsemblePlan> ensembles;
  bool beyond = false;  ///< rows have lost more than parity covers: without salvage, nothing may be written
};

/// Plans the repair of everything that the findings name. Local, with the same result on all ranks. A loss is no error
/// (RepairPlan::beyond). An error means that the plan contradicts the layout.
Result<RepairPlan> PlanRepair(const DatasetView& view, const Findings& findings, const RepairRequest& request);

/// Bytes of data that the plan takes from the replica.
std::uint64_t BytesFromReplica(const RepairPlan& plan);

/// Marks the damage in `report` that carrying out `plan` has repaired. Clears report.gone if a lost shared file exists
/// again.
void MarkRepaired(const DatasetView& view, const RepairPlan& plan, const RepairRequest& request, DatasetReport& report);

}  // namespace lzy
