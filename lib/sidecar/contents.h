#pragma once
// Checks whether the contents of a sidecar are consistent.

#include "base/status.h"
#include "geometry/layout.h"
#include "sidecar/sidecar.h"

namespace lzy {

/// The layout that the contents of a sidecar describe. kCorrupt if they contradict each other.
Result<Layout> LayoutOf(const SidecarContents& contents);
/// Returns kCorrupt unless all contents of a sidecar are consistent: records, groups, layout, trees, and the path from its
/// root to that of the dataset. Returns ok for a sidecar that was never committed.
Status CheckContents(const SidecarContents& contents);

}  // namespace lzy
