#pragma once
// The collective algorithms: protect, verify, repair, restore, info; and the epoch calls the interposition layer needs.
//
// Every function here that takes a Context is collective over its communicator: all ranks call it with the same
// arguments (DatasetRef::members excepted) and get the same report. None throws, prints or exits.

#include <cstdint>
#include <vector>

#include "commit/epoch.h"
#include "commit/protect.h"
#include "dataset/placement.h"
#include "names/resolve.h"
#include "request/context.h"
#include "request/report.h"

namespace lzy {

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

struct UnprotectRequest {
  bool force = false;    ///< even what mends missing data, or what a program may be writing with
  bool dry_run = false;
};
/// Removes the sidecars of a dataset, and their parts in device directories; never data. report.removed: which files (dry_run: they
/// would be); report.planned, unless it was refused, which report.state and report.damage say why. kBusy: somebody commits.
DatasetReport Unprotect(const Context& context, const DatasetRef& dataset, const UnprotectRequest& request);

/// Metadata only: geometry, state as far as stamps and intents tell, map of groups. Changes nothing.
DatasetReport Info(const Context& context, const DatasetRef& dataset);

}  // namespace lzy
