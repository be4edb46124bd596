#pragma once
// Finds the names of damaged objects, for reports of tools and of the C API. Makes and removes the indexes of datasets.

#include <string>
#include <vector>

#include "base/file.h"
#include "names/resolve.h"
#include "request/context.h"
#include "request/report.h"

namespace lzy {

/// Fills in `objects` of all data damage in files of known formats. Each rank examines the files that it sees. `program`:
/// the path of lzy-objects-helper; empty: it is not installed. Returns sentences about missing names. Collective; the
/// report must be the same on all ranks, and is the same afterwards.
std::vector<std::string> NameObjects(const Context& context, const std::string& program, DatasetReport& report);

/// Stores the index of objects of each file of a committed dataset. Without `anew`, replaces only indexes of older commits.
/// Returns sentences about indexes that could not be stored. Collective.
std::vector<std::string> IndexObjects(const Context& context, const std::string& program, const DatasetRef& dataset,
                                      const DatasetReport& report, bool anew);

/// Removes the indexes of the sidecars in report.removed, and adds them to that list. Local.
void RemoveIndexes(FileSystem& fs, DatasetReport& report);

}  // namespace lzy
