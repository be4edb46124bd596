#pragma once
// Renames sidecars after files that were renamed (docs/design/commit.md §4, §7 "Owners of sidecars").
//
// Programs write a temporary file and rename it, or rotate files by renaming them. Then sidecars have wrong names until a
// process writes. Readers find the right sidecar under any name (names/lookup). Writers (BeginEpoch, Protect, repairs) call
// Rehome before they lock anything: a lock on a sidecar with a wrong name is a lock on the sidecar of another file.
//
// A sidecar that belongs to a file is never overwritten. Neither is a sidecar of a set whose other members may need it, unless
// a program replaces the set. All functions are local.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/status.h"
#include "sidecar/sidecar_format.h"

namespace lzy {

/// What happens to a sidecar whose file is no longer in the directory, if another sidecar needs its name. It may be the only
/// record of what its file contained.
enum class Occupants {
  kStay,   ///< it stays, and the other sidecar keeps its old name: for repairs, and other operations that protect nothing new
  kYield,  ///< it gets a temporary name, under which lookups still find it: for commits of tools, and copies
  kGo,     ///< it is overwritten: for programs, which replace their own files
};
/// A member of a set. Both fields together identify the sidecar of the member under any name.
struct SetMember {
  Uuid set{};
  std::uint32_t rank = 0;
};
struct RehomeOptions {
  std::uint32_t timeout_seconds = 60;
  Occupants occupants = Occupants::kStay;
  std::optional<SetMember> lost = {};
};

/// Gives the sidecar of `data_path` the name that belongs to this file. A sidecar that has this name, but belongs to a
/// renamed file, is renamed after that file.
///
/// Set options.lost if the file is lost, or was protected alone. Then the sidecar of that member gets the name, and the
/// sidecar that has the name goes to its own file.
///
/// Returns the path of the file's sidecar, whether or not it exists. It is the path that follows from the name of the file,
/// or another one if a sidecar in the way must stay. Many processes may call this at once, also for files that were swapped.
/// kBusy if another process keeps a sidecar in the way locked for options.timeout_seconds.
Result<std::string> Rehome(FileSystem& fs, const std::string& data_path, const RehomeOptions& options = {});

/// As Rehome if there is no sidecar to rename. Otherwise renames nothing, and returns nullopt.
Result<std::optional<std::string>> HomeIfSettled(FileSystem& fs, const std::string& data_path, const RehomeOptions& options = {});

/// Whether Rehome would rename a sidecar. kUnsure: it would not now, but another process may be renaming sidecars.
enum class RehomeNeed { kNone, kUnsure, kSome };
/// Finds out what Rehome would do. Takes no lock, and writes nothing.
Result<RehomeNeed> LookForRehome(FileSystem& fs, const std::string& data_path, const RehomeOptions& options = {});

/// Renames each sidecar of `set` that has the name of another member, in any directory of the set, after its own member. Set
/// and rank identify the member. A member that has its sidecar already gets no other. `members` has the path of each member
/// by rank.
///
/// Sidecars in the way are set aside (Occupants::kYield). Returns true if any sidecar was renamed. A sidecar that cannot be
/// renamed (another file system, no permission) stays. This process must not hold locks on these sidecars.
bool RehomeMembers(FileSystem& fs, const std::map<std::uint32_t, std::string>& members, const Uuid& set, std::uint32_t timeout_seconds);

}  // namespace lzy
