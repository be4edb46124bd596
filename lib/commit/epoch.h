#pragma once
// Epochs, for the interposition layer (docs/design/commit.md "Epochs"): from the intent before the first write of a file to
// its next commit. Everything here is local to the calling process.
//
// romio_hooks/epochs calls BeginEpoch before the first write. The epoch ends with a commit (commit/protect.h), which
// voids the intent, or with AbandonEpoch if nothing was written. Invariant: while a program may be writing, the
// sidecar has an intent that covers what it writes, and that intent is durable. Each function holds the sidecar's lock
// only while it changes the sidecar.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "request/options.h"
#include "sidecar/sidecar_format.h"

namespace lzy {

/// The options that a dataset's geometry follows from, and the size of its file then.
struct MadeWith {
  std::uint32_t parity = 0, group = 0;
  std::uint32_t block_size = kAutomaticBlockSize;  ///< ask ChooseBlockSize
  std::uint64_t stripe = 0;
  std::uint64_t size = 0;  ///< 0: there is none yet
  std::uint32_t directories = 0;  ///< device directories; 0: parity is in one sidecar
  std::optional<ServerGeometry> by_servers = {};  ///< as in Options
  LZY_FIELDS(parity, group, block_size, stripe, size, directories, by_servers)
};

/// What BeginEpoch found and did: what is known when a file is opened for writing. Local to the calling process. The
/// commit of the epoch gets it (ProtectRequest::own_intents, departs_from).
struct EpochStart {
  bool had_sidecar = false;
  bool changed_behind = false;   ///< the file differs from its stamp: this epoch must cover the whole file
  Intent intent;                 ///< as it was set
  std::optional<Intent> before;  ///< what was set before, by another writer or by one who never came to commit
  MadeWith made_with;  ///< the last commit; without one, what the options say
  std::uint64_t generation = 0;  ///< that of the last commit
};
/// Before the first write of an epoch (docs/design/commit.md "Epochs"): gives the sidecar of a file that was renamed away its
/// new name (docs/design/commit.md "Epochs"), compares the stamp, and sets the intent durably (creating a sidecar that holds
/// nothing but the intent if there is none). `pattern` is the set's pattern for members, empty for a shared file.
/// Waits for whoever holds the sidecar's lock up to options.timeout_seconds, then kBusy.
Result<EpochStart> BeginEpoch(FileSystem& fs, const Options& options, const std::string& data_path,
                              const std::string& pattern);
/// What BeginEpoch would find, where it would find a sidecar that was committed for this file, which nobody has edited
/// since, and no intent: then there is nothing to do before somebody writes. (`changed_behind`: its size is another
/// one all the same, so it is damaged.) Changes nothing, takes no lock.
std::optional<EpochStart> FindCleanEpoch(FileSystem& fs, const Options& options, const std::string& data_path);
/// The same for a file that may have been renamed: its sidecar comes along first, as in BeginEpoch. If that is not possible,
/// there is no clean epoch.
std::optional<EpochStart> FollowToCleanEpoch(FileSystem& fs, const Options& options, const std::string& data_path);
/// The epoch that began with `start` ended without any change by this program: takes the intent back, so that what was
/// set before is set again (a sidecar that held nothing else is removed). Nothing is done when the intent that is set
/// now is another writer's. Waits as BeginEpoch does.
Status AbandonEpoch(FileSystem& fs, const Options& options, const std::string& data_path, const EpochStart& start);
/// The file was renamed from `from` to `to` (in one directory) while an epoch of it was open, in which this program
/// set the intents `own`: its sidecar goes along, and with it the intent. A sidecar under the new name that belongs to
/// a file renamed away goes to that file, that of a file which is gone is replaced. Waits as BeginEpoch does. Not an
/// error if the sidecar came along already.
Status FollowRename(FileSystem& fs, const Options& options, const std::string& from, const std::string& to,
                    const std::vector<Intent>& own);
/// The file was deleted: removes its sidecar. Not an error if there is none.
Status Forget(FileSystem& fs, const std::string& data_path);

}  // namespace lzy
