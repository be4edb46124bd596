#pragma once
// Option verify-writes: after a commit, what is on the device is compared with what the program has written, while that
// is still known (docs/design.md "Verified writes").
//
// Called after the commits of epochs/commit.cc and sets/sets.cc, which pass what was committed. The commit stands,
// whatever is found. Faults are repaired in this order: from copies of the program's buffers, then from parity.

#include <functional>

#include "commit/check_written.h"

namespace lzy::hooks {

/// Writes wrong blocks again if a rank still has what belongs there, and commits that. True if any rank did; then
/// `written` says what was committed. Collective.
using Rewrite = std::function<Result<bool>(const WrittenCheck& found, Written& written)>;

/// Checks; calls `rewrite` if there are faults; repairs what is left from parity; and checks again. kWriteFailed: the
/// file still has something else than was written to it. Collective, the same Status on all ranks; rank 0 says what was
/// mended. If somebody has written since the commit, it does nothing and says nothing.
Status CheckCommit(const Context& context, const Written& written, const Rewrite& rewrite);

}  // namespace lzy::hooks
