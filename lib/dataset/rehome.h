#pragma once
// Sidecars whose file was renamed follow it (docs/design/commit.md "Epochs").
//
// BeginEpoch, Protect and repairs call it before they lock anything: a lock on a sidecar under a wrong name would be a
// lock on another file's.
//
// Programs write a temporary file and rename it, and rotate files by renaming them. Then names of sidecars are wrong
// until somebody writes. Readers find the right sidecar wherever it is (names/lookup); writers call Rehome first, so
// that from then on the name is right. No sidecar that belongs to a file is ever overwritten, nor one of a set whose
// other members may need it, unless a program replaces the set. Local.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/status.h"
#include "sidecar/sidecar_format.h"

namespace lzy {

/// What becomes of a sidecar whose file is not in the directory any more, and whose name is needed for another one. It may
/// be the last to know what the file was.
enum class Occupants {
  kStay,   ///< it stays, and the other sidecar keeps its old name: for repairs, and for whoever protects nothing new
  kYield,  ///< it is set aside under a temporary name, where it is still found: for commits of tools, and copies
  kGo,     ///< it is overwritten: for programs, which replace what they wrote before
};
/// A member of a set. The sidecar that was made for it is known by these two, whatever its name.
struct SetMember {
  Uuid set{};
  std::uint32_t rank = 0;
};
struct RehomeOptions {
  std::uint32_t timeout_seconds = 60;
  Occupants occupants = Occupants::kStay;
  std::optional<SetMember> lost = {};
};

/// Makes sure that the name of `data_path`'s sidecar means its sidecar: a sidecar under that name that belongs to a
/// file renamed away follows that file, and one that belongs to `data_path` under its earlier name comes here. If
/// options.lost is given, because the file is lost or was protected alone, the sidecar of that member comes here, and the one that has the name goes to
/// its file. Returns the path of the file's sidecar, whether or not there is one now: as a rule that of its name, and
/// another one if a sidecar that has to stay is in the way. Any number of processes may do this at once, for the same
/// files or for such as were swapped; kBusy if another one keeps a sidecar in the way locked for `timeout_seconds`.
Result<std::string> Rehome(FileSystem& fs, const std::string& data_path, const RehomeOptions& options = {});

/// Of a set, set and rank say whose a sidecar is, wherever its file is by now. Gives each sidecar of `set` that has the name of another
/// member, in any of the directories of the set, the name of its own member, unless that has one of its own; `members` has the
/// path of each member by rank. What is in the way is set aside (Occupants::kYield). Returns whether anything was moved. What
/// cannot be moved (another file system, no permission) stays. Nobody may hold locks of these sidecars in this process.
bool RehomeMembers(FileSystem& fs, const std::map<std::uint32_t, std::string>& members, const Uuid& set, std::uint32_t timeout_seconds);

}  // namespace lzy
