#pragma once
// Commits that several ranks make together: patiently where another process is in the way, and of a shared file as a
// whole.

#include "base/status.h"
#include "comm/communicator.h"
#include "engine/engine.h"
#include "hooks/epochs/epoch.h"
#include "hooks/files/open_file.h"

namespace lzy::hooks {

/// What Protect is called with. Every rank makes it by itself, and may fail at that.
struct Attempt {
  Options options;
  DatasetRef dataset;
  ProtectRequest request;
};

/// Protect, once all ranks are `prepared`; again while something else changes the files meanwhile (all of them is
/// committed then), and while another process holds their locks: up to option timeout in all, and no attempt begins
/// after that. Collective; the same status on all ranks.
DatasetReport ProtectPatiently(Communicator& comm, Attempt& attempt, const Status& prepared);

/// Commits a shared file; collective over its communicator, the same Status on all its ranks. The file is closed
/// already when `moment` is kClose. Says on stderr what the user should know.
Status CommitShared(OpenFile& file, Moment moment, bool data_safe);

}  // namespace lzy::hooks
