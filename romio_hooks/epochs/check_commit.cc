#include "hooks/epochs/check_commit.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/printable.h"
#include "engine/engine.h"
#include "hooks/epochs/file_epoch.h"
#include "hooks/files/pointers.h"
#include "hooks/reports/messages.h"
#include "hooks/transfers/capturing.h"

namespace lzy::hooks {
namespace {

/// Marks `range` as touched, so that it is committed again.
void Touch(OpenFile& file, const Interval& range) {
  {
    const std::lock_guard lock(file.mutex);
    file.touched.Add(range);
  }
  MissRanges(file, {range});
  EnsureEpoch(file);
}

/// Writes the wrong bytes again that this rank still has, by a descriptor of our own, in an epoch of its own, so that an
/// intent is set. Blocks that the commit read wrongly belong to this epoch, too. Returns whether there were any.
Result<bool> WriteHeld(OpenFile& file, const Capture& capture, const WrittenCheck& found) {
  std::unique_ptr<File> out;
  const auto write = [&](std::uint64_t offset, ByteSpan bytes) -> Status {
    Touch(file, {offset, offset + bytes.size()});
    if (!out) {
      LZY_ASSIGN_OR_RETURN(out, PosixFileSystem().Open(file.path, OpenMode::kReadWrite));
    }
    return out->WriteAt(offset, bytes);
  };
  for (const std::uint64_t block : found.wrong) {
    const ByteSpan held = capture.Held(block);
    if (held.empty()) continue;
    LZY_RETURN_IF_ERROR(write(block * capture.block_size(), held));
  }
  for (const Interval& part : found.wrong_parts) {
    const ByteSpan copy = capture.CopyOf(part);
    if (!copy.empty()) LZY_RETURN_IF_ERROR(write(part.begin, copy));
  }
  for (const Interval& block : found.untrue) Touch(file, block);
  return out != nullptr || !found.untrue.empty();
}

/// True if nobody has written since the commit: no other program, and no thread of this one. Local; the ranks compare their
/// results. If false, the bytes that this rank has may be older than those in the file.
bool IsQuiet(const Context& context, OpenFile& file, const Written& written) {
  if (SeveralThreads() || !IsUntouchedSince(context, written)) return false;
  const std::lock_guard lock(file.mutex);
  return file.touched.empty() && file.writes_under_way == 0;
}

/// Writes wrong blocks again if a rank still has their bytes, and commits them. True if any rank did; then `written`
/// describes the new commit. Collective.
Result<bool> WriteAgain(const Context& context, const Rewriting& rewriting, const WrittenCheck& found, Written& written) {
  LZY_ASSIGN_OR_RETURN(const std::uint64_t busy, context.comm.AllReduceMax(!IsQuiet(context, rewriting.file, written)));
  if (busy != 0) return false;
  bool mine = false;
  Status status = AgreeOn(context.comm, [&]() -> Status {
    if (written.capture == nullptr) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(mine, WriteHeld(rewriting.file, *written.capture, found));
    return Status::Ok();
  });
  const auto any = context.comm.AllReduceMax(mine);
  if (status.ok()) status = any.status();
  if (status.ok() && *any == 0) return false;
  if (status.ok()) {
    const auto committed = rewriting.commit();
    status = committed.status();
    if (committed.ok()) written.generation = *committed;
  }
  if (!status.ok()) Untake(rewriting.file);
  LZY_RETURN_IF_ERROR(status);
  return true;
}

const char* TextOf(Uncompared why) {
  switch (why) {
    case Uncompared::kUnseen:
      return "it was written by a call, a view or a buffer that lzy does not follow, such as a shared file pointer or memory of a device";
    case Uncompared::kMemory:
      return "option memory has no room for what is known of it";
    case Uncompared::kOverlap:
      return "several ranks, or writes that were under way together, wrote the same bytes, and MPI does not define the result";
    case Uncompared::kCut:
      return "the file ended before it";
    default:
      return "something else than the MPI calls of this program may have written the file, or a write failed";
  }
}

/// Reports once for each reason which bytes were not compared. They were read back, as without verify-writes.
void ReportUncompared(const Context& context, const std::string& path, const UncomparedBytes& bytes) {
  for (std::size_t i = 0; i < kUncomparedReasons; ++i) {
    const auto why = static_cast<Uncompared>(i);
    if (bytes[why] == 0) continue;
    SayOnce(context.options, Options::Log::kWarn, path, TextOf(why),
            fmt::format("{}: verify-writes: {} could not be compared with what the program wrote: {}", path, FormatSize(bytes[why]),
                        TextOf(why)));
  }
}

Status CheckAndRepair(const Context& context, Written written, const Rewriting& rewriting) {
  auto checked = CheckWritten(context, written);
  rewriting.tell(checked.ok() ? checked->uncompared : UncomparedBytes());
  LZY_RETURN_IF_ERROR(checked.status());
  WrittenCheck found = *std::move(checked);
  // The layer never sees what the program writes without MPI-IO.
  if (context.comm.rank() == 0 && !rewriting.file.plain) ReportUncompared(context, written.dataset.path, found.uncompared);
  if (found.faults == 0 && found.untrue_leaves == 0) return Status::Ok();
  const std::uint64_t faults = found.faults, untrue = found.untrue_leaves;
  LZY_ASSIGN_OR_RETURN(const bool rewritten, WriteAgain(context, rewriting, found, written));
  if (rewritten) {
    LZY_ASSIGN_OR_RETURN(found, CheckWritten(context, written));
  }
  if (found.untrue_leaves > 0) {
    // Leaf and parity agree, so a repair would replace right bytes. Until the next commit, the file is marked as at risk,
    // not damaged.
    if (context.comm.rank() == 0) (void)BeginEpoch(context.fs, context.options, written.dataset.path, "");
    return {Code::kWriteFailed, fmt::format("{}: {} blocks are on the device as they were written, and the commit has read them wrongly ({} others "
                                            "are not as they were written); look at it, then commit it: lzy-protect {}", written.dataset.path,
                                            found.untrue_leaves, found.faults, ShellQuote(written.dataset.path))};
  }
  if (untrue > 0 && context.comm.rank() == 0) {
    Say(context.options, Options::Log::kWarn,
        fmt::format("{}: the commit has read {} blocks wrongly that are on the device as they were written; they were committed again",
                    written.dataset.path, untrue));
  }
  if (faults == 0) return Status::Ok();
  // A write to a wrong place has destroyed what was there, so the whole file is examined.
  VerifyRequest repair;
  repair.from_disk = repair.repair = true;
  const DatasetReport report = Verify(context, written.dataset, repair);
  LZY_ASSIGN_OR_RETURN(found, CheckWritten(context, written));
  // Blocks that are at risk or edited belong to another writer.
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

Status CheckCommit(const Context& context, const Written& written, const Rewriting& rewriting) {
  const Status status = CheckAndRepair(context, written, rewriting);
  if (!status.ok() && context.comm.rank() == 0) Say(context.options, Options::Log::kWarn, status.message());
  return status;
}

}  // namespace lzy::hooks
