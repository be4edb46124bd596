#pragma once
// Where the content of lost files is now: they were renamed, moved or copied, perhaps without their sidecars. For the advice of reports.
//
// Local to one process; nothing is written. Only files that are lost, or that were replaced, cost anything: then the files of the committed
// size are read that are beside the sidecar or in reach.

#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "merkle/leaf_key.h"
#include "request/report.h"

namespace lzy {

/// The data files that are missing, or that the file ends before, and that were not made again.
std::set<std::string> LostFiles(const DatasetReport& report);

/// Lines that replace the next command for a dataset that is lost beyond repair, if its content is elsewhere: a salvage would give a part
/// of what is there already. Another file has the content of a shared file, or of a member; or members of a set are in another directory,
/// with their sidecars. If a set is split over two directories, the reports on both parts have the same command. `repeated`: see ReportWords.
/// Nothing in other cases. `key`: of sealed datasets.
std::string HeldElsewhereText(FileSystem& fs, const DatasetReport& report, const std::string& repeated, const LeafKey* key);

/// A line for a shared file that differs from its commit and has another inode, so it was replaced: the file that has the committed
/// content now, or what is left of it. Also for a lost file of which nobody has the content, but a damaged file in reach may be what is
/// left. Nothing if there is none. `repeated`: see ReportWords.
std::string ReplacedText(FileSystem& fs, const DatasetReport& report, const std::string& repeated, const LeafKey* key);

/// Files beside `path` that have the content which its sidecar committed, while a sidecar of their own names says something else. They
/// were judged by that sidecar, if it had another name before, or its file was lost. Nothing protects them now. At most 8.
std::vector<std::string> LeftBareBy(FileSystem& fs, const std::string& path, const LeafKey* key);

}  // namespace lzy
