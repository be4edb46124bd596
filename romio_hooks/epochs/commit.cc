#include "hooks/epochs/commit.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "comm/records.h"
#include "hooks/epochs/check_commit.h"
#include "hooks/files/pointers.h"
#include "hooks/files/registry.h"
#include "hooks/reports/commit_report.h"
#include "hooks/reports/messages.h"
#include "hooks/transfers/capturing.h"

namespace lzy::hooks {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// Prepares another attempt. Something changed the files while they were read, and the touched ranges may not cover the
/// change, so the whole files are committed. The capture is not used, because it knows only this program's writes.
void CoverAll(Attempt& attempt, int ranks) {
  const int files = attempt.dataset.kind == DatasetKind::kSet ? ranks : 1;
  for (int file = 0; file < files; ++file) (*attempt.request.touched)[static_cast<std::uint32_t>(file)].AddWhole();
  attempt.request.capture = nullptr;
}

}  // namespace

void NoteTimes(const OpenFile& file, DatasetReport& report) {
  const auto seconds = [](CommitTimes::Clock::duration time) { return std::chrono::duration<double>(time).count(); };
  const double since = seconds(CommitTimes::Clock::now() - file.times.begun);
  report.seconds_blocked = file.times.handed_over ? seconds(*file.times.handed_over) : since;
  report.seconds_background = file.times.handed_over ? since : 0;
}

DatasetReport ProtectPatiently(Communicator& comm, Attempt& attempt, const Status& prepared) {
  const auto start = Clock::now();
  const milliseconds patience = std::chrono::seconds(attempt.options.timeout_seconds);
  DatasetReport report;
  report.status = Agree(comm, prepared);
  milliseconds pause{10};
  while (report.status.ok()) {
    const Status done = NoThrow([&] {
      const Context context{.fs = PosixFileSystem(), .comm = comm, .options = attempt.options};
      report = Protect(context, attempt.dataset, attempt.request);
      return report.status;
    });
    report.status = Agree(comm, done);
    if (report.status.code() != Code::kBusy) break;
    // All ranks must give up at the same attempt, so the longest waiting time of any rank decides. (Clocks of ranks differ,
    // and in a set their options may.)
    const auto spent = std::chrono::duration_cast<milliseconds>(Clock::now() - start);
    const auto mine = static_cast<std::uint64_t>(std::max(patience - spent, milliseconds::zero()).count());
    const auto least = comm.AllReduceMax(~mine);
    if (!least.ok() || ~*least == 0) break;
    const milliseconds left{static_cast<milliseconds::rep>(~*least)};
    std::this_thread::sleep_for(std::min(pause, left));
    pause = std::min(pause * 2, milliseconds(500));
    // The time to wait for a lock is part of the timeout.
    attempt.options.timeout_seconds =
        static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::seconds>(left).count());
    const Status again = Agree(comm, NoThrow([&] { CoverAll(attempt, comm.size()); }));
    if (!again.ok()) break;
    report.status = Status::Ok();
  }
  return report;
}

