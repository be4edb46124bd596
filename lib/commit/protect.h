#pragma once
// Making or refreshing the sidecars of a dataset: a commit (docs/design/commit.md "A commit").
//
// Two kinds of callers. lzy-protect (and the C API) knows nothing of what was written, so everything is examined
// first. The layer says what was touched, whose intents are its own, and what it captured. Both get the same commit.
// Invariant: whatever breaks off, one whole generation counts, and what differs from it is named by an intent.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "dataset/lock.h"
#include "names/resolve.h"
#include "request/context.h"
#include "request/report.h"
#include "request/touched.h"
#include "sidecar/sidecar_format.h"

namespace lzy {

class Capture;

struct ProtectRequest {
  bool force = false;  ///< commit even blocks that are damaged (differ from their hash while the file's mtime is as committed)
  /// Hooks: what was written since the last commit, by rank of a set's member (0 for a shared file); members without an
  /// entry were not touched. Empty optional (lzy-protect): unknown, so the stamp and the hashes decide.
  std::optional<std::map<std::uint32_t, IntervalSet>> touched;
  /// Hooks: the intents that this program's processes set (EpochStart::intent), the same on every rank. One that is
  /// none of these is another writer's, who writes now or never came to commit: all of that file is committed then,
  /// and the intent stays set (DatasetReport::kept_intents). Empty optional: no matter whose they are, a commit ends
  /// all intents.
  std::optional<std::vector<Intent>> own_intents;
  /// Hooks: what this rank captured of this epoch's writes, all of which it was told (Take or Miss). Of a set: of its
  /// member, made for a geometry without parity. Of a shared file: if it is null on any rank, all is read back. So it
  /// is, too, where somebody else is met under the lock: another writer's intent, or any commit other than the one that
  /// the epoch departs from (all zero: none was made yet). Of a shared file, only rank 0 compares these two. Of a set, each
  /// rank does so for its member.
  Capture* capture = nullptr;
  /// Hooks: whether this process has begun to write the file (its member) since `touched` was taken. Then blocks may have
  /// changed that are not in it, and would look like rot: kBusy. Asked when all is read, but not if the whole file is
  /// touched. May be empty.
  std::function<bool()> written_since;
  Uuid departs_from{};
  std::uint64_t departs_from_generation = 0;
  /// Commit only if owner, mode or ACL of a file are others than those of the last commit, and only that: nothing is done
  /// if a stamp differs or a member was added. Data are read only if the sidecar is made anew. Without `touched`.
  bool only_access = false;
  /// Locks that this rank has from an opening of the dataset before (ReleaseLocks): the commit goes on with them. Null on all ranks or on
  /// none.
  HeldLocks* held = nullptr;
  /// Make all parity again, with the geometry that there is, of a dataset whose data are as committed; report.committed. If
  /// they are not, if a program may be writing them, or if a member was added, nothing is done. Without `touched`.
  bool parity_anew = false;
};
/// Makes or refreshes the sidecars. Collective over context.comm. Waits for locks up to options.timeout_seconds, then
/// kBusy. After an error, the generation of before still counts, unless publishing had begun. report.state: kIntact;
/// kDamaged (exit 1) when damaged blocks were found that are not to be blessed. With `touched`, untouched blocks of
/// touched rows are checked first; one that does not match keeps its old leaf and is in report.damage; report.state is
/// kUnrepairable (exit 2) where it cannot be had again.
DatasetReport Protect(const Context& context, const DatasetRef& dataset, const ProtectRequest& request);

}  // namespace lzy
