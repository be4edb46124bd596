#include "rows/retry.h"

#include <fmt/format.h>

#include "comm/records.h"

namespace lzy {

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

namespace {

// For rows whose sums were wrong that often.
Status StaysWrong(std::span<const RowRun> runs) {
  std::uint64_t rows = 0;
  for (const RowRun& run : runs) rows += run.slices;
  return {Code::kMpi, fmt::format("what processes added up of {} row{} (group {}, unit row {}, slice {}{}) arrived wrong {} times: the "
                                  "messages between them cannot be relied on",
                                  rows, rows == 1 ? "" : "s", runs[0].group, runs[0].unit_row, runs[0].first_slice,
                                  rows == 1 ? "" : ", ...", kMostExchanges)};
}

}  // namespace

std::string AgainText(std::uint64_t rows) {
  return fmt::format("what processes added up of {} row{} arrived wrong, and was made again: memory or network between them errs", rows,
                     rows == 1 ? "" : "s");
}

Status UntilProven(Communicator& comm, std::span<const RowRun> runs, std::uint64_t& rows_again, const ExchangeFn& exchange) {
  Status status;
  std::vector<RowRun> again;
  for (unsigned times = 1;; ++times) {
    const std::span<const RowRun> now = times == 1 ? runs : std::span<const RowRun>(again);
    WrongRows wrong;
    const Status done = exchange(now, wrong);
    if (status.ok()) status = done;
    LZY_ASSIGN_OR_RETURN(std::vector<RowRun> all_wrong, GatherWrong(comm, now, wrong, !status.ok()));
    if (all_wrong.empty()) return status;  // and not before: the others would wait
    if (times == kMostExchanges) return StaysWrong(all_wrong);
    for (const RowRun& run : all_wrong) rows_again += run.slices;
    again = std::move(all_wrong);
  }
}

}  // namespace lzy
