#pragma once
// Option verify-writes: after a commit the device is held to what the program has written (DESIGN §6.5), while that is still
// known.

#include <functional>
#include <map>

#include "engine/check_written.h"

namespace lzy::hooks {

/// What was committed, and by whom.
struct Written {
  DatasetRef dataset;
  std::map<std::uint32_t, Touched> touched;
  const Capture* capture = nullptr;  ///< null where it does not count
};

/// Writes again what a rank still has of blocks that are wrong, and commits that: whether any rank did. Collective.
using Rewrite = std::function<Result<bool>(const WrittenCheck& found)>;

/// Checks, has written again what can be, has rebuilt from parity what that leaves, and checks again. kWriteFailed: the file
/// has something else than was written to it. Collective, the same Status on all ranks; one of them says what was mended.
Status CheckCommit(const Context& context, const Written& written, const Rewrite& rewrite);

}  // namespace lzy::hooks
