#pragma once
// Names of what damage lies in (room `objects`), for reports of tools.

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "request/report.h"

namespace lzy {

/// Fills in `objects` of all damage of data, in files of formats that are known. A file is looked at by a rank that sees it.
/// Returns sentences about what is missing. Collective; the report must be the same on all ranks, and is so afterwards.
std::vector<std::string> NameObjects(Communicator& comm, DatasetReport& report, const std::function<bool()>& stop);

}  // namespace lzy
