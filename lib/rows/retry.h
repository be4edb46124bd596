#pragma once
// The retry loop for sums among ranks. Sums that arrive wrong are made again from their sources, until all of them are
// proven (rows/xor_checks.h; docs/design/overview.md §3, "Proof of sums"). Used by the row pipeline (rows/rows.cc) and by
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

/// Rows of which some rank got a wrong sum: number of the run in a list of runs, and slice.
using WrongRows = std::set<std::pair<std::uint64_t, std::uint32_t>>;
/// How often sums are made, including the first time, before a wrong sum is an error.
inline constexpr unsigned kMostExchanges = 4;
/// Unites the wrong rows of all ranks, as runs to be made again. `mine`: wrong rows of `runs` on this rank. Empty if there
/// are none, or if some rank has `failed`: that rank contributed no right shares, so trying again would not help. If
/// nothing is wrong, this costs one reduction. Collective; the same result on all ranks.
Result<std::vector<RowRun>> GatherWrong(Communicator& comm, std::span<const RowRun> runs, const WrongRows& mine, bool failed);
/// The warning for a report, if `rows` sums had to be made again.
std::string AgainText(std::uint64_t rows);
/// Exchanges some rows, delivers proven ones, and adds rows that arrived wrong at this rank to `wrong`. A failure may
/// affect one rank only, but every rank must take part in all collective calls.
using ExchangeFn = std::function<Status(std::span<const RowRun> runs, WrongRows& wrong)>;
/// Calls `exchange` with all rows, then with the rows that arrived wrong at any rank, until there are none. Returns kMpi if
/// rows are wrong kMostExchanges times. Adds the number of rows that were made again to `rows_again`. Collective. A failure
/// of `exchange` is returned on its own rank only, so the caller must Agree.
Status UntilProven(Communicator& comm, std::span<const RowRun> runs, std::uint64_t& rows_again, const ExchangeFn& exchange);

}  // namespace lzy
