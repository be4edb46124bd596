#pragma once
// Files of lzy's own that nothing needs any more: what `lzy-info` lists and `lzy-info --prune` removes. Local to one
// process. If in doubt, a file is not an orphan: its parity may be the only way to get data back.

#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace lzy {

/// One such file.
struct Orphan {
  std::string path;
  /// Why it is not needed, in a few words.
  std::string reason;
  /// If not empty, it must not be removed, and this says why: a tool or program may be using it now, or a person has to
  /// decide.
  std::string kept;
  LZY_FIELDS(path, reason, kept)
};

/// Looks at everything below `directory`; sorted by path. Orphans are:
///  - sidecars whose data file exists under no name in their directory, or has another sidecar, and that are not part
///    of a set with survivors. If some members of a set cannot be seen from here (other nodes may have them), none of
///    its sidecars is an orphan, except those that a newer commit of the same member, under another name, replaced;
///  - what was being built when its process ended: data being restored (.LZY-data.*) or copied (.LZY-copy.*,
///    .LZY-journal.*), sidecars being built (.LZY-new.*,
///    unless their set may have committed them), and those that only began to exist (.LZY-tmp.*);
///  - indexes of objects (.LZY-index.*) without a sidecar of the same name (that could be made again), or with one that is an orphan;
///  - parts in device directories of which another encoding of their file has taken the place, and parts that cannot be
///    assigned (these are kept).
/// A sidecar whose file is gone, but can be rebuilt whole from it, is listed and kept: nobody else knows whether the
/// file was deleted or lost. One whose file can be rebuilt from the rest of its set is not an orphan. Fails if any directory
/// cannot be listed. It takes locks for a moment to find out what is in use, but changes nothing.
Result<std::vector<Orphan>> FindOrphans(FileSystem& fs, const std::string& directory);
/// The same of `directory` alone, without those below it; none if it cannot be listed.
std::vector<Orphan> FindOrphansIn(FileSystem& fs, const std::string& directory);

/// Removes it durably. kBusy if somebody holds its lock. Ok if it is gone already.
Status RemoveOrphan(FileSystem& fs, const Orphan& orphan);

}  // namespace lzy
