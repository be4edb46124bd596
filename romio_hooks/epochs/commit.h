#pragma once
// Commits that several ranks make together. Shared files are committed here. Sets are committed in sets/sets.cc, which uses
// ProtectPatiently.
//
// The hooks of sync and close call CommitShared after the real call. All ranks exchange their parts (file_epoch.h), derive
// the same request, and call the engine's Protect together. Invariant: between two collective calls, no rank leaves
// early. Work that can fail on one rank alone runs in NoThrow, and the ranks agree on the result.
//
// A commit that fails changes nothing for the program: the file stays at risk, and the next commit covers all of it.
// Only with on-error=fail does the program get an error.

#include "base/status.h"
#include "comm/communicator.h"
#include "engine/engine.h"
#include "hooks/epochs/file_epoch.h"
#include "hooks/files/open_file.h"

namespace lzy::hooks {

/// The arguments of Protect. Every rank makes its own, and may run out of memory while it does so.
struct Attempt {
  Options options;
  DatasetRef dataset;
  ProtectRequest request;
};

/// Calls Protect if all ranks are `prepared`. Tries again while the result is kBusy: another process holds the locks, or
/// something changes the files during the commit (then the next attempt covers them completely). Gives up when option
/// timeout has passed. Collective; the same status on all ranks.
DatasetReport ProtectPatiently(Communicator& comm, Attempt& attempt, const Status& prepared);

/// Puts the times of the commit of `file` so far into its report.
void NoteTimes(const OpenFile& file, DatasetReport& report);

/// Commits a shared file. If `moment` is kClose, the real close has returned. `data_safe`: this rank's own sync succeeded.
/// Writes messages for the user on stderr. Collective over the file's communicator, the same Status on all its ranks.
Status CommitShared(OpenFile& file, Moment moment, bool data_safe);

}  // namespace lzy::hooks
