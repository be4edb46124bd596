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

/// Drops the files of the present catalogue, unless a PATH names them. lzy changes them in every run, so they would always
/// be stale. Only rank 0 knows the catalogue. Collective.
Status DropCatalogFiles(ToolRun& run, std::vector<DatasetRef>& datasets);

/// Searches the directories among the PATHs for losses, and records new ones in the catalogue. `found`: the datasets of the
/// PATHs. Without a catalogue it does nothing. Rank 0 only; it uses only the files that rank 0 sees.
void FindLosses(ToolRun& run, const std::vector<DatasetRef>& found);
/// Reports all losses below the PATHs that were not ended, also with --quiet, and counts them (exit code 4). Rank 0 only.
void ReportLosses(ToolRun& run);
/// Ends the entries of files that were protected alone, and have the sidecars of members of this set now. Rank 0 only.
void ForgetMembersOf(ToolRun& run, const DatasetReport& report);
/// Ends the losses at the PATHs. Each PATH is a dataset, a directory, or a pattern with '*', '?' or '[...]', which do not
/// match '/'. A PATH without a loss is an error of the run. Collective; rank 0 does the work.
void AcknowledgeLosses(ToolRun& run);

/// The option --catalog for the next command, with a space behind it; empty if the next command finds the same catalogue without.
std::string CatalogOption(const Options& options);
/// Describes a loss. `what`: the text of the event.
std::string LossText(const std::string& what);
/// The next commands for the dataset `path`: lines.
std::string LossNextText(const std::string& what, const std::string& path, const Options& options);

}  // namespace lzy
