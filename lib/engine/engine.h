#pragma once
// The interface of the engine: protect, verify, repair, restore, info, copies (copy/), comparisons (diff/), and the epoch
// calls of the layer. Tools, hooks and the C API include this header.
//
// Every function that takes a Context is collective over its communicator. All ranks call it with the same arguments, except
// DatasetRef::members, and get the same report. No function throws, prints or exits. Errors are in report.status. Findings
// are in report.state and report.damage, also after an error as far as they are known.

#include <cstdint>
#include <optional>
#include <vector>

#include "commit/epoch.h"
#include "commit/protect.h"
#include "copy/copy_tree.h"
#include "copy/set.h"
#include "dataset/placement.h"
#include "diff/diff.h"
#include "judge/examine.h"
#include "names/resolve.h"
#include "request/context.h"
#include "request/report.h"

namespace lzy {

/// What to check, and whether to repair. Without `repair`, no lock is taken, and a commit may happen at the same time.
struct VerifyRequest {
  bool from_disk = false;  ///< read past the page cache
  bool repair = false;     ///< repair damage in place; never creates missing files
  bool force = false;      ///< with repair: also set stale and at-risk blocks back to the committed content
  /// Without repair: read only some rows, and end early if context.stop returns true. report.portion gets the rows that were
  /// read.
  std::optional<PortionRequest> portion = {};
  /// The share (0 to 1) of the rows with right data to encode again and compare with their parity (encode/check_parity.h).
  /// With repair, a commit makes differing parity again, if nothing else is wrong.
  double encode = 0;
  /// If a program is writing the dataset, read nothing, and set report.left_for_later.
  bool leave_written = false;
  /// If everything that was read is intact, record owner, mode and ACL of files where they changed since the last commit. A
  /// repair does so in any case.
  bool record_access = false;
};
/// Reads and judges a dataset. Writes nothing unless `repair` or `record_access` is set.
DatasetReport Verify(const Context& context, const DatasetRef& dataset, const VerifyRequest& request);

/// What to restore.
struct RestoreRequest {
  std::vector<std::uint32_t> devices = {};  ///< devices to treat as lost, besides missing ones
  bool dry_run = false;
  bool salvage = false;  ///< if more is lost than parity covers, write what can be rebuilt
  bool force = false;
  /// A copy of the data file, or the pattern of copies of a set's members. Blocks that parity cannot rebuild are taken from
  /// it if they are as committed (repair/replica.h). Empty: none.
  std::string replica = {};
  /// Sets: which process makes members that no process sees.
  Placing placing = Placing::kApart;
  /// Sets: which absent members are lost, although they may be on other nodes. If others may be on other nodes, nothing of
  /// the set is written (report.not_visible). Restore always sets `replaced`.
  LostNodes lost = {};
};
/// Makes lost files and sidecars again, and repairs damaged blocks. If anything is beyond repair, writes nothing unless
/// `salvage` is set: report.state is kUnrepairable, or report.status is kBeyondRepair if only `devices` or `force` ask for
/// more than parity can rebuild.
DatasetReport Restore(const Context& context, const DatasetRef& dataset, const RestoreRequest& request);

/// What Unprotect may remove. It refuses if data could not be repaired without the sidecars.
struct UnprotectRequest {
  bool force = false;    ///< also remove sidecars that can rebuild missing data, or that a program may be using
  bool dry_run = false;
};
/// Removes the sidecars of a dataset and their parts in device directories; never data. report.removed gets the files
/// (dry_run: those that would be removed). report.planned is true unless it refused; then report.state and report.damage say
/// why. kBusy: another process commits.
DatasetReport Unprotect(const Context& context, const DatasetRef& dataset, const UnprotectRequest& request);

/// Describes a dataset by its metadata: geometry, state as far as stamps and intents show it, map of groups. Changes
/// nothing.
DatasetReport Info(const Context& context, const DatasetRef& dataset);

}  // namespace lzy
