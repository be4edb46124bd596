#pragma once
// Commits that several ranks make together: of a shared file here; of a set in sets/sets.cc, which uses
// ProtectPatiently.
//
// The hooks of sync and close call CommitShared after the real call. All ranks exchange their parts (epoch.h), derive
// the same request, and call the engine's Protect together. Invariant: between two collective calls, no rank leaves
// early. What can fail on one rank alone runs in NoThrow, and the ranks agree on the result.
//
// A commit that fails changes nothing for the program: the file stays at risk, and the next commit covers all of it.
// Only with on-error=fail does the program get an error.

#include "base/status.h"
#include "comm/communicator.h"
#include "engine/engine.h"
#include "hooks/epochs/epoch.h"
#include "hooks/files/open_file.h"

namespace lzy::hooks {

/// The arguments of Protect. Every rank makes its own, and may run out of memory while it does so.
struct Attempt {
  Options options;
  DatasetRef dataset;
  ProtectRequest request;
};

/// Calls Protect, if all ranks are `prepared`. Tries again as long as it is busy: another process holds the locks, or
/// something else changes the files meanwhile (then all of them is committed). Gives up after option timeout in all.
/// Collective; the same status on all ranks.
DatasetReport ProtectPatiently(Communicator& comm, Attempt& attempt, const Status& prepared);

/// Commits a shared file; collective over its communicator, the same Status on all its ranks. The file is closed
/// already when `moment` is kClose. Says on stderr what the user should know.
Status CommitShared(OpenFile& file, Moment moment, bool data_safe);

}  // namespace lzy::hooks