namespace {

/// The union of all ranks' parts. The same on every rank, except `capture`, `lead.capture` and `written.capture`.
struct Union {
  bool data_safe = true;
  bool any_elsewhere = false;
  bool all_elsewhere = true;
  bool cover_all = false;
  bool met_others = false;
  bool capture_counts = true;
  bool in_background = false;  // a rank has handed its part over
  std::int64_t written_until_ns = 0;
  std::shared_ptr<Capture> capture;  // of this rank
  EpochPart lead;
  IntervalSet touched{kMostIntervals};
  std::vector<Intent> own;
  Written written;  // the commit, for CheckCommit
  DatasetReport report;
};

Union Unite(OpenFile& file, std::vector<EpochPart> parts) {
  MeetFamily(file, parts);
  Union sum;
  sum.own = OwnIntents(parts);
  // It may cover the whole file. Then no rank has begun an epoch of its own since (EnsureEpoch).
  if (file.doubts.intent) sum.own.push_back(*file.doubts.intent);
  std::optional<FileTime> seen;
  for (const EpochPart& part : parts) {
    sum.data_safe &= part.data_safe;
    sum.any_elsewhere |= part.open_elsewhere;
    sum.all_elsewhere &= part.open_elsewhere;
    sum.met_others |= MetOthers(part, sum.own);
    sum.cover_all |= part.cover_all;
    sum.capture_counts &= part.capture_counts;
    sum.written_until_ns = std::max(sum.written_until_ns, part.written_until_ns);
    // In the background: each rank saw the file when it handed the commit over. If one saw another time than the others,
    // somebody else may have changed it in between.
    if (part.handed_over) {
      sum.in_background = true;
      const bool differs = seen && *seen != *part.handed_over;
      sum.cover_all |= differs;
      sum.capture_counts &= !differs;
      seen = part.handed_over;
    }
    if (part.touched.whole()) sum.touched.AddWhole();
    for (const Interval& interval : part.touched.intervals()) sum.touched.Add(interval);
  }
  sum.cover_all |= sum.met_others;
  sum.lead = std::move(parts.front());
  return sum;
}

Result<Union> Exchange(OpenFile& file, Moment moment, bool data_safe) {
  EpochPart mine;
  Status local = NoThrow([&] { mine = TakePart(file, moment, data_safe, file.Leads(), IntervalsEach(file.comm->size())); });
  auto all = AllGatherRecords(*file.comm, mine);
  Union sum;
  if (local.ok()) local = all.ok() ? NoThrow([&] { sum = Unite(file, std::move(*all)); }) : all.status();
  LZY_RETURN_IF_ERROR(Agree(*file.comm, local));
  sum.capture = std::move(mine.capture);
  return sum;
}

/// The file was renamed while it was open: renames its sidecar, too. If this fails, the commit makes a new sidecar.
void FollowMove(const OpenFile& file, const std::string& to, const std::vector<Intent>& own) {
  const Status status = FollowRename(PosixFileSystem(), file.options, file.path, to, own);
  if (!status.ok()) Say(file.options, Options::Log::kInfo, fmt::format("{}: {}", file.path, status.message()));
}

/// The file may be renamed in the middle of a commit in the background. True if it was, and `sum` has its new path: then try
/// again. Collective.
Result<bool> FollowRenameNow(OpenFile& file, Union& sum) {
  EpochPart now;
  const Status looked = NoThrow([&] {
    if (file.Leads()) LookAtDisk(file, now);
  });
  const bool moved = looked.ok() && file.Leads() && now.presence == EpochPart::Presence::kMoved;
  LZY_ASSIGN_OR_RETURN(const std::uint64_t any, file.comm->AllReduceMax(moved));
  if (any == 0) return false;
  LZY_RETURN_IF_ERROR(BroadcastRecord(*file.comm, now));
  sum.lead.presence = now.presence;
  sum.lead.path = now.path;
  sum.lead.size = std::max(sum.lead.size, now.size);
  sum.cover_all = true;
  return true;
}

Status CommitUnionOnce(OpenFile& file, Moment moment, Union& sum) {
  Attempt attempt;
  const Status prepared = NoThrow([&] {
    if (file.Leads() && sum.lead.presence == EpochPart::Presence::kMoved) FollowMove(file, sum.lead.path, sum.own);
    if (file.path != sum.lead.path) {
      const std::lock_guard lock(file.mutex);
      file.path = sum.lead.path;
    }
    attempt.options = file.options;
    attempt.dataset = {.kind = DatasetKind::kShared, .path = file.path, .members = {}};
    attempt.request.touched.emplace();
    IntervalSet& touched = (*attempt.request.touched)[0] = sum.touched;
    if (sum.cover_all) touched.AddWhole();
    touched.Clip(sum.lead.size);
    attempt.request.own_intents = sum.own;
    if (sum.capture_counts && !sum.met_others && !sum.any_elsewhere) attempt.request.capture = sum.capture.get();
    attempt.request.written_until_ns = sum.written_until_ns;
    attempt.request.doubts = &file.doubts;
    FillFromEpoch(file, attempt.request);
    // Aggregators hold bytes that other ranks wrote, so all ranks sync, and all have synced before any rank reads.
    return moment == Moment::kClose ? SyncData(file.path) : Status::Ok();
  });
  sum.report = ProtectPatiently(*file.comm, attempt, prepared);
  const DatasetReport& report = sum.report;
  if (!report.status.ok()) return report.status;
  sum.written = {attempt.dataset, std::move(*attempt.request.touched), report.generation,
                 report.captures_count ? attempt.request.capture : nullptr};
  ExpectSameGeometry(file, report);
  AdoptDoubts(file);
  EndEpoch(file, report.generation, report.bytes, sum.met_others || !report.kept_intents.empty());
  if (file.usage) file.usage->NoteCommit(report, file.doubts.bytes);
  return Status::Ok();
}

Status CommitUnion(OpenFile& file, Moment moment, Union& sum) {
  constexpr int kMostRenames = 5;
  Status status = CommitUnionOnce(file, moment, sum);
  for (int renames = 0; sum.in_background && status.code() == Code::kNotFound && renames < kMostRenames; ++renames) {
    const auto moved = FollowRenameNow(file, sum);
    if (!moved.ok() || !*moved) break;
    status = CommitUnionOnce(file, moment, sum);
  }
  return status;
}

/// Option verify-writes. The commit stays valid, whatever is found; the result only decides the program's error code.
/// Collective.
Status CheckWrites(OpenFile& file, const Union& sum) {
  // With std::cref below, the std::function allocates nothing, so no rank can fail there alone.
  const auto commit = [&]() -> Result<std::uint64_t> {
    LZY_ASSIGN_OR_RETURN(Union again, Exchange(file, Moment::kSync, true));
    again.touched.Add(again.lead.resized);
    // kClose: nobody else syncs the rewritten bytes.
    LZY_RETURN_IF_ERROR(CommitUnion(file, Moment::kClose, again));
    NoteTimes(file, again.report);
    if (file.Leads()) ReportCommit(file.options, again.report);
    return again.written.generation;
  };
  const auto tell = [&](const UncomparedBytes& uncompared) {
    if (file.usage) file.usage->NoteUncompared(uncompared.total());
    if (file.Leads()) ReportCommit(file.options, sum.report, uncompared.total());
  };
  return CheckCommit({.fs = PosixFileSystem(), .comm = *file.comm, .options = file.options}, sum.written,
                     {file, std::cref(commit), std::cref(tell)});
}

/// The end of an epoch whose file was deleted while it was open, or before its commit ended, by MPI_File_delete or without MPI: nothing
/// is left to protect. If another file has its name now, the writes to the deleted file do not put it at risk.
Status EndOfGone(OpenFile& file) {
  if (!file.Leads()) return Status::Ok();
  // In the background it may have been moved to another directory, where it needs its sidecar.
  if (file.handed_over && (!file.place || IsMovedAway(file))) {
    Say(file.options, file.place ? Options::Log::kWarn : Options::Log::kInfo,
        fmt::format("{}: moved to where this process does not see it before its commit in the background: it is not protected. "
                    "Type for its new path: lzy-protect PATH",
                    file.path));
    return Status::Ok();
  }
  if (PosixFileSystem().Stat(file.path, /*follow=*/false).ok()) {
    TakeIntentBack(file);
  } else {
    (void)Forget(PosixFileSystem(), file.path);
  }
  return Status::Ok();
}

/// Whether the file of this process alone was deleted during its commit, as another process may do.
bool WentAway(OpenFile& file) {
  if (file.comm->size() > 1) return false;
  EpochPart part;
  LookAtDisk(file, part);
  return part.presence == EpochPart::Presence::kGone;
}

}  // namespace

