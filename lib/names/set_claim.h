#pragma once
// Which set the members of one pattern are, if their sidecars tell of several: an older one of the same name, or another one whose
// sidecars somebody moved here. Pure arithmetic on what sidecars record.

#include <cstdint>
#include <optional>
#include <span>

#include "sidecar/sidecar_format.h"

namespace lzy {

/// What the sidecar of one member says.
struct SetClaim {
  Uuid uuid{};
  std::uint32_t rank = 0;     ///< the recorded one
  std::uint32_t members = 0;  ///< of its set
  std::uint64_t generation = 0;
  std::int64_t wall_time_ns = 0;
  bool same_file = false;  ///< its file is the one that was committed, by inode and birth
};

/// The index of the claim that counts; nullopt: there are none. The newest set counts, unless an older one has more claims among the
/// ranks of the newer one, or as many and more of them beside the files that they were made for: then sidecars of the newer one were
/// moved here. Within a set the newest generation counts, since clocks may be set back between two commits.
std::optional<std::size_t> WhichSetCounts(std::span<const SetClaim> claims);

}  // namespace lzy
