#pragma once
// From a PATH of the command line to datasets (docs/reference/tools.md "Paths").

#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "comm/communicator.h"
#include "geometry/layout.h"
#include "names/lookup.h"

namespace lzy {

/// One dataset, not yet looked into. The same on every rank but for `members`.
struct DatasetRef {
  DatasetKind kind = DatasetKind::kShared;
  /// Shared: the data file. Set: the pattern (with %r), relative to the working directory or absolute.
  std::string path;
  /// Set: members of which this process sees the data file or the sidecar, by rank. (With node-local disks each
  /// process sees its own.) Empty for shared files.
  std::map<std::uint32_t, std::string> members;
  /// What the user should know about how this came to be what PATH stands for: complete sentences.
  std::vector<std::string> notes = {};
  /// What would explain it if something differed; no news while nothing does.
  std::vector<std::string> hints = {};
};

enum class Resolve {
  kProtected,    ///< what has a sidecar (verify, restore, info): a directory means every sidecar below it
  kProtectable,  ///< what can be given one (protect): a directory means every regular non-hidden file below it
};

/// The datasets PATH stands for, sorted by path; collective over `comm`, the same list everywhere. A file whose data are
/// missing but whose sidecar is there is a dataset. A file that is a member of a protected set, named alone, stands for
/// its whole set (its pattern is in its sidecar). '*' in a pattern or path matches within one component, each match
/// being one dataset.
/// To be protected already (kProtected), a file or set that is gone, but is there under another name, means that one,
/// with a note. A file left over from an older, larger version of a set is no member: a note of the set, or, if PATH
/// leads to nothing else of it, kUnprotected in `troubles`.
///
/// kInvalidArgument: nothing matches, or a malformed pattern (names it and says what is accepted). kUnprotected: PATH is
/// a directory without any sidecar below it (kProtected only). What cannot be looked into while walking a tree (no
/// permission) is added to `troubles`, the same on all ranks, and the rest is found nevertheless; without `troubles` it
/// is the result.
Result<std::vector<DatasetRef>> ResolvePath(FileSystem& fs, Communicator& comm, const std::string& path, Resolve what,
                                            std::vector<Status>* troubles = nullptr);

/// What the user named with PATH: that, and of a pattern the directory it begins in (GuardedFileSystem).
std::vector<std::string> NamedBy(const std::string& path);

/// What two references to one dataset have in common, however they are written (links, relative paths). Local.
std::string DatasetKey(FileSystem& fs, const DatasetRef& dataset);

}  // namespace lzy
