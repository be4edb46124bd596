#include "hooks/epochs/check_commit.h"

#include <fmt/format.h>

#include "engine/engine.h"
#include "hooks/reports/messages.h"

namespace lzy::hooks {
namespace {

Status CheckAndMend(const Context& context, Written written, const Rewrite& rewrite) {
  LZY_ASSIGN_OR_RETURN(WrittenCheck found, CheckWritten(context, written));
  if (found.faults == 0) return Status::Ok();
  const std::uint64_t faults = found.faults;
  LZY_ASSIGN_OR_RETURN(const bool rewritten, rewrite(found, written));
  if (rewritten) {
    LZY_ASSIGN_OR_RETURN(found, CheckWritten(context, written));
  }
  // Whatever put bytes where they do not belong has spoilt what was there: all of the file is looked at.
  VerifyRequest repair;
  repair.from_disk = repair.repair = true;
  const DatasetReport report = Verify(context, written.dataset, repair);
  LZY_ASSIGN_OR_RETURN(found, CheckWritten(context, written));
  // At risk or edited is what somebody else has to do with.
  const bool damaged = report.state == DatasetState::kDamaged || report.state == DatasetState::kUnrepairable;
  const bool whole = report.status.ok() && !damaged;
  const std::string& path = written.dataset.path;
  if (found.faults > 0 || !whole) {
    return {Code::kWriteFailed,
            fmt::format("{}: {} blocks on the device are not what was written, and {} could not be repaired; write the file again, "
                        "and look for faults of this MPI library, kernel and device",
                        path, faults, found.faults > 0 ? found.faults : faults)};
  }
  if (context.comm.rank() == 0) {
    Say(context.options, Options::Log::kWarn,
        fmt::format("{}: {} blocks on the device were not what was written; {}", path, faults,
                    rewritten ? "they were written again" : "they were rebuilt from parity"));
  }
  return Status::Ok();
}

}  // namespace

Status CheckCommit(const Context& context, const Written& written, const Rewrite& rewrite) {
  const Status status = CheckAndMend(context, written, rewrite);
  if (!status.ok() && context.comm.rank() == 0) Say(context.options, Options::Log::kWarn, status.message());
  return status;
}

}  // namespace lzy::hooks
