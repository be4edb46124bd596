#pragma once
// What a program wrote, compared with what the device has: for option verify-writes (docs/design/repair.md "Verified writes").
//
// What it finds is about the way from the program's buffer to the device, and not about the disk alone: an MPI library
// that exchanges wrongly shows here. The layer writes again, or reports (romio_hooks/epochs/check_commit).
//
// The layer calls it after a commit, when the locks are gone. The proof is only as good as its source: blocks that were
// captured are compared with what was in the program's buffers, others only with the leaves of the commit.

#include <cstdint>
#include <map>
#include <vector>

#include "base/interval_set.h"
#include "encode/capture.h"
#include "names/resolve.h"
#include "request/context.h"
#include "request/touched.h"
#include "request/uncompared.h"

namespace lzy {

struct WrittenCheck {
  /// Blocks that this rank captured, and of which the device has something else than was in the program's buffers:
  /// block numbers, ascending.
  std::vector<std::uint64_t> wrong;
  /// The same of parts of blocks: where in the file they are. Each is in one part of Capture::written().
  std::vector<Interval> wrong_parts;
  /// Blocks that are on the device as ranks wrote them, byte for byte, and whose leaves are others, as bytes of the file: the commit
  /// has read something else than there is. They are to be committed again. To repair them would be to replace what is right.
  std::vector<Interval> untrue;
  std::uint64_t untrue_leaves = 0;  ///< on all ranks together
  /// On all ranks together: blocks of data and parity that are not on the device as they were written or committed.
  std::uint64_t faults = 0;
  /// On all ranks together: what was written and could only be held to the leaves of the commit, which read it back.
  UncomparedBytes uncompared;
};

/// What was written, and committed.
struct Written {
  DatasetRef dataset;
  std::map<std::uint32_t, IntervalSet> touched;  ///< ProtectRequest::touched
  std::uint64_t generation = 0;              ///< of the commit
  const Capture* capture = nullptr;          ///< ProtectRequest::capture; null on any rank where it does not count
};

/// After a commit: reads what was touched, and the parity of its rows, from the device. What one rank alone wrote is held
/// to what it captured, block by block or byte by byte; all else to the leaves that were committed. Shared files are read by
/// all ranks, each a part; members of sets by their owners. Bytes that several ranks wrote are no faults, whichever of them
/// the device has. Whoever has written since makes it void:
/// where the commit does not count any more, a file differs from its stamp, or an intent is set, before or after the
/// reading, nothing was found. Collective.
Result<WrittenCheck> CheckWritten(const Context& context, const Written& written);

/// Whether what was committed is still what there is: that commit counts, no intent is set, and no file differs from
/// its stamp. As far as this rank sees the files; of a shared file, rank 0 answers for all. Not collective.
bool IsUntouchedSince(const Context& context, const Written& written);

}  // namespace lzy
