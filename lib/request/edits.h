#pragma once
// What edits mean for a whole dataset. Pure.

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

}  // namespace lzy
