#pragma once
// Names of what damage lies in, for reports of tools and of the C API; and the indexes of datasets.

#include <string>
#include <vector>

#include "base/file.h"
#include "names/resolve.h"
#include "request/context.h"
#include "request/report.h"

namespace lzy {

/// Fills in `objects` of all damage of data, in files of formats that are known. A file is looked at by a rank that sees it.
/// `program`: the path of lzy-objects-helper; empty: it is not installed. Returns sentences about what is missing. Collective;
/// the report must be the same on all ranks, and is so afterwards.
std::vector<std::string> NameObjects(const Context& context, const std::string& program, DatasetReport& report);

/// Stores the index of objects of each file of a dataset that was committed. Without `anew`, only of files that have an
/// index, if it is of an older commit. Returns sentences about what could not be stored. Collective.
std::vector<std::string> IndexObjects(const Context& context, const std::string& program, const DatasetRef& dataset,
                                      const DatasetReport& report, bool anew);

/// Removes the indexes that belong to the sidecars in report.removed, and lists them there. Local.
void RemoveIndexes(FileSystem& fs, DatasetReport& report);

}  // namespace lzy
