#pragma once
// The one retry loop for sums among ranks. Sums that arrive wrong are made again from their sources, until all of them
// are proven (rows/xor_checks.h; docs/design/overview.md §3, "Proof of sums"). Used by the row pipeline (rows/rows.cc) and by
// encode/encode_captured.cc.
//
// All functions that take a Communicator are collective over it. All ranks make the same number of attempts, since
// they agree on the list of wrong rows after each.

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

/// Rows of which some rank got a wrong sum: number in a list of runs, and slice.
using WrongRows = std::set<std::pair<std::uint64_t, std::uint32_t>>;
/// Times that sums are made, the first time included, before wrong ones are an error.
inline constexpr unsigned kMostExchanges = 4;
/// Unites what the ranks got wrong, as runs to be made again. `mine`: rows of `runs`. Empty if there are none, or if
/// some rank has `failed`: that rank contributed no right shares, so trying again would not help. If nothing is wrong,
/// this costs one reduction. Collective; the same result on all ranks.
Result<std::vector<RowRun>> GatherWrong(Communicator& comm, std::span<const RowRun> runs, const WrongRows& mine, bool failed);
/// The warning for a report, if `rows` sums had to be made again.
std::string AgainText(std::uint64_t rows);
/// Exchanges some rows, delivers those that are proven, and adds the others that this rank got to `wrong`. A failure
/// may be one rank's alone, but every rank must take part in all collective calls.
using ExchangeFn = std::function<Status(std::span<const RowRun> runs, WrongRows& wrong)>;
/// Calls `exchange` with all rows, then with those that some rank got wrong, until there are none. kMpi if some are
/// wrong kMostExchanges times. Adds the number of rows that were made again to `rows_again`. Collective. A failure of
/// `exchange` is returned on its own rank only, so the caller must Agree.
Status UntilProven(Communicator& comm, std::span<const RowRun> runs, std::uint64_t& rows_again, const ExchangeFn& exchange);

}  // namespace lzy
