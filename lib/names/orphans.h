#pragma once
// Finds lzy's own files that are not needed any more: `lzy-info` lists them, and `lzy-info --prune` removes them. Local to
// one process. If in doubt, a file is not an orphan: its parity may be the only way to get data back.

#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace lzy {

/// A file of lzy that is not needed.
struct Orphan {
  std::string path;
  /// Why it is not needed, in a few words.
  std::string reason;
  /// If not empty, the file must not be removed, and this says why: a process may be using it, or the user must decide.
  std::string kept;
  LZY_FIELDS(path, reason, kept)
};

/// Finds orphans below `directory`; sorted by path. Orphans are:
///  - sidecars whose data file does not exist under any name in their directory, or has another sidecar, and that are not
///    part of a set with survivors. If some members of a set cannot be seen from here (other nodes may have them), none of
///    its sidecars is an orphan, except those that a newer commit of the same member, under another name, replaced;
///    A sidecar without a usable superblock is kept unless it is empty: it may be somebody's own file;
///  - files that were being made when their process ended: restored data (.LZY-data.*), copies (.LZY-copy.*,
///    .LZY-journal.*), new sidecars (.LZY-new.*, unless their set may have committed them) and temporary sidecars
///    (.LZY-tmp.*);
///  - indexes of objects (.LZY-index.*) without a sidecar of the same name that exists or could be made again, or whose
///    sidecar is an orphan;
///  - parts in device directories that another encoding of their file has replaced, and parts whose file is not found (these
///    are kept).
/// If the file of a sidecar is gone, but can be rebuilt completely from the sidecar, the sidecar is listed and kept: lzy
/// does not know whether the file was deleted or lost. A sidecar whose file can be rebuilt from the rest of its set is not
/// an orphan. Fails if any directory cannot be listed. Takes locks for a moment to find out which files are in use, but
/// changes nothing.
Result<std::vector<Orphan>> FindOrphans(FileSystem& fs, const std::string& directory);
/// The same of `directory` alone, without those below it, and without locks: so a file in use may be among them. None if the directory
/// cannot be listed.
std::vector<Orphan> FindOrphansIn(FileSystem& fs, const std::string& directory);

/// Removes the orphan and syncs the directory. kBusy if another process has its lock. Ok if it does not exist any more.
Status RemoveOrphan(FileSystem& fs, const Orphan& orphan);

}  // namespace lzy
