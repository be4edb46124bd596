#pragma once
// Finds the files that have the content which a sidecar committed (docs/design/commit.md §7, "Owners of sidecars").
//
// Local to one process; nothing is written. `key` as for names/content_match.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "merkle/leaf_key.h"

namespace lzy {

/// The files that FindHolder examines.
enum class Holders {
  kNear,       ///< as kAll, of the files with the committed size and mtime in directories around (Surroundings::FilesNear)
  kAll,        ///< all, and also those that have the committed size and mtime but not all of the content, or have lost their
               ///< size (HasLostItsSize): they may be the file, damaged since
  kProtected,  ///< those with a sidecar, and members of sets: a repair might write to them
  kOfItsTime,  ///< those of kProtected with the committed mtime: the others count as edited
};
/// A file that FindHolder found.
struct Holder {
  std::string path;
  bool proven = false;  ///< it has the committed content; else it may be the file, damaged since (kAll)
  bool committed = false;  ///< not proven: it has a sidecar of its own that was made after the damage
};
/// Finds a file other than `except` (a path) that has the content that `sidecar` committed, and not the content of its own
/// sidecar. If `sidecar` is lost, nothing proves this content any more. Examines the first 256 files of the committed size
/// beside the sidecar, and those in reach. If no file has the content: with kAll, finds one with the committed size and mtime
/// that may be the file, damaged since, even if its own sidecar proves what it has now. nullopt if there is none.
std::optional<Holder> FindHolder(FileSystem& fs, const std::string& sidecar, const std::string& except, const LeafKey* key,
                                 Holders which);
/// Finds a file other than `except` with the size and mtime that `sidecar` committed, and most of the content, but not all; or the file
/// itself, with another size (HasLostItsSize): it was renamed, and damaged. Then only `sidecar` can give its content back. nullopt
/// if there is none, if its own sidecar proves what it has, or if another file has the committed content.
std::optional<std::string> FindRotten(FileSystem& fs, const std::string& sidecar, const std::string& except, const LeafKey* key);
/// Finds files beside the sidecar and in reach, other than `except`, that have the content that `sidecar` committed, whatever their own
/// sidecars say: at most `most`. Stats each file there, and reads those of the committed size for which `counts` is true.
std::vector<std::string> FindCopies(FileSystem& fs, const std::string& sidecar, const std::string& except, const LeafKey* key, std::size_t most,
                                    const std::function<bool(const std::string&)>& counts = {});
/// True if there is one.
bool IsHeldByAnother(FileSystem& fs, const std::string& sidecar, const std::string& except, const LeafKey* key);

}  // namespace lzy
