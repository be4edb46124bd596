#pragma once
// Speeds up the most frequent restore: whole members of a set are gone, and all others are as committed. Then the survivors
// are read only once: Repair reads them as sources and compares each block with its hash, and Examine does not read them
// before.
//
// Restore calls this before Examine (engine/verify.cc). Invariant: a wrong assumption does no harm. It makes a source or a
// root fail in Repair before any file gets its final name.

#include <optional>

#include "repair/repair.h"

namespace lzy {

/// Returns what Examine would find if only members (or their data files) were missing, judged by metadata. Reads only the
/// blocks that Repair will not read as sources, and checks them. nullopt if the metadata or these blocks show anything else;
/// then call Examine. Collective.
Result<std::optional<Findings>> AssumeOnlyMembersLost(const Context& context, const DatasetView& view,
                                                      const RepairRequest& request);

}  // namespace lzy
