#pragma once
// Consequences of edits for the dataset as a whole. Pure.

#include "request/report.h"

namespace lzy {

/// True if no data are damaged, but some were edited, so that only a commit can make the rest of the dataset anew.
inline bool WaitsForACommit(const DatasetReport& report) {
  bool edited = false;
  for (const Damage& damage : report.damage) {
    if (damage.part != DamagePart::kData || damage.repaired || damage.transient) continue;
    if (!IsEdit(damage.cause)) return false;
    edited = true;
  }
  return edited;
}

/// True if `damage` concerns the sidecar of a member of a set, or the parity in it, and edits prevent making this lost
/// sidecar again. Either data of the member were edited, or data of other members that its parity covered, and these edits
/// cannot be undone. The next commit makes the sidecar again, or a repair that undoes the edits.
inline bool WaitsForEdits(const DatasetReport& report, const Damage& damage) {
  if (report.kind != DatasetKind::kSet || damage.part == DamagePart::kData || damage.repaired) return false;
  bool edited = false, lost = false;
  for (const Damage& other : report.damage) {
    if (other.device != damage.device || other.repaired || other.transient) continue;
    const bool counts = other.part == DamagePart::kData || (other.part == DamagePart::kParity && report.cannot_undo);
    edited = edited || (counts && IsEdit(other.cause));
    lost = lost || (other.part == DamagePart::kMetadata && other.length == 0);  // all of it
  }
  return edited && lost;
}

/// True if something can be repaired while the edits stay.
inline bool AnyRepairable(const DatasetReport& report) {
  for (const Damage& damage : report.damage) {
    if (!damage.repaired && !damage.transient && !IsEdit(damage.cause) && !WaitsForEdits(report, damage)) return true;
  }
  return false;
}

/// True if only a commit, or a repair that undoes the edits, can make the damaged parts again.
inline bool OnlyACommitHelps(const DatasetReport& report) {
  return WaitsForACommit(report) && !AnyRepairable(report);
}

}  // namespace lzy
