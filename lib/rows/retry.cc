#include "rows/retry.h"

#include <fmt/format.h>

#include "comm/records.h"

namespace lzy {
namespace {

// The error for rows whose sums were wrong kMostExchanges times.
Status StaysWrong(std::span<const RowRun> runs) {
  const std::uint64_t rows = CountRows(runs);
  return {Code::kMpi, fmt::format("the sums of {} row{} (group {}, unit row {}, slice {}{}) arrived damaged {} times: messages "
                                  "between the processes are not reliable; check memory and network",
                                  rows, rows == 1 ? "" : "s", runs[0].group, runs[0].unit_row, runs[0].first_slice,
                                  rows == 1 ? "" : ", ...", kMostExchanges)};
}

}  // namespace

// One reduction tells all ranks whether there is anything to gather. The largest number stands for a rank that failed.
// The lists come from other ranks, so they are checked against `runs` before they are used.
Result<std::vector<RowRun>> GatherWrong(Communicator& comm, std::span<const RowRun> runs, const WrongRows& mine, bool failed) {
  LZY_ASSIGN_OR_RETURN(const std::uint64_t most, comm.AllReduceMax(failed ? UINT64_MAX : mine.size()));
  std::vector<RowRun> again;
  if (most == 0 || most == UINT64_MAX) return again;
  const auto all = AllGatherRecords(comm, mine);
  const Status local = !all.ok() ? all.status() : NoThrow([&]() -> Status {
    WrongRows wrong;
    for (const WrongRows& theirs : *all) wrong.insert(theirs.begin(), theirs.end());
    for (const auto& [run, slice] : wrong) {
      const bool there = run < runs.size() && slice >= runs[run].first_slice && slice - runs[run].first_slice < runs[run].slices;
      if (!there) return {Code::kInternal, "a rank's list of rows is malformed"};
      RowRun one = runs[run];
      one.first_slice = slice;
      one.slices = 1;
      AppendRun(again, std::move(one));
    }
    return Status::Ok();
  });
  LZY_RETURN_IF_ERROR(Agree(comm, local));
  return again;
}

std::string AgainText(std::uint64_t rows) {
  return fmt::format("the sums of {} row{} arrived damaged and were computed again; check memory and network between the processes", rows,
                     rows == 1 ? "" : "s");
}

// The numbers in `wrong` refer to the runs of the latest attempt, `now`, not to those of the first attempt.
Status UntilProven(Communicator& comm, std::span<const RowRun> runs, std::uint64_t& rows_again, const ExchangeFn& exchange) {
  Status status;
  std::vector<RowRun> again;
  for (unsigned times = 1;; ++times) {
    const std::span<const RowRun> now = times == 1 ? runs : std::span<const RowRun>(again);
    WrongRows wrong;
    const Status done = exchange(now, wrong);
    if (status.ok()) status = done;
    LZY_ASSIGN_OR_RETURN(std::vector<RowRun> all_wrong, GatherWrong(comm, now, wrong, !status.ok()));
    // A rank that failed must take part in GatherWrong before it returns, because the others would wait for it.
    if (all_wrong.empty()) return status;
    if (times == kMostExchanges) return StaysWrong(all_wrong);
    rows_again += CountRows(all_wrong);
    again = std::move(all_wrong);
  }
}

}  // namespace lzy
