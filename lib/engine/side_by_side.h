#pragma once
// Small datasets by the thousand: each of them is handled by one thread of one rank, as many at a time as there are
// cores. One dataset after the other, by all ranks together, would take several collective calls for each of them.
//
// Tools call it for slices of what the user named, and handle all others one by one (tools/common/tool.cc).

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "names/resolve.h"
#include "request/context.h"
#include "request/report.h"

namespace lzy {

/// Shared files up to this size (bytes) are handled by one thread. Larger ones gain from several.
constexpr std::uint64_t kSmallFile = 1 << 20;

using EngineCall = std::function<DatasetReport(const Context&, const DatasetRef&)>;

/// Makes `call` for each of `datasets` that is a shared file of at most kSmallFile bytes, that all ranks see alike, and that no other
/// one of them is a hard link to.
/// Returns the reports of these, by the index of the dataset, the same on all ranks; nothing for the others, which are
/// left to the caller. `call` gets a Context of one rank and one thread, and several threads make such calls at once.
/// `finished`: called after each dataset of this rank with its bytes, by one thread at a time; may be empty. Once
/// context.stop returns true, no further call is made, and the reports of what is left have kInterrupted. Collective.
Result<std::vector<std::optional<DatasetReport>>> HandleSmall(const Context& context, std::span<const DatasetRef> datasets,
                                                              const EngineCall& call,
                                                              const std::function<void(std::uint64_t bytes)>& finished);

}  // namespace lzy
