#pragma once
// The facade of the engine: protect, verify, repair, restore, info, copies (copy/), comparisons (diff/), and the calls of
// epochs that the interposition layer needs. Tools, hooks and the C API include this header.
//
// Every function that takes a Context is collective over its communicator. All ranks call it with the same arguments,
// except DatasetRef::members, and get the same report. None throws, prints or exits. What went wrong is in
// report.status; what was found is in report.state and report.damage, also after an error as far as it is known.

#include <cstdint>
#include <optional>
#include <vector>

#include "commit/epoch.h"
#include "commit/protect.h"
#include "copy/set.h"
#include "copy/tree.h"
#include "dataset/placement.h"
#include "diff/diff.h"
#include "judge/examine.h"
#include "names/resolve.h"
#include "request/context.h"
#include "request/report.h"

namespace lzy {

/// What to check, and whether to repair. Without `repair`, no lock is taken, and a commit may go on at the same time.
struct VerifyRequest {
  bool from_disk = false;  ///< read everything past the page cache
  bool repair = false;     ///< mend what is damaged; never creates missing files
  bool force = false;      ///< with repair: stale and at-risk blocks go back to the committed content too
  /// Without repair: read only some rows, and end early if context.stop says so. report.portion: which were read.
  std::optional<PortionRequest> portion = {};
  /// Encode so much of the rows again whose data are right, and compare with their parity (encode/check_parity.h). 0: none.
  /// With repair, parity that differs is made again by a commit, if nothing else is wrong any more.
  double encode = 0;
  /// If a program is writing the dataset, read nothing: report.left_for_later.
  bool leave_written = false;
  /// If what was read is intact, record owner, mode and ACL of the files where they changed since the last commit. A repair
  /// does so, too.
  bool record_access = false;
};
/// Reads and judges everything. Writes nothing unless `repair` is set.
DatasetReport Verify(const Context& context, const DatasetRef& dataset, const VerifyRequest& request);

/// What to rebuild.
struct RestoreRequest {
  std::vector<std::uint32_t> devices = {};  ///< to be treated as lost, besides those found missing
  bool dry_run = false;
  bool salvage = false;  ///< with more losses than parity can mend: write what can be had nevertheless
  bool force = false;
  /// A copy of the data file, or the pattern of copies of a set's members. What parity cannot give back is taken from
  /// there if it is as committed (mend/replica.h). Empty: there is none.
  std::string replica = {};
  /// Sets: by which process members are made that no process sees.
  Placing placing = Placing::kApart;
  /// Sets: absent members that may be on other nodes are lost. The others keep all of the set from being written
  /// (report.not_visible). `replaced` is always set.
  LostNodes lost = {};
};
/// Makes lost files and sidecars again, and repairs damaged blocks. kBeyondRepair with nothing written if that is not
/// possible, unless `salvage` is set.
DatasetReport Restore(const Context& context, const DatasetRef& dataset, const RestoreRequest& request);

/// What Unprotect may remove. Data that could not be mended without the sidecars are why it refuses.
struct UnprotectRequest {
  bool force = false;    ///< even what mends missing data, or what a program may be writing with
  bool dry_run = false;
};
/// Removes the sidecars of a dataset, and their parts in device directories; never data. report.removed: which files
/// (dry_run: they would be); report.planned, unless it was refused, which report.state and report.damage say why.
/// kBusy: somebody commits.
DatasetReport Unprotect(const Context& context, const DatasetRef& dataset, const UnprotectRequest& request);

/// Metadata only: geometry, state as far as stamps and intents tell, map of groups. Changes nothing.
DatasetReport Info(const Context& context, const DatasetRef& dataset);

}  // namespace lzy
