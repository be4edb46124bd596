#pragma once
// Files that changed places: each has the content that the sidecar of the other one committed. For the advice of reports.
//
// Local to one process; nothing is written. Only files that differ from their sidecars cost anything: then other sidecars of their size
// are compared with them.

#include <string>

#include "base/file.h"
#include "merkle/leaf_key.h"
#include "request/report.h"

namespace lzy {

/// A line for a stale dataset, or one beyond repair, with files that have the content of others, or most of it: the names of both, and the
/// command that gives them their names back. It overwrites nothing. If two files changed places, the reports on both have the same command. A
/// file that has a name of these, and belongs to neither, gets another name. Empty if there are no such files, or if the content was only
/// copied. `key`: of sealed datasets.
std::string ChangedPlacesText(FileSystem& fs, const DatasetReport& report, const LeafKey* key);

}  // namespace lzy
