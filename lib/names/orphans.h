#pragma once
// Files of lzy's own that nothing needs any more: what `lzy-info` lists and `lzy-info --prune` removes.

#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace lzy {

struct Orphan {
  std::string path;
  std::string reason;   ///< why it is not needed, in a few words
  bool in_use = false;  ///< a tool or program may be at it just now: not to be removed
  LZY_FIELDS(path, reason, in_use)
};

/// Below `directory`, sorted by path:
///  - sidecars whose data file exists under no name in their directory, or has another sidecar, and that are not part
///  of
///    a set with survivors. A set of which some members are not to be seen from here (other nodes may have them) has
///    none, except sidecars that a newer commit of the same member, under another name, replaced;
///  - what was being built when its process ended: data being restored (DIR/.LZY-data.*), sidecars being built
///    (.LZY-new.*, unless their set may have committed them) and those that only began to exist (.LZY-tmp.*).
/// A sidecar whose data are lost but can be had from the rest of its set is no orphan.
Result<std::vector<Orphan>> FindOrphans(FileSystem& fs, const std::string& directory);

/// Removes it, unless somebody holds its lock (kBusy). Not an error if it is gone already.
Status RemoveOrphan(FileSystem& fs, const Orphan& orphan);

}  // namespace lzy
