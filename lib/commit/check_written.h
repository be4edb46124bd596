#pragma once
// Option verify-writes: compares what a program wrote with what the storage holds (docs/design/repair.md "Verified writes").
//
// A difference may come from any step between the program's buffer and the storage, for example from an MPI library that
// exchanges data wrongly. The layer then writes the bytes again, or reports the fault (romio_hooks/epochs/check_commit).
//
// The layer calls CheckWritten after a commit, when the locks are released. Captured blocks are compared with the program's
// buffers. All other blocks can only be compared with the leaves of the commit.

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
  /// Numbers of captured blocks whose bytes in storage differ from this rank's buffer, ascending.
  std::vector<std::uint64_t> wrong;
  /// Byte ranges in the file, each a part of a block, whose bytes in storage differ from this rank's buffer. Each range
  /// lies in one part of Capture::written().
  std::vector<Interval> wrong_parts;
  /// Byte ranges of blocks that the storage holds exactly as ranks wrote them, although their committed leaves differ: the
  /// commit read wrong bytes. These blocks must be committed again. A repair would replace right bytes by wrong ones.
  std::vector<Interval> untrue;
  std::uint64_t untrue_leaves = 0;  ///< number of blocks in `untrue`, summed over all ranks
  /// Number of data and parity blocks that differ in storage from what was written or committed, summed over all ranks.
  std::uint64_t faults = 0;
  /// Bytes that were written but compared only with the leaves of the commit, summed over all ranks, by reason.
  UncomparedBytes uncompared;
};

/// The commit to check.
struct Written {
  DatasetRef dataset;
  std::map<std::uint32_t, IntervalSet> touched;  ///< ProtectRequest::touched
  std::uint64_t generation = 0;              ///< generation of the commit
  const Capture* capture = nullptr;          ///< ProtectRequest::capture; null on any rank where it does not count
};

/// Reads the touched blocks, and the parity of their rows, past the page cache. Bytes that only one rank wrote are compared
/// with the capture of this rank; all others with the committed leaves. All ranks read a shared file, each a part; owners
/// read members of sets. If several ranks wrote a byte, the storage may hold the byte of any of them.
///
/// Returns an empty result if somebody wrote after the commit: the dataset has another generation, a file differs from its
/// stamp, or an intent is set. CheckWritten tests this before and after it reads. Collective.
Result<WrittenCheck> CheckWritten(const Context& context, const Written& written);

/// True if the commit `written` still describes the files: its generation counts, no intent is set, and no file differs
/// from its stamp. A rank checks only files that it sees. For a shared file only rank 0 checks, and other ranks return
/// true. Not collective.
bool IsUntouchedSince(const Context& context, const Written& written);

}  // namespace lzy
