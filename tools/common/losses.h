#pragma once
// Finds datasets that the catalogue knows, but that are not protected any more. For lzy-scrub, lzy-verify and lzy-status.
//
// If a file was deleted together with its sidecar, or only its sidecar was deleted, the file system has no trace of it.
// Only the catalogue knows it. Such a loss is an event that lasts until the dataset is protected again or the user
// acknowledges it (lzy-status --forget). These are no losses: files that a program deleted with MPI_File_delete, deletions
// by lzy-protect --remove and lzy-info --prune (request/deletion_record.h), and files that were moved within the PATHs.

#include <string>
#include <vector>

#include "common/tool.h"

namespace lzy {

/// Exit code for files without protection (docs/reference/tools.md "Exit codes").
inline constexpr int kExitNotProtected = 4;

/// Drops the files of the catalogue in use, unless a PATH names them: they change all the time, so they would always be stale.
/// Rank 0 knows which catalogue that is. Collective.
Status DropCatalogFiles(ToolRun& run, std::vector<DatasetRef>& datasets);

/// Searches for losses below the PATHs that are directories, and records new ones in the catalogue. `found`: the datasets
/// of the PATHs. Does nothing without a catalogue. Rank 0 only; it judges by the files that it sees.
void FindLosses(ToolRun& run, const std::vector<DatasetRef>& found);
/// Reports all losses below these PATHs that last, also with --quiet, and counts them (exit code 4). Rank 0 only.
void ReportLosses(ToolRun& run);
/// Ends the losses at the PATHs. Each PATH is a dataset, a directory, or a pattern with '*', '?' or '[...]', which match
/// within a name. A PATH without a loss is an error of the run. Call it on all ranks; rank 0 does the work.
void AcknowledgeLosses(ToolRun& run);

/// A short description of a loss. `what`: the event's text.
std::string LossText(const std::string& what);
/// The commands to type next, for the dataset `path`: lines.
std::string LossNextText(const std::string& what, const std::string& path, const Options& options);

}  // namespace lzy
