#pragma once
// Whether what a sidecar says about its dataset agrees with itself.

#include "base/status.h"
#include "geometry/layout.h"
#include "sidecar/sidecar.h"

namespace lzy {

/// The layout that a sidecar's contents describe; kCorrupt when they contradict themselves.
Result<Layout> LayoutOf(const SidecarContents& contents);
/// kCorrupt unless all that a sidecar says agrees: records, groups, layout, trees, and the path from its root to the
/// dataset's. What was never committed says nothing.
Status CheckContents(const SidecarContents& contents);

}  // namespace lzy
