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
  bool named = true;       ///< it records the name that it has by the pattern
  bool present = true;     ///< its file is there
};

/// The index of the claim that counts; nullopt: there are none. If any file is there whose sidecar records the pattern, only such
/// sidecars are asked: members of other sets were moved here. If none is, and more files brought sidecars of one set along than lost
/// files left behind, the set was renamed, and only sidecars of files that are there are asked. Of these, the newest set counts, unless an older one has more claims among the
/// ranks of the newer one, or as many and more of them beside the files that they were made for: then sidecars of the newer one were
/// moved here. Within a set the newest generation counts, since clocks may be set back between two commits.
std::optional<std::size_t> WhichSetCounts(std::span<const SetClaim> claims);

}  // namespace lzy
