#pragma once
// Option verify-writes: after a commit the device is held to what the program has written (docs/design.md "Verified writes"), while that is still
// known.

#include <functional>

#include "commit/check_written.h"

namespace lzy::hooks {

/// Writes again what a rank still has of blocks that are wrong, and commits that: whether any rank did. Collective.
/// `written`, if so, is made to say what was committed.
using Rewrite = std::function<Result<bool>(const WrittenCheck& found, Written& written)>;

/// Checks, has written again what can be, has rebuilt from parity what that leaves, and checks again. kWriteFailed: the file
/// has something else than was written to it. Collective, the same Status on all ranks; one of them says what was mended.
/// Nothing is done, and nothing said, where somebody has written since.
Status CheckCommit(const Context& context, const Written& written, const Rewrite& rewrite);

}  // namespace lzy::hooks
