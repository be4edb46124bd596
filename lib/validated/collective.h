#pragma once
// Common parts of validated broadcasts and gathers: their announcements, and the error for bytes that stay unproven. For
// use within lib/validated only.

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "base/interval_set.h"
#include "validated/dialogue.h"
#include "validated/wire.h"

namespace lzy::validated {

/// Bytes of payload that fit into the announcement of a collective call. All announcements of a broadcast have room for
/// them, because all ranks must know the length for MPI_Ibcast.
inline constexpr std::size_t kMostWithin = 512;

/// The announcement of `bytes` bytes, whose root is not known yet.
inline Announce AnnounceOf(std::uint64_t bytes, bool in_place, const Sizes& wanted) {
  const Kind kind = in_place ? Kind::kInPlace : bytes <= kMostWithin ? Kind::kInline : Kind::kMessage;
  const Sizes sizes = SizesFor(bytes, wanted);
  return {kind, bytes, sizes.leaf, sizes.first_chunk, sizes.most_block, {}};
}

/// `why` as an error that names the owner and the bytes. Errors of MPI stay unchanged.
inline Status Unproven(const Status& why, int owner, const std::vector<Interval>& unproven, std::uint64_t bytes) {
  if (why.ok() || why.code() == Code::kMpi) return why;
  return {Code::kCorrupt,
          fmt::format("{} of {} bytes from rank {} could not be proven: {}", RangesText(unproven), bytes, owner, why.message())};
}

}  // namespace lzy::validated
