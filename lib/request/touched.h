#pragma once
// What an epoch changed in a file, as ranges of bytes.

#include <cstdint>
#include <map>
#include <vector>

#include "base/bytes.h"
#include "comm/communicator.h"
#include "geometry/layout.h"
#include "sidecar/sidecar_format.h"

namespace lzy {

/// Byte ranges of one file that changed, on this rank; `whole` stands for everything.
struct Touched {
  bool whole = true;
  std::vector<ByteRange> ranges;  ///< sorted, disjoint
  LZY_FIELDS(whole, ranges)
};

/// Sorts and unites the ranges; none are left when `whole`.
void Normalise(Touched& touched);
/// True when any byte of [offset, offset + length) is touched. Precondition: normalised, length > 0.
bool IsTouched(const Touched& touched, std::uint64_t offset, std::uint64_t length);
/// Adds what a change of size changes: the old last block, and everything between the old end and the new.
void AddResize(Touched& touched, std::uint64_t old_size, std::uint64_t new_size, std::uint64_t block_size);

/// Everything that the ranks of `comm` touched, by rank of the member; normalised, the same everywhere.
Result<std::map<std::uint32_t, Touched>> GatherTouched(Communicator& comm,
                                                       const std::map<std::uint32_t, Touched>& mine);

}  // namespace lzy
