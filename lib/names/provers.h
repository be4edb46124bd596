#pragma once
// Finds the sidecar of a file by the content of the file (docs/design/commit.md §7, "Owners of sidecars").
//
// lookup.h goes by stamps, and reads no data. After a restore from a backup, or on a file system without times of birth,
// stamps say little; then the content decides. The engine calls this module if a file has no sidecar, or differs from the
// sidecar that it has by its stamp. Data are read up to the first block that differs.
//
// Local to one process; nothing is written. Results are kept in names/proven. `key` as for names/content_match.

#include <optional>
#include <string>

#include "base/file.h"
#include "base/status.h"
#include "merkle/leaf_key.h"

namespace lzy {

/// A sidecar of another name that was committed for the present content of a file.
struct Prover {
  std::string sidecar;  ///< path
  std::string owner;    ///< the data file that has the name of the sidecar
  /// True if the sidecar may be used for the file: it is in the same directory, is not of a set, and the file of the
  /// sidecar's name does not exist or has another content.
  bool usable = false;
  bool beside = false;  ///< it is in the directory of the file
  bool named = false;   ///< it is in a directory with datasets that the command names
  bool recorded = false;  ///< it is the sidecar of another member; the owner's own sidecar is lost, but this one records its root
};
/// Finds a sidecar other than `own` (a path; may be empty) that proves the content of `data_path`. Searches the directory of
/// the file and the directories in reach (AddToReach). Prefers a usable sidecar. If no sidecar was made for this content,
/// finds one of another set that records it for a member without a sidecar; for this, reads the whole file. nullopt if
/// nothing proves the content. Fails if the file cannot be read.
Result<std::optional<Prover>> FindProver(FileSystem& fs, const std::string& data_path, const std::string& own,
                                         const LeafKey* key);
/// If a usable sidecar of another name proves the content of `data_path` (FindProver), remembers it as the sidecar of this
/// file. Goes on with the file that loses this sidecar, because files may have been swapped or rotated. Returns true if it
/// remembered anything; then FindSidecar and Rehome of this process use it. Call it for a file that differs from the sidecar
/// of its stamp, or has none. Reads one block, and more only if this block matches. Members of sets keep the sidecars of
/// their names.
Result<bool> AdoptByContent(FileSystem& fs, const std::string& data_path, const LeafKey* key);

}  // namespace lzy
