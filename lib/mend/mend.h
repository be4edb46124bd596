#pragma once
// Mending what Examine found (docs/design/repair.md §9). Repair, restore and heal call it, under the locks of the dataset.
//
// In come an opened view and the findings, which are the same on all ranks. First everything is planned (mend_plan.h).
// Then blocks are rebuilt from their rows (encode/rebuild.h): in place if the file is there, else aside. In the end
// what was built is read back and compared with its hashes, and only then gets its name. So whatever breaks off leaves
// either the old file or the right one, and a repair that broke off in place leaves a note (an intent of kind
// kIntentRepair).

#include <set>

#include "judge/examine.h"

namespace lzy {

struct ReplicaPlace;

/// What to mend beyond damaged blocks of files and sidecars that are there. The same on all ranks.
struct MendRequest {
  bool create_missing = false;      ///< restore: lost files and sidecars are made again
  bool force = false;               ///< edited (stale, at-risk) blocks go back to the committed content too
  bool salvage = false;             ///< write what can be had even if rows are beyond repair
  std::set<std::uint32_t> devices = {};  ///< treated as lost; by rank (set) or device number (shared)
  const ReplicaPlace* replica = nullptr;  ///< where FileFindings::in_replica are (mend/replica.h); null: there are none
  bool assumed = false;             ///< the findings were not looked at but assumed: AssumeOnlyMembersLost
};

/// Adds the blocks of `request.devices` to the findings, as if they had been lost. Local, and the same on all ranks.
/// kInvalidArgument: there is no such device.
Status AddLostDevices(const DatasetView& view, const MendRequest& request, Findings& findings);

/// Mends what the findings name, as far as `request` asks for it. Collective over context.comm; the view must have been
/// opened for writing. Entries of report.damage that are right afterwards become `repaired`. Errors:
///  - kBeyondRepair: rows have lost more than parity covers, and nothing was written.
///  - kWriteFailed: what was written does not verify.
///  - kBusy: somebody else changed a file meanwhile. A block that was right when it was checked is wrong now.
///  - kCorrupt, kUnreadable: the same if the findings were only assumed (request.assumed). Examine, then call again.
/// After an error nothing new has got its name. Blocks mended in place in other groups stay mended.
Status Mend(const Context& context, DatasetView& view, const Findings& findings, const MendRequest& request,
            DatasetReport& report);

}  // namespace lzy