Status CommitShared(OpenFile& file, Moment moment, bool data_safe) {
  if (file.options.verify_writes) RestoreEnd(file);
  auto exchanged = Exchange(file, moment, data_safe);
  if (!exchanged.ok()) {
    Untake(file);
    if (file.Leads()) ReportFailure(file.options, file.path, exchanged.status());
    return exchanged.status();
  }
  Union& sum = *exchanged;
  if (sum.lead.presence == EpochPart::Presence::kGone) return EndOfGone(file);
  if (!sum.data_safe) {  // the program gets an error code of its own
    Untake(file);
    return Status::Ok();
  }
  if (sum.touched.empty()) {
    if (moment == Moment::kClose && !sum.any_elsewhere && file.Leads()) TakeIntentBack(file);
    if (moment == Moment::kSync && sum.capture_counts && !sum.cover_all) KeepCapture(file, std::move(sum.capture));
    return Status::Ok();
  }
  if (sum.any_elsewhere) {
    // Writes by another handle may be under way. If every rank has another handle, the close of that handle commits. If
    // only some ranks have one, it is not known whose close that is, so the whole file is committed now and again at each
    // later close.
    Registry::Get().TouchWholeElsewhere(file);
    if (moment == Moment::kClose && sum.all_elsewhere) return Status::Ok();
    sum.cover_all = true;
  }
  sum.touched.Add(sum.lead.resized);
  // Must come before the commit: the check after it would take a header that somebody else wrote for a fault.
  if (file.options.verify_writes) {
    const auto others = OthersWroteLast(file);
    sum.capture_counts &= others.ok() && !*others;
  }
  const Status status = CommitUnion(file, moment, sum);
  if (!status.ok()) {
    if (WentAway(file)) return EndOfGone(file);
    Untake(file);
    if (file.Leads()) ReportFailure(file.options, file.path, status);
    return status;
  }
  NoteTimes(file, sum.report);
  file.handed_over.reset();  // from here on, the commit says what the file is
  if (file.options.verify_writes) return CheckWrites(file, sum);
  if (file.Leads()) ReportCommit(file.options, sum.report, std::nullopt, file.doubts.bytes);
  // Only if the commit used the capture. The attempt that succeeded may have ignored it, because something else changed the
  // file.
  if (moment == Moment::kSync && sum.written.capture != nullptr) CarryCapture(file, std::move(sum.capture));
  return status;
}

}  // namespace lzy::hooks
