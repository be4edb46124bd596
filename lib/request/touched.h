#pragma once
// The byte ranges of a file that an epoch changed. The hooks collect them on each rank; the commit unites them.
//
// Invariant: the union is a superset of what the ranks wrote. An additional byte costs the encoding of a row. A missing
// byte would leave old parity for new data. So a set that ran out of memory is whole, and a set that reached its limit has
// joined neighbours, with the gaps between them.

#include <cstdint>
#include <map>
#include <vector>

#include "base/interval_set.h"
#include "comm/communicator.h"

namespace lzy {

/// Adds the blocks that a change of size changes: the old last block, and everything between the old end and the new.
void AddResize(IntervalSet& touched, std::uint64_t old_size, std::uint64_t new_size, std::uint64_t block_size);

/// The numbers of the blocks, of the first `blocks` of a file, that have touched bytes. Sorted and disjoint.
std::vector<Interval> TouchedBlocks(const IntervalSet& touched, std::uint64_t block_size, std::uint64_t blocks);

/// Everything that the ranks of `comm` touched, by rank of the member; the same everywhere. Collective.
Result<std::map<std::uint32_t, IntervalSet>> GatherTouched(Communicator& comm, const std::map<std::uint32_t, IntervalSet>& mine);

}  // namespace lzy
