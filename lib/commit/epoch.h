#pragma once
// Epochs, for the layer (docs/design/commit.md "Epochs"). An epoch lasts from the intent before the first write of a file
// to the next commit. All functions are local to the calling process.
//
// romio_hooks/epochs calls BeginEpoch before the first write. The epoch ends with a commit (commit/protect.h), which voids
// the intent, or with AbandonEpoch if nothing was written. Invariant: while a program may be writing, the sidecar has a
// durable intent that covers the writes. Each function holds the lock of the sidecar only while it changes the sidecar.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "request/options.h"
#include "sidecar/sidecar_format.h"

namespace lzy {

/// The options that determine the geometry of a dataset, and the size of the file at that time.
struct MadeWith {
  std::uint32_t parity = 0, group = 0;
  std::uint32_t block_size = kAutomaticBlockSize;  ///< an option value, input of ChooseBlockSize
  std::uint64_t stripe = 0;
  std::uint64_t size = 0;  ///< 0: the file has no committed size yet
  std::uint32_t directories = 0;  ///< number of device directories; 0: parity is in one sidecar
  std::optional<ServerGeometry> by_servers = {};  ///< as Options::by_servers
  LZY_FIELDS(parity, group, block_size, stripe, size, directories, by_servers)
};

/// Result of BeginEpoch. Local to the calling process. The commit of the epoch gets parts of it
/// (ProtectRequest::own_intents, departs_from).
struct EpochStart {
  bool had_sidecar = false;
  bool changed_behind = false;   ///< the file differs from its stamp: the commit must cover the whole file
  Intent intent;                 ///< the intent that is set now
  std::optional<Intent> before;  ///< the intent that was set before, by another writer or by an epoch that never ended
  MadeWith made_with;  ///< geometry of the last commit; if there was none, of the options
  std::uint64_t generation = 0;  ///< generation of the last commit
};
/// Begins an epoch; call it before the first write. Gives the sidecar of a renamed file its new name, compares the stamp,
/// and sets the intent durably. If there is no sidecar, creates one that contains only the intent. `pattern` is the pattern
/// of the set if the file is a member, and empty for a shared file. Waits up to options.timeout_seconds for the lock of the
/// sidecar, then returns kBusy.
Result<EpochStart> BeginEpoch(FileSystem& fs, const Options& options, const std::string& data_path,
                              const std::string& pattern);
/// For callers that want to postpone BeginEpoch to the first write. Returns what BeginEpoch would return now; nullopt if
/// BeginEpoch must not be postponed: the sidecar was not committed for this file, the file was edited since the commit, or
/// an intent is set. `changed_behind` of the result is true if only the size differs from the stamp: the file is damaged.
/// Changes nothing and takes no lock.
std::optional<EpochStart> FindCleanEpoch(FileSystem& fs, const Options& options, const std::string& data_path);
/// The same for a file that may have been renamed: first gives the sidecar its new name, as BeginEpoch does. Returns
/// nullopt if this is not possible.
std::optional<EpochStart> FollowToCleanEpoch(FileSystem& fs, const Options& options, const std::string& data_path);
/// Ends the epoch of `start`, in which this program wrote nothing. Restores the previous intent, or clears the intent if
/// there was none. Removes a sidecar that contained only the intent. Does nothing if another writer has replaced the
/// intent. Waits as BeginEpoch does.
Status AbandonEpoch(FileSystem& fs, const Options& options, const std::string& data_path, const EpochStart& start);
/// Call it when the program has handed the commit of the epoch over, and writes no more: tools that find the intent `own`
/// say that its commit is under way. Without kIntentHandedOver in the flags of `own`, they do not say so any more. Does
/// nothing if this intent is not set any more, or if the sidecar is locked.
Status MarkHandedOver(FileSystem& fs, const std::string& data_path, const Intent& own);
/// Call it if the file was renamed from `from` to `to` (in the same directory) during an epoch. `own` are the intents that
/// this program set on the file. Renames the sidecar with its intent. If another sidecar has the new name, renames it after
/// its own file, or replaces it if that file is gone. Waits as BeginEpoch does. Succeeds if the sidecar has the new name
/// already.
Status FollowRename(FileSystem& fs, const Options& options, const std::string& from, const std::string& to,
                    const std::vector<Intent>& own);
/// Removes the sidecar and the parts of a file that was deleted. Succeeds if there is none.
Status Forget(FileSystem& fs, const std::string& data_path);

}  // namespace lzy
