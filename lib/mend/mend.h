#pragma once
// Mending what Examine found: blocks in place, lost files by building them aside and renaming (docs/design.md "Mending").

#include <set>

#include "judge/examine.h"

namespace lzy {

struct MendRequest {
  bool create_missing = false;      ///< restore: lost files and sidecars are made again
  bool force = false;               ///< edited (stale, at-risk) blocks go back to the committed content too
  bool salvage = false;             ///< write what can be had even if rows are beyond repair
  std::set<std::uint32_t> devices;  ///< treated as lost; by rank (set) or device number (shared)
  bool assumed = false;             ///< the findings were not looked at but assumed: AssumeOnlyMembersLost
};

/// Adds the blocks of `request.devices` to the findings, as if they had been lost.
Status AddLostDevices(const DatasetView& view, const MendRequest& request, Findings& findings);

/// Mends; collective. Entries of report.damage that are good afterwards become `repaired`. kBeyondRepair: rows have
/// lost more than parity covers and nothing was written. kWriteFailed: what was written does not verify. kCorrupt,
/// kUnreadable: a block that counted as sound was not, which where the findings were assumed is no surprise (kBusy where they
/// were not). Precondition: the view was opened for writing.
Status Mend(const Context& context, DatasetView& view, const Findings& findings, const MendRequest& request,
            DatasetReport& report);

}  // namespace lzy
