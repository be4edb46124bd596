#pragma once
// The commits of sync and close: at once, or in the background (hooks/background). The hooks of calls/hooks.cc call these.

#include <cstddef>
#include <memory>

#include "base/status.h"
#include "hooks/epochs/file_epoch.h"
#include "hooks/files/open_file.h"

namespace lzy::hooks {

/// For a file that was just opened: sets OpenFile::background. Collective over its communicator if option commit asks for
/// the background, else local.
void DecideBackground(OpenFile& file);

/// The work of sync and close after the real call, at once or in the background. `data_safe`: the program's own sync on this
/// rank succeeded. Returns the status of a commit that has ended, and Ok for one that goes on.
Status CommitOrHandOver(const std::shared_ptr<OpenFile>& file, Moment moment, bool data_safe);

/// Call it before anything that may change the file: a commit in the background of an earlier sync may still read it.
/// Waits for it.
void AwaitCommitsOf(const OpenFile& file) noexcept;

/// Layer::AwaitCommits.
int AwaitCommits(const char* path, double seconds, char* why, std::size_t why_size);

}  // namespace lzy::hooks
