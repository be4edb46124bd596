#pragma once
// What a program wrote, held to what the device has: for option verify-writes (DESIGN §6.5).

#include <cstdint>
#include <vector>

#include "base/interval_set.h"
#include "engine/capture.h"
#include "engine/engine.h"

namespace lzy {

struct WrittenCheck {
  /// Blocks that this rank captured, and of which the device has something else than was in the program's buffers: block
  /// numbers, ascending.
  std::vector<std::uint64_t> wrong;
  /// The same of parts of blocks: where in the file they are.
  std::vector<Interval> wrong_parts;
  /// On all ranks together: blocks of data and parity, and parts of blocks, that are not on the device as they were written or committed.
  std::uint64_t faults = 0;
  std::uint64_t bytes_read = 0;  ///< by this rank
};

/// After a commit, before anybody writes again: reads what was touched, and the parity of its rows, from the device. Blocks
/// (and parts of blocks) that one rank alone captured are held to what it captured, all others to the leaves that were committed. `capture` is what
/// ProtectRequest::capture was, and null on any rank where it does not count. Shared files are read by all ranks, each a part;
/// members of sets by their owners. Collective.
Result<WrittenCheck> CheckWritten(const Context& context, const DatasetRef& dataset,
                                  const std::map<std::uint32_t, Touched>& touched, const Capture* capture);

}  // namespace lzy
