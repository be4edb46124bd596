#pragma once
// Finds the datasets that a PATH of the command line means (docs/reference/tools.md "Paths").
//
// Tools and the C API call ResolvePath for each PATH, and then the engine for each DatasetRef. `heal` and verified reads
// call it, too. Each rank finds what it sees (names/survey), and this module merges the results of all ranks: with
// node-local disks, each rank sees other files.

#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "comm/communicator.h"
#include "geometry/layout.h"
#include "merkle/leaf_key.h"
#include "names/lookup.h"

namespace lzy {

/// One dataset, not yet opened. The same on every rank except `members`.
struct DatasetRef {
  DatasetKind kind = DatasetKind::kShared;
  /// Shared: the data file. Set: the pattern (with %r), relative to the working directory or absolute.
  std::string path;
  /// Set: the paths of the members that this process sees, as data file or as sidecar, by rank. With node-local disks, each
  /// process sees its own. Empty for shared files.
  std::map<std::uint32_t, std::string> members;
  /// How PATH came to mean this dataset, for the user: complete sentences.
  std::vector<std::string> notes = {};
  /// Sentences that explain a difference if the engine finds one. Do not print them otherwise.
  std::vector<std::string> hints = {};
  /// The number of processes that share a view of one machine and so see the same members, and the number of this one among
  /// them. Work that one process can do for all is divided among them.
  std::uint32_t companions = 1;
  std::uint32_t companion = 0;
  /// True if this process does such work for member `rank`.
  bool IsDealtHere(std::uint32_t rank) const { return rank % companions == companion; }
};


enum class Resolve {
  kProtected,    ///< files with a sidecar (verify, restore, info); a directory means every sidecar below it
  kProtectable,  ///< files that can get one (protect); a directory means every regular non-hidden file below it
};

/// Finds the datasets that PATH means, sorted by path. Collective over `comm`; all ranks get the same list.
///  - A file whose data are missing, but whose sidecar exists, is a dataset.
///  - A file that is a member of a protected set means the whole set (its sidecar records the pattern).
///  - '*' matches within one component. Each match is a dataset of its own.
///  - With kProtected: a file or set that is gone, but exists under another name, means the one with the new name; a note
///    says so.
///  - A file left over from an older, larger version of a set is not a member. If PATH names the set, the set gets a note
///    about it. If PATH also leads to this file (a directory), it is an unprotected dataset of its own. If PATH leads to
///    nothing else of the set, with kProtectable, or if only the sidecar of this file is left, and no file has its content, it
///    becomes kUnprotected in `troubles`, and nothing overwrites its sidecar.
///
/// kInvalidArgument: nothing matches, or the pattern is malformed (the message says what is accepted). kUnprotected: PATH is
/// a directory without any sidecar below it (kProtected only). Files and directories that cannot be examined (no permission)
/// are added to `troubles`, the same on all ranks, and everything else is found. Without `troubles`, the first of these
/// errors is returned.
Result<std::vector<DatasetRef>> ResolvePath(FileSystem& fs, Communicator& comm, const std::string& path, Resolve what,
                                            std::vector<Status>* troubles = nullptr, const LeafKey* key = nullptr);

/// The directories of the datasets that several PATHs mean, as far as this process sees them (AddToReach). With
/// kProtectable, also those of files without a sidecar. Local.
std::vector<std::string> DirectoriesOf(FileSystem& fs, const std::vector<std::string>& paths, Resolve what = Resolve::kProtected);

/// What the user named with PATH, for GuardedFileSystem: PATH itself, and for a pattern also the directory above its first
/// placeholder or star.
std::vector<std::string> NamedBy(const std::string& path);

/// A key that is equal for two references to one dataset, also through links and relative paths. Local: it depends on what
/// this process sees.
std::string DatasetKey(FileSystem& fs, const DatasetRef& dataset);

}  // namespace lzy
