#pragma once
// Reads the commit and the intents in a sidecar, without its hashes.
//
// Callers: writes that may begin an epoch (epochs/file_epoch.cc), commits, and reads that differ from their hashes
// (read_check.cc). So ReadCommitState must be cheap. It is local and takes no lock. If another process commits at the same time, the
// result is the old or the new version, because a superblock counts only as a whole.

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.h"
#include "sidecar/sidecar_format.h"

namespace lzy::hooks {

/// Identifies a commit. If it changes without a commit of ours, another program commits to this file, too.
struct SidecarVersion {
  Uuid uuid{};
  std::uint64_t generation = 0;
  friend bool operator==(const SidecarVersion&, const SidecarVersion&) = default;
};

/// The result of ReadCommitState.
struct CommitState {
  SidecarVersion version;
  std::optional<Intent> whole_file_intent;  ///< the intent that is set, if it covers the whole file
  bool repairing = false;  ///< the intent that is set belongs to a repair, so the blocks are not edited
};

/// Returns the version that Sidecar::Load would choose; nullopt if there is no usable sidecar. A few small reads are enough
/// while all copies of the superblock agree. They differ only during a commit, or after an interrupted one; then this loads
/// the whole sidecar.
std::optional<CommitState> ReadCommitState(FileSystem& fs, const std::string& data_path);

}  // namespace lzy::hooks
