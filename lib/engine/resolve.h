#pragma once
// From a PATH of the command line to datasets (INTERFACE.md, "Paths").

#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "comm/communicator.h"
#include "geometry/layout.h"

namespace lzy {

/// One dataset, not yet looked into. The same on every rank but for `members`.
struct DatasetRef {
  DatasetKind kind = DatasetKind::kShared;
  /// Shared: the data file. Set: the pattern (with %r), relative to the working directory or absolute.
  std::string path;
  /// Set: members of which this process sees the data file or the sidecar, by rank. (With node-local disks each
  /// process sees its own.) Empty for shared files.
  std::map<std::uint32_t, std::string> members;
};

enum class Resolve {
  kProtected,    ///< what has a sidecar (verify, restore, info): a directory means every sidecar below it
  kProtectable,  ///< what can be given one (protect): a directory means every regular non-hidden file below it
};

/// The datasets PATH stands for, sorted by path; collective over `comm`, the same list everywhere. A file whose data are
/// missing but whose sidecar is there is a dataset. A file that is a member of a protected set, named alone, stands for its whole set
/// (its pattern is in its sidecar). '*' in a pattern or path matches within one component, each match being one dataset.
///
/// kInvalidArgument: nothing matches, or a malformed pattern (names it and says what is accepted). kUnprotected: PATH is a
/// directory without any sidecar below it (kProtected only). What cannot be looked into while walking a tree (no permission)
/// is added to `troubles`, the same on all ranks, and the rest is found nevertheless; without `troubles` it is the result.
Result<std::vector<DatasetRef>> ResolvePath(FileSystem& fs, Communicator& comm, const std::string& path, Resolve what,
                                            std::vector<Status>* troubles = nullptr);

/// What two references to one dataset have in common, however they are written (links, relative paths). Local.
std::string DatasetKey(FileSystem& fs, const DatasetRef& dataset);

/// The sidecar of `data_path`: ".LZY.<name>" if it is there and belongs to this file, otherwise one in the same directory
/// whose stamp (inode, size, mtime) says that the file was renamed after its commit (DESIGN §6). kNotFound if none.
Result<std::string> FindSidecar(FileSystem& fs, const std::string& data_path);

/// Sidecars below `directory` whose data file exists under no name in their directory and that are not part of a set
/// with survivors. A set of which some members are not to be seen from here (other nodes may have them) has no orphans.
Result<std::vector<std::string>> FindOrphans(FileSystem& fs, const std::string& directory);

}  // namespace lzy
