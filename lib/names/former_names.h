#pragma once
// Finds the names that a file had at earlier commits: it was renamed, moved or copied, and may be damaged
// (docs/design/commit.md §7, "Owners of sidecars").
//
// Local to one process; nothing is written. `key` as for names/content_match.

#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "merkle/leaf_key.h"
#include "names/peek.h"

namespace lzy {

/// A sidecar that was committed for a file with the same inode and mtime. The size is the same, too, unless births prove that it is this file:
/// then it was cut off or has grown, without the mtime of an edit (HasLostItsSize).
struct FormerName {
  std::string sidecar;  ///< path
  Peek peek;
  std::string name;  ///< the name of the file at that commit: its base name, or for a member the end of its path; with the
                     ///< directory if that is another one
  bool lost = false;  ///< it was a member that is lost together with its sidecar, and `sidecar` is that of another member
};
enum class Within { kDirectory, kReach };
/// Finds such sidecars other than `except` (a path; may be empty) for the file `data_path`, whose stat is `stat`: beside the
/// file, or also in reach on its file system. If there is one, the file was renamed. Births are compared if they are known.
std::vector<FormerName> CommittedAs(FileSystem& fs, const std::string& data_path, const FileStat& stat, const std::string& except,
                                    Within within);
/// Finds sidecars beside the file that were committed with its size and mtime, and at least half of its blocks, if no file of
/// their name has the committed content: the file was renamed, came back from a backup (so it has another inode), and was
/// damaged. Parameters as for CommittedAs.
std::vector<FormerName> MostlyAs(FileSystem& fs, const std::string& data_path, const FileStat& stat, const std::string& except,
                                 const LeafKey* key);
/// For a file without a sidecar: finds its name at its commit, if it was renamed or moved to another directory, and damaged.
/// That is so if a sidecar of another name, beside it, in a directory that the command names, or of a file that lzy knows of, was
/// committed for its inode, size and mtime (or HasLostItsSize), no file of that name has the committed content, and this file has not either. Half of
/// the blocks count like the inode. It is also so if it has the size and mtime of a member that is lost together with its sidecar, and
/// nothing proves its content. Otherwise nullopt.
std::optional<std::string> RottenAs(FileSystem& fs, const std::string& data_path, const LeafKey* key);
/// kUnprotected, with what to do, if the file `path` of `dataset`, which has no sidecar, is such a file (RottenAs), or a hard link to a
/// damaged file.
Status RefuseRotten(FileSystem& fs, const std::string& path, const std::string& dataset, const LeafKey* key);

}  // namespace lzy
