#pragma once
// Repairs what Examine found (docs/design/repair.md §9). Repair, restore and heal call Repair under the locks of the dataset.
//
// The input is an open view and findings, which are the same on all ranks. First everything is planned (repair_plan.h). Then
// blocks are rebuilt from their rows (encode/rebuild.h): in place if the file exists, else in a new file. Written blocks are
// read back and compared with their hashes. After that, new files get their final names. So after an interrupted repair,
// each file is the old one or the right one; a repair in place leaves a note (an intent of kind kIntentRepair).

#include <set>

#include "judge/examine.h"

namespace lzy {

struct ReplicaPlace;

/// What to repair beyond damaged blocks of existing files and sidecars. The same on all ranks.
struct RepairRequest {
  bool create_missing = false;      ///< restore: make lost files and sidecars again
  bool force = false;               ///< set edited (stale, at-risk) blocks back to the committed content, too
  bool salvage = false;             ///< write what can be rebuilt even if rows are beyond repair
  std::set<std::uint32_t> devices = {};  ///< devices to treat as lost: rank (set) or device number (shared file)
  const ReplicaPlace* replica = nullptr;  ///< the replica that has FileFindings::in_replica (repair/replica.h); null: none
  bool assumed = false;             ///< the findings were assumed (AssumeOnlyMembersLost), not read
};

/// Adds the blocks of `request.devices` to the findings, as if they had been lost. Local, with the same result on all ranks.
/// kInvalidArgument if there is no such device.
Status AddLostDevices(const DatasetView& view, const RepairRequest& request, Findings& findings);

/// Repairs what the findings name, as far as `request` allows. Sets `repaired` in the entries of report.damage that are
/// right afterwards. The view must be open for writing. Collective over context.comm. Errors:
///  - kBeyondRepair: rows have lost more than parity covers; nothing was written.
///  - kWriteFailed: written blocks do not have their hashes.
///  - kBusy: another process changed a file meanwhile, or a block is wrong that was right when it was examined.
///  - kCorrupt, kUnreadable: only with request.assumed: a block is wrong that was assumed to be right. Call Examine, then
///    call Repair again.
/// After an error, no new file has its final name. Blocks that were repaired in place in other groups stay repaired.
Status Repair(const Context& context, DatasetView& view, const Findings& findings, const RepairRequest& request,
              DatasetReport& report);

}  // namespace lzy
