#pragma once
// What the catalogue knows as protected, and what is not protected any more. For lzy-scrub, lzy-verify and lzy-status.
//
// A file that was deleted together with its sidecar, or whose sidecar was deleted, leaves nothing in the file system that
// could tell of it. Only the catalogue knows. Such a loss is an event that lasts until the dataset is protected again or
// somebody acknowledges it (lzy-status --forget). Not a loss: what a program deleted with MPI_File_delete, what
// lzy-protect --remove and lzy-info --prune took away (request/deletion_record.h), and what was moved within the PATHs.

#include <string>
#include <vector>

#include "common/tool.h"

namespace lzy {

/// Of files that nothing protects (docs/reference/tools.md "Exit codes").
inline constexpr int kExitNotProtected = 4;

/// Drops the files of the catalogue in use, unless a PATH names them: they change all the time, so they would always be stale.
/// Rank 0 knows which catalogue that is. Collective.
Status DropCatalogFiles(ToolRun& run, std::vector<DatasetRef>& datasets);

/// Looks for losses below the PATHs that are directories, and notes what is new in the catalogue. `found`: the datasets
/// that the PATHs stand for. Does nothing without a catalogue. Rank 0 only; it judges by the files that it sees.
void FindLosses(ToolRun& run, const std::vector<DatasetRef>& found);
/// Reports all losses below these PATHs that last, also with --quiet, and counts them (exit code 4). Rank 0 only.
void ReportLosses(ToolRun& run);
/// Ends the entries of files that were protected alone, and have the sidecars of members of this set now. Rank 0 only.
void ForgetMembersOf(ToolRun& run, const DatasetReport& report);
/// Ends the losses at the PATHs: each is that of a dataset, a directory, or a pattern with '*', '?' or '[...]' that match
/// within a name. A PATH without any is an error of the run. On all ranks; rank 0 does the work.
void AcknowledgeLosses(ToolRun& run);

/// What happened, in a few words. `what`: of the event.
std::string LossText(const std::string& what);
/// The commands to type next, for the dataset `path`: lines.
std::string LossNextText(const std::string& what, const std::string& path, const Options& options);

}  // namespace lzy
