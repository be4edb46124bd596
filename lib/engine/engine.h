#pragma once
// The collective algorithms: protect, verify, repair, restore, info; and the epoch calls the interposition layer needs.
//
// Every function here that takes a Context is collective over its communicator: all ranks call it with the same
// arguments (DatasetRef::members excepted) and get the same report. None throws, prints or exits.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "comm/communicator.h"
#include "engine/options.h"
#include "engine/report.h"
#include "engine/placement.h"
#include "engine/resolve.h"
#include "sidecar/sidecar_format.h"

namespace lzy {

class Capture;

struct Context {
  FileSystem& fs;
  Communicator& comm;
  const Options& options;
  /// Called now and then by one thread of each rank with bytes done and to do of the current phase; may be empty.
  std::function<void(const char* phase, std::uint64_t done, std::uint64_t total)> progress = {};
  /// Polled between batches; when it returns true the operation stops cleanly with kIo "interrupted". May be empty.
  std::function<bool()> stop = {};
  /// Whether ranks of one node may read each other's files, which spares them messages. False makes all go by messages.
  bool share_page_cache = true;
};

/// Byte ranges of one file that changed, on this rank; `whole` stands for everything.
struct Touched {
  bool whole = true;
  std::vector<ByteRange> ranges;  ///< sorted, disjoint
};

struct ProtectRequest {
  bool force = false;  ///< commit even blocks that are damaged (differ from their hash while the file's mtime is as committed)
  /// Hooks: what was written since the last commit, by rank of a set's member (0 for a shared file); members without an
  /// entry were not touched. Empty optional (lzy-protect): unknown, so the stamp and the hashes decide.
  std::optional<std::map<std::uint32_t, Touched>> touched;
  /// Hooks: the intents that this program's processes set (EpochStart::intent), the same on every rank. One that is none
  /// of these is another writer's, who writes now or never came to commit: all of that file is committed then, and the
  /// intent stays set (DatasetReport::kept_intents). Empty optional: no matter whose they are, a commit ends all intents.
  std::optional<std::vector<Intent>> own_intents;
  /// Hooks, shared files: what this rank captured of this epoch's writes, all of which it was told (Take or Miss). Null
  /// on any rank: all is read back. So it is, too, where somebody else is met under the lock: another writer's intent,
  /// or, by rank 0, any commit other than the one that the epoch departs from (all zero: none was made yet).
  Capture* capture = nullptr;
  Uuid departs_from{};
  std::uint64_t departs_from_generation = 0;
};
/// Makes or refreshes the sidecars. report.state: kIntact; kDamaged (exit 1) when damaged blocks were found that are not to be
/// blessed. With `touched`, untouched blocks of touched rows are checked first; one that does not match keeps its old leaf and
/// is in report.damage; report.state is kUnrepairable (exit 2) where it cannot be had again.
DatasetReport Protect(const Context& context, const DatasetRef& dataset, const ProtectRequest& request);

struct VerifyRequest {
  bool from_disk = false;  ///< read everything past the page cache
  bool repair = false;     ///< mend what is damaged; never creates missing files
  bool force = false;      ///< with repair: stale and at-risk blocks go back to the committed content too
};
DatasetReport Verify(const Context& context, const DatasetRef& dataset, const VerifyRequest& request);

struct RestoreRequest {
  std::vector<std::uint32_t> devices;  ///< to be treated as lost, besides those found missing
  bool dry_run = false;
  bool salvage = false;  ///< with more losses than parity can mend: write what can be had nevertheless
  bool force = false;
  /// Sets: by which process members are made that no process sees.
  Placing placing = Placing::kApart;
};
DatasetReport Restore(const Context& context, const DatasetRef& dataset, const RestoreRequest& request);

/// Metadata only: geometry, state as far as stamps and intents tell, map of groups. Changes nothing.
DatasetReport Info(const Context& context, const DatasetRef& dataset);

// ---- for the interposition layer ------------------------------------------------------------------------------------

/// The options that a dataset's geometry follows from, and the size of its file then.
struct MadeWith {
  std::uint32_t parity = 0, group = 0, block_size = 0;
  std::uint64_t stripe = 0;
  std::uint64_t size = 0;  ///< 0: there is none yet
  std::uint32_t directories = 0;  ///< device directories; 0: parity is in one sidecar
};

/// What is known when a file is opened for writing; local to the calling process (not collective).
struct EpochStart {
  bool had_sidecar = false;
  bool changed_behind = false;   ///< the file differs from its stamp: this epoch must cover the whole file
  Intent intent;                 ///< as it was set
  std::optional<Intent> before;  ///< what was set before, by another writer or by one who never came to commit
  MadeWith made_with;  ///< the last commit; without one, what the options say
  std::uint64_t generation = 0;  ///< that of the last commit
};
/// Before the first write of an epoch (docs/design.md "Epochs"): gives the sidecar of a file that was renamed away its new
/// name (DESIGN §6, write-temporary-then-rename), compares the stamp, and sets the intent durably (creating a sidecar that
/// holds nothing but the intent if there is none). `pattern` is the set's pattern for members, empty for a shared file.
/// Waits for whoever holds the sidecar's lock up to options.timeout_seconds, then kBusy.
Result<EpochStart> BeginEpoch(FileSystem& fs, const Options& options, const std::string& data_path,
                              const std::string& pattern);
/// What BeginEpoch would find, where it would find a sidecar that was committed for this file, which nobody has edited since, and
/// no intent: then there is nothing to do before somebody writes. (`changed_behind`: its size is another one all the same, so
/// it is damaged.) Changes nothing, takes no lock.
std::optional<EpochStart> FindCleanEpoch(FileSystem& fs, const Options& options, const std::string& data_path);
/// The epoch that began with `start` ended without any change by this program: takes the intent back, so that what was
/// set before is set again (a sidecar that held nothing else is removed). Nothing is done when the intent that is set now
/// is another writer's. Waits as BeginEpoch does.
Status AbandonEpoch(FileSystem& fs, const Options& options, const std::string& data_path, const EpochStart& start);
/// The file was renamed from `from` to `to` (in one directory) while an epoch of it was open, in which this program set
/// the intents `own`: its sidecar goes along, and with it the intent. A sidecar under the new name that belongs to a file renamed away goes to that file, that of a file
/// which is gone is replaced. Waits as BeginEpoch does. Not an error if the sidecar came along already.
Status FollowRename(FileSystem& fs, const Options& options, const std::string& from, const std::string& to,
                    const std::vector<Intent>& own);
/// The file was deleted: removes its sidecar. Not an error if there is none.
Status Forget(FileSystem& fs, const std::string& data_path);

}  // namespace lzy
