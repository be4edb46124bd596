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

/// Returns the index of the claim that counts; nullopt if there are no claims. Considers only some claims:
///  - If no claim records the pattern: all.
///  - If only claims of lost files record it, and one set has more claims of existing files than there are such claims:
///    those of existing files. That set was renamed to the pattern.
///  - Otherwise: those that record the pattern. The other files were moved here from other sets.
/// Of these, the newest set counts. Exception: an older set counts if it has more claims among the ranks of the newer one,
/// or equally many and more of them beside the files that they were made for. Then sidecars of the newer set were moved
/// here. Within a set, the highest generation counts, not the latest time, because clocks may be set back.
std::optional<std::size_t> WhichSetCounts(std::span<const SetClaim> claims);

}  // namespace lzy
