#pragma once
// Decides which set the members of one pattern are, if their sidecars are of several sets: of an older set of the same name,
// or of one whose sidecars were moved here. No I/O.

#include <cstdint>
#include <optional>
#include <span>

#include "sidecar/sidecar_format.h"

namespace lzy {

/// What the sidecar of one member records.
struct SetClaim {
  Uuid uuid{};
  std::uint32_t rank = 0;     ///< as recorded
  std::uint32_t members = 0;  ///< number of members of its set
  std::uint64_t generation = 0;
  std::int64_t wall_time_ns = 0;
  bool same_file = false;  ///< its file is the committed one, by inode and birth
  bool named = true;       ///< it records the name that the pattern gives it
  bool present = true;     ///< its file exists
};

/// Returns the index of the claim that counts; nullopt if there are no claims.
///
/// First decides which claims are considered:
///  - If a file exists whose sidecar records the pattern, only claims that record it are considered. The others are of
///    members of other sets that were moved here.
///  - Otherwise, if more existing files brought sidecars of one set along than lost files left sidecars behind, only claims
///    of existing files are considered. The set was renamed.
///  - Otherwise all claims are considered.
///
/// Of these, the newest set counts. Exception: an older set counts if it has more claims among the ranks of the newer one,
/// or equally many and more of them beside the files that they were made for. Then sidecars of the newer set were moved
/// here. Within a set, the highest generation counts, not the latest time, because clocks may be set back.
std::optional<std::size_t> WhichSetCounts(std::span<const SetClaim> claims);

}  // namespace lzy
