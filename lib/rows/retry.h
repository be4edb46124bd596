#pragma once
// Sums among ranks that arrived wrong are made again, from their sources, until all of them are proven (rows/xor_checks.h).

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "rows/plan_cache.h"

namespace lzy {

/// Rows some rank has got a wrong sum of: number in a list of runs, and slice.
using WrongRows = std::set<std::pair<std::uint64_t, std::uint32_t>>;
/// Times that wrong sums are made again before it is an error.
inline constexpr unsigned kMostExchanges = 4;
/// All ranks' together, as runs to be done again; `mine` are of `runs`. None where some rank has `failed`: its sums are wrong since it
/// brought no right ones. Collective.
Result<std::vector<RowRun>> GatherWrong(Communicator& comm, std::span<const RowRun> runs, const WrongRows& mine, bool failed);
/// For whom it concerns, where there were such.
std::string AgainText(std::uint64_t rows);
/// Exchanges some rows, and says which of the sums that this rank got are wrong. A failure may be one rank's alone.
using ExchangeFn = std::function<Status(std::span<const RowRun> runs, WrongRows& wrong)>;
/// Calls `exchange` with all rows, then with those that some rank got a wrong sum of, until there are none, or too often (kMpi). Adds the
/// rows of the further times to `rows_again`. Collective; a failure of `exchange` is this rank's to be agreed on.
Status UntilProven(Communicator& comm, std::span<const RowRun> runs, std::uint64_t& rows_again, const ExchangeFn& exchange);

}  // namespace lzy
