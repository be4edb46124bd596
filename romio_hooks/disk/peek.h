#pragma once
// What a sidecar says about commits and intents, without reading all its hashes.
//
// Rooms above ask before a write that may begin an epoch (epochs/epoch.cc), at commits, and when a read differs from
// its hash (read_check.cc). So it must be cheap. It is local and takes no lock: another process may commit at the same
// time. The version is then that of before or of after, because a superblock counts only as a whole.

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.h"
#include "sidecar/sidecar_format.h"

namespace lzy::hooks {

/// Which commit of which sidecar; a change that is not ours means that somebody else commits to this file too.
struct SidecarVersion {
  Uuid uuid{};
  std::uint64_t generation = 0;
  friend bool operator==(const SidecarVersion&, const SidecarVersion&) = default;
};

/// What was found in a usable sidecar.
struct Peek {
  SidecarVersion version;
  std::optional<Intent> whole_file_intent;  ///< the intent that is set, if it covers all of the file
  bool repairing = false;  ///< the intent that is set is a repair's: that of blocks which nobody edits
};

/// The version that Sidecar::Load would choose. A few small reads while all copies of the superblock agree, which they
/// do but for a commit under way or broken off; only then is the sidecar loaded. nullopt when there is no usable one.
std::optional<Peek> PeekAt(FileSystem& fs, const std::string& data_path);

}  // namespace lzy::hooks
