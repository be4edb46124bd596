#pragma once
// Option verify-writes: after a commit, compares the data in storage with the data that the program wrote, as long as
// these are in memory (docs/design/repair.md "Verified writes").
//
// epochs/commit.cc and sets/sets.cc call this after their commits, and pass what was committed. The commit stays valid,
// whatever is found. Faults are repaired first from copies of the program's buffers, then from parity.

#include <cstdint>
#include <functional>

#include "commit/check_written.h"
#include "hooks/files/open_file.h"

namespace lzy::hooks {

/// How to write wrong blocks again.
struct Rewriting {
  OpenFile& file;  ///< the file of this rank: the shared file, or its member of the set
  /// Syncs the rewritten blocks and commits them. Returns the generation. All ranks call it if any rank wrote something.
  /// Collective; the same result on all ranks.
  std::function<Result<std::uint64_t>()> commit;
  /// Reports the commit that was checked, before anything is written again. Called once on each rank.
  std::function<void(const UncomparedBytes&)> tell;
};

/// Checks the written data. If there are faults: writes blocks again that ranks still have (Written::capture), repairs the
/// others from parity, and checks again. Reports data that could not be compared once for each file and reason. Returns
/// kWriteFailed if the file still differs from what was written. After any other error, the file may be touched and not
/// committed. Does nothing if somebody wrote to the file after the commit. Rank 0 reports repairs. Collective over
/// context.comm, the same Status on all ranks.
Status CheckCommit(const Context& context, const Written& written, const Rewriting& rewriting);

}  // namespace lzy::hooks
