#pragma once
// What validated broadcasts and gathers have in common: their announcements, hashing a whole payload, and the error for bytes that
// stay unproven. For use within lib/validated only.

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "validated/chunk.h"
#include "validated/mend.h"
#include "validated/wire.h"

namespace lzy::validated {

/// Bytes of payload that fit into the announcement of a collective call. All announcements of a broadcast have room
/// for them, since MPI_Ibcast needs a length that all ranks know before.
inline constexpr std::size_t kMostWithin = 512;

/// An announcement whose root is not known yet.
inline Announce AnnounceOf(Kind kind, std::uint64_t bytes, const Sizes& sizes) {
  return {kind, bytes, sizes.leaf, sizes.first_chunk, sizes.most_block, {}};
}

/// Hashes all of `payload`. Unless `copy` is null, copies it there on the way, so that it is read only once.
inline void HashAll(const Payload& payload, const Announce& announce, TransferTree& tree, const Payload* copy) {
  Slot slot;
  for (Chunks chunk(announce); !chunk.done(); chunk.Next()) {
    std::uint8_t* place = slot.Place(payload, chunk.begin(), announce.most_chunk);
    if (payload.contiguous() == nullptr) payload.CopyOut(chunk.begin(), {place, chunk.size()});
    if (copy != nullptr) copy->CopyIn(chunk.begin(), {place, chunk.size()});
    tree.HashLeaves(chunk.begin(), {place, chunk.size()});
  }
  tree.Build();
}

/// `why` as an error that names the owner and the bytes. Errors of MPI stay what they are.
inline Status Unproven(const Status& why, int owner, const std::vector<Interval>& unproven, std::uint64_t bytes) {
  if (why.ok() || why.code() == Code::kMpi) return why;
  return {Code::kCorrupt,
          fmt::format("{} of {} bytes from rank {} could not be proven: {}", RangesText(unproven), bytes, owner, why.message())};
}

}  // namespace lzy::validated
