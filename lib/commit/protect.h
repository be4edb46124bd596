#pragma once
// A commit: makes or updates the sidecars of a dataset (docs/design/commit.md "A commit").
//
// lzy-protect and the C API do not know what was written, so Protect examines everything first. The layer passes the
// touched ranges, its own intents, and its captures. After that, both take the same steps. Invariant: wherever a commit is
// interrupted, one whole generation counts, and an intent covers the differences from it.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/interval_set.h"
#include "dataset/lock.h"
#include "names/resolve.h"
#include "request/context.h"
#include "request/report.h"
#include "request/touched.h"
#include "sidecar/sidecar_format.h"

namespace lzy {

class Capture;

/// Blocks of a shared file that differ from what the ranks of a program wrote. They have a leaf that no content has, their rows
/// have no parity, and an intent covers them. So they are at risk.
struct Doubts {
  std::vector<Interval> blocks;  ///< byte ranges in the file
  std::uint64_t bytes = 0;       ///< bytes of these that the file has
  std::optional<Intent> intent;
};

struct ProtectRequest {
  bool force = false;  ///< also commit damaged blocks (blocks that differ from their hash although the mtime is the committed one)
  /// Layer only: what was written since the last commit, by rank of the member (0 for a shared file). Members without an
  /// entry were not touched. Empty (lzy-protect): unknown, so stamps and hashes decide.
  std::optional<std::map<std::uint32_t, IntervalSet>> touched;
  /// Layer only: the intents that processes of this program set (EpochStart::intent), the same on every rank. Any other
  /// intent belongs to another writer. Then the whole file is committed, and this intent stays set
  /// (DatasetReport::kept_intents). Empty: the commit ends all intents.
  std::optional<std::vector<Intent>> own_intents;
  /// Layer only: what this rank captured of the writes of this epoch. Each write was passed to Take or Miss. In a set, it
  /// is the capture of this rank's member, made for a geometry without parity. A shared file is read back completely if any
  /// rank has no capture, if another writer has set an intent, or if the committed uuid or generation differ from
  /// `departs_from` and `departs_from_generation` (zero: no commit yet). Rank 0 checks this for a shared file; in a set,
  /// each rank checks its member.
  Capture* capture = nullptr;
  /// Layer only: returns true if this process began another write to the file (its member) after `touched` was collected.
  /// Such blocks would look like rot, so Protect returns kBusy. Called after everything was read, unless the whole file is
  /// touched. May be empty.
  std::function<bool()> written_since;
  /// Layer only, for commits in the background: returns true if anybody changed the file (its member) since `touched` was
  /// collected. Then no capture is used, and Protect returns kBusy unless the whole file is touched. On rank 0 for a shared
  /// file; in a set, on each rank for its member. May be empty.
  std::function<bool()> edited_since;
  Uuid departs_from{};
  std::uint64_t departs_from_generation = 0;
  /// Commit only if the owner, mode or ACL of a file differ from the last commit, and nothing else does: if a stamp differs
  /// or a member was added, do nothing. Reads data only if it must make a new sidecar. Not with `touched`.
  bool only_access = false;
  /// Locks that this rank kept from an earlier view of the dataset (ReleaseLocks). The commit uses them, and does not create
  /// sidecars. Null on all ranks or on none.
  HeldLocks* held = nullptr;
  /// Accept files without a sidecar that look like damaged ones that were renamed or moved (RefuseRotten): lzy-copy has judged what it
  /// copied.
  bool origin_known = false;
  /// Make all parity again, with the present geometry, if the data are as committed (sets report.committed). If the data
  /// differ, if a program may be writing, or if a member was added, do nothing. Not with `touched`.
  bool parity_anew = false;
  /// Layer only, shared files: when the last MPI call of any rank that wrote the file had returned, by the clock of its node
  /// (nanoseconds since 1970; the same on every rank). If the mtime of the file is not later, the bytes that ranks captured of
  /// incomplete blocks are compared with the file. 0: they are not compared.
  std::int64_t written_until_ns = 0;
  /// Layer only, shared files: what earlier commits of this program found, the same on every rank. A commit that succeeds
  /// replaces it by what it found itself, and the earlier blocks that were not written again as a whole. May be null.
  Doubts* doubts = nullptr;
};
/// Makes or updates the sidecars. Collective over context.comm. Waits for locks up to options.timeout_seconds, then returns
/// kBusy. After an error the old generation still counts, unless publishing had begun. report.state is kIntact, or kDamaged
/// (exit code 1) if damaged blocks stopped the commit. With `touched`, untouched blocks of touched rows are compared with
/// their leaves. A block that differs keeps its old leaf and is listed in report.damage. If it cannot be rebuilt,
/// report.state is kUnrepairable (exit code 2).
DatasetReport Protect(const Context& context, const DatasetRef& dataset, const ProtectRequest& request);

}  // namespace lzy
