#pragma once
// The loss that restores are mostly for: whole members of a set, with all others as they were committed. Then the
// survivors need be read only once, as sources of what is rebuilt, each of which is held to its hash anyway; and not
// before that, too, to find out what is wrong with them.
//
// Restore asks here before it examines (engine/verify.cc). Invariant: nothing is believed for long. What is assumed
// here and is wrong makes a source or a root fail in Mend, before any file has got its name.

#include <optional>

#include "mend/mend.h"

namespace lzy {

/// What Examine would find if members (or their data files) were missing and all else were sound, which is what the
/// metadata say; nothing read but what Mend, by these findings, will not read itself, and that is sound. None where
/// the metadata, or those blocks, say otherwise: then only Examine can tell. Collective.
Result<std::optional<Findings>> AssumeOnlyMembersLost(const Context& context, const DatasetView& view,
                                                      const MendRequest& request);

}  // namespace lzy
