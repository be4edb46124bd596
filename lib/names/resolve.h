#pragma once
// From a PATH of the command line to datasets (docs/reference/tools.md "Paths").
//
// Tools and the C API call ResolvePath for each PATH and then the engine for each DatasetRef. `heal` and verified
// reads call it, too. Each rank looks at what it can see (names/survey), and the ranks put their views together here:
// with node-local disks, each rank sees other files.

#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "comm/communicator.h"
#include "geometry/layout.h"
#include "names/lookup.h"

namespace lzy {

/// One dataset, not yet opened. The same on every rank except `members`.
struct DatasetRef {
  DatasetKind kind = DatasetKind::kShared;
  /// Shared: the data file. Set: the pattern (with %r), relative to the working directory or absolute.
  std::string path;
  /// Set: paths by rank of the members that this process sees, as data file or as sidecar. With node-local disks each
  /// process sees its own. Empty for shared files.
  std::map<std::uint32_t, std::string> members;
  /// What the user should know about how PATH came to mean this dataset: complete sentences.
  std::vector<std::string> notes = {};
  /// Sentences that explain a difference, if the engine finds one. Do not print them otherwise.
  std::vector<std::string> hints = {};
  /// How many processes see the same members because they share a view of one machine, and which of them this one is.
  /// What one of them can do for all is dealt among them.
  std::uint32_t companions = 1;
  std::uint32_t companion = 0;
  /// Whether that falls to this process for the member `rank`.
  bool IsDealtHere(std::uint32_t rank) const { return rank % companions == companion; }
};

/// The paths of the members that this process sees.
std::vector<std::string> MemberPaths(const DatasetRef& dataset);

enum class Resolve {
  kProtected,    ///< what has a sidecar (verify, restore, info): a directory means every sidecar below it
  kProtectable,  ///< what can be given one (protect): a directory means every regular non-hidden file below it
};

/// The datasets that PATH stands for, sorted by path. Collective over `comm`; all ranks get the same list.
///  - A file whose data are missing, but whose sidecar is there, is a dataset.
///  - A file that is a member of a protected set stands for its whole set (its sidecar records the pattern).
///  - '*' matches within one component. Each match is a dataset of its own.
///  - With kProtected: if a file or set is gone, but is there under another name, that one is meant, with a note.
///  - A file left over from an older, larger version of a set is not a member. If PATH names the set, it becomes a note of that.
///    If PATH leads to it, too (a directory), it is a dataset of its own, which is unprotected. If PATH leads to nothing else of
///    the set, or with kProtectable, it becomes kUnprotected in `troubles`: nothing overwrites its sidecar.
///
/// kInvalidArgument: nothing matches, or the pattern is malformed (the message says what is accepted). kUnprotected:
/// PATH is a directory without any sidecar below it (kProtected only). What cannot be looked into (no permission) is
/// added to `troubles`, the same on all ranks, and the rest is found nevertheless. Without `troubles`, the first one
/// is the result.
Result<std::vector<DatasetRef>> ResolvePath(FileSystem& fs, Communicator& comm, const std::string& path, Resolve what,
                                            std::vector<Status>* troubles = nullptr);

/// The directories with the datasets that several PATHs stand for, as far as this process sees them (AddToReach). With kProtectable,
/// those with files that have no sidecar, too. Local.
std::vector<std::string> DirectoriesOf(FileSystem& fs, const std::vector<std::string>& paths, Resolve what = Resolve::kProtected);

/// What the user named with PATH, for GuardedFileSystem: PATH itself, and for a pattern also the directory where its
/// placeholders or stars begin.
std::vector<std::string> NamedBy(const std::string& path);

/// A key that is equal for two references to one dataset, however they are written (links, relative paths). Local: it
/// depends on what this process sees.
std::string DatasetKey(FileSystem& fs, const DatasetRef& dataset);

}  // namespace lzy
