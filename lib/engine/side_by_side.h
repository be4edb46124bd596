#pragma once
// Handles many small datasets: one thread of one rank handles each of them, as many at once as there are cores. If all ranks
// handled them one after the other, each would take several collective calls.
//
// Tools call HandleSmall for slices of the datasets of a PATH, and handle all other datasets one by one
// (tools/common/tool.cc).

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "names/resolve.h"
#include "request/context.h"
#include "request/report.h"

namespace lzy {

/// One thread handles shared files up to this size (bytes). Larger ones gain from several threads.
constexpr std::uint64_t kSmallFile = 1 << 20;

using EngineCall = std::function<DatasetReport(const Context&, const DatasetRef&)>;

/// What came of one dataset.
struct SmallReport {
  std::optional<DatasetReport> report;  ///< nullopt: the dataset is not small
  /// It must be handled again, alone: another file was handled at the same moment, and may have got its sidecar. Of `report`, only the
  /// repairs count.
  bool again = false;
};

/// Calls `call` for each of `datasets` that is a shared file of at most kSmallFile bytes, that all ranks see alike, and that
/// has no hard link among the others. Returns their reports by the index of the dataset, the same on all ranks. The caller must
/// handle datasets without a report, and those with `again`. Collective.
///
/// `call` gets a Context of one rank and one thread; several threads call it at once. `finished` is called after each
/// dataset of this rank with its size, by one thread at a time; may be empty. After context.stop returns true, `call` is not
/// called any more, and small datasets that are left get a report with kInterrupted.
Result<std::vector<SmallReport>> HandleSmall(const Context& context, std::span<const DatasetRef> datasets, const EngineCall& call,
                                             const std::function<void(std::uint64_t bytes)>& finished);

}  // namespace lzy
