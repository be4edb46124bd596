#include "request/touched.h"

#include <algorithm>

#include "comm/records.h"

namespace lzy {

// If the size changes, the old last block changes even if none of its bytes was written, because its leaf covers the bytes
// up to the end of the file.
void AddResize(IntervalSet& touched, std::uint64_t old_size, std::uint64_t new_size, std::uint64_t block_size) {
  if (old_size != new_size) touched.Add({std::min(old_size, new_size) / block_size * block_size, std::max(old_size, new_size)});
}

std::vector<Interval> TouchedBlocks(const IntervalSet& touched, std::uint64_t block_size, std::uint64_t blocks) {
  IntervalSet set;
  if (touched.whole()) set.Add({0, blocks});
  for (const Interval& range : touched.intervals()) {
    const Interval its{range.begin / block_size, std::min(blocks, (range.end - 1) / block_size + 1)};
    if (its.begin < its.end) set.Add(its);
  }
  return set.intervals();
}

// A whole set has no intervals, so it must be distinguished from an empty one.
Result<std::map<std::uint32_t, IntervalSet>> GatherTouched(Communicator& comm, const std::map<std::uint32_t, IntervalSet>& mine) {
  LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm, mine));
  std::map<std::uint32_t, IntervalSet> united;
  for (const auto& theirs : all) {
    for (const auto& [rank, one] : theirs) {
      if (one.whole()) united[rank].AddWhole();
      united[rank].Add(one.intervals());
    }
  }
  return united;
}

}  // namespace lzy
