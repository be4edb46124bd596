#pragma once
// Option verify-writes: after a commit, what is on the device is compared with what the program has written, while that
// is still known (docs/design/repair.md "Verified writes").
//
// Called after the commits of epochs/commit.cc and sets/sets.cc, which pass what was committed. The commit stands,
// whatever is found. Faults are repaired in this order: from copies of the program's buffers, then from parity.

#include <cstdint>
#include <functional>

#include "commit/check_written.h"
#include "hooks/files/open_file.h"

namespace lzy::hooks {

/// What is needed to write wrong blocks again.
struct Rewriting {
  OpenFile& file;  ///< this rank's: the shared file, or its member of the set
  /// Syncs what was written again, and commits it. Returns the generation. Called on all ranks, if any rank wrote
  /// something. Collective, the same result on all ranks.
  std::function<Result<std::uint64_t>()> commit;
  /// Tells of the commit that is checked, before anything is written again. Called once on each rank.
  std::function<void(const UncomparedBytes&)> tell;
};

/// Checks what was written. If there are faults: writes again what ranks still have of it (Written::capture), repairs what
/// is left from parity, and checks again. What could not be compared is said once for each file and reason. kWriteFailed: the file still has something else than was written to it. Any
/// other error may leave the file touched and not committed. Collective over context.comm, the same Status on all ranks;
/// rank 0 says what was mended. If somebody has written since the commit, it does nothing and says nothing.
Status CheckCommit(const Context& context, const Written& written, const Rewriting& rewriting);

}  // namespace lzy::hooks
