#include "hooks/calls/committing.h"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/file.h"
#include "hooks/background/background.h"
#include "hooks/contract/guarded.h"
#include "hooks/contract/layer.h"
#include "hooks/epochs/commit.h"
#include "hooks/files/registry.h"
#include "hooks/reports/messages.h"
#include "hooks/sets/sets.h"
#include "transport/beside.h"

namespace lzy::hooks {
namespace {

// The work of sync and close after the real call. The ranks of a shared file commit together, collective over its
// communicator. Members of a set commit with their set: the ranks meet first (sets/rendezvous.h), because these calls are
// local in MPI.
Status CommitAt(OpenFile& file, Moment moment, bool data_safe) {
  if (!file.set && file.failed.ok()) return CommitShared(file, moment, data_safe);
  Sets* const sets = file.set ? Sets::Get() : nullptr;
  const bool is_due = moment == Moment::kClose || file.options.set_sync;
  if (sets != nullptr && is_due) return sets->Commit(file, moment, data_safe);
  if (moment == Moment::kClose) Registry::Get().Leave(file);
  // A set is not committed at a sync without set-sync, nor during MPI_Finalize: its data stay at risk.
  return file.set ? Status::Ok() : file.failed;
}

/// Hands the commit of sync or close over to the background, if option commit asks for it. False if the program must wait
/// for it. `since`: the end of the real call.
///
/// If one rank cannot hand over, for want of a thread or because another handle of the file may write meanwhile, it commits here,
/// and the messages are the same. If the file was edited between the closes of two ranks, their times of it differ, and the
/// commit covers the whole file (epochs/commit.cc). Between a sync and the next write of another rank there is no such pause, so
/// the ranks meet first. With OMPIO, a close does not wait for the other ranks either.
bool HandOver(const std::shared_ptr<OpenFile>& file, Moment moment, bool data_safe, CommitTimes::Clock::time_point since) {
#ifdef OPEN_MPI
  constexpr bool kCloseMeets = false;
#else
  constexpr bool kCloseMeets = true;
#endif
  Background& background = Background::Get();
  // MPI_Finalize has the same place in the order of calls on all ranks.
  // A file of this process alone is committed without MPI calls, if it was written without MPI-IO.
  if (!file->background || (!(file->plain && !file->set) && !background.IsPossible())) return false;
  // There is nothing to commit, or another handle of the file may write meanwhile.
  if (!file->set && !file->failed.ok()) return false;
  if (file->set && (Sets::Get() == nullptr || (moment == Moment::kSync && !file->options.set_sync))) return false;
  if (file->plain) Background::StopAtExit();
  const bool shares = file->comm->size() > 1;
  const bool meets = shares && (moment == Moment::kSync || !kCloseMeets);
  // Commits of one file use one communicator, one after the other.
  if (meets) {
    background.AwaitFile(*file);
    if (!file->comm->Barrier().ok()) return false;
  }
  if (Registry::Get().IsOpenElsewhere(*file)) return false;
  // A commit of an earlier sync may find that the file was renamed.
  const std::string path = file->PathNow();
  const auto time = TimeAtHandOver(path);
  auto place = file->Leads() && moment == Moment::kClose ? PlaceAtHandOver(path) : nullptr;
  return background.Begin(file, since, [file, moment, data_safe, time, place = std::move(place)] {
    file->handed_over = time;
    file->place = place;
    (void)NoThrow([&] { MarkCommitUnderWay(*file, true); });  // only words depend on it
    const Status status = CommitAt(*file, moment, data_safe);
    if (!status.ok()) (void)NoThrow([&] { MarkCommitUnderWay(*file, false); });
    return status;
  });
}

}  // namespace

// All ranks of the file must do the same, because they meet in HandOver. Levels of threads may differ between them.
void DecideBackground(OpenFile& file) {
  if (!file.options.background) return;
  const auto obstacles = file.comm->AllReduceMax(Background::Get().IsPossible() ? 0 : 1);
  file.background = obstacles.ok() && *obstacles == 0;
  if (file.background || !file.Leads()) return;
  // Ranks that open files of their own would all say the same. In programs that use only sessions there is no such rank.
  int initialized = 0;
  int rank = 0;
  const bool in_world = PMPI_Initialized(&initialized) == MPI_SUCCESS && initialized;
  if (file.comm->size() == 1 && in_world && PMPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS && rank != 0) return;
  SayOnce(file.options, Options::Log::kWarn, "", "background",
          "commit=background needs MPI_THREAD_MULTIPLE, which MPI does not provide here, so sync and close wait for their commits. "
          "If only a hint asks for it, set LZY_COMMIT=background before MPI_Init (lzy-run --background)");
}

Status CommitOrHandOver(const std::shared_ptr<OpenFile>& file, Moment moment, bool data_safe) {
  const auto since = CommitTimes::Clock::now();
  bool handed_over = false;
  // If memory runs out on one rank, it commits here, where the others expect its messages.
  (void)NoThrow([&] { handed_over = HandOver(file, moment, data_safe, since); });
  if (handed_over) return Status::Ok();
  Background::Get().AwaitFile(*file);
  // Commits that stopped in the middle have communicators and locks that this one would need.
  if (BesideProgram::Interrupted()) return {Code::kIo, "the process ends while commits are under way in the background"};
  file->times = {since, std::nullopt};
  file->handed_over.reset();
  return CommitAt(*file, moment, data_safe);
}

void AwaitCommitsOf(const OpenFile& file) noexcept {
  if (file.commits_pending.load() == 0) return;
  Guarded("commit", [&] { Background::Get().AwaitFile(file); });
}

// Called by the C interface.
int AwaitCommits(const char* path, double seconds, char* why, std::size_t why_size) {
  Status status;
  Guarded("lzy_commit_wait", [&] {
    constexpr double kLongest = 1e9;  // clocks cannot count much further
    auto patience = seconds < 0 ? std::nullopt : std::optional(std::chrono::duration<double>(std::min(seconds, kLongest)));
    const auto real = path == nullptr ? Result<std::string>(std::string()) : PosixFileSystem().RealPath(path);
    // Members that are written without MPI-IO first wait until all ranks have closed theirs.
    const auto start = std::chrono::steady_clock::now();
    Sets* const sets = Sets::Get();
    Announcements* const announcements = sets == nullptr ? nullptr : sets->announcements();
    if (announcements != nullptr && real.ok() && !announcements->Await(*real, patience)) {
      status = {Code::kTimeout, "not all ranks have closed their members, or MPI has no MPI_THREAD_MULTIPLE"};
      return;
    }
    using Seconds = std::chrono::duration<double>;
    if (patience) *patience = std::max<Seconds>(*patience - Seconds(std::chrono::steady_clock::now() - start), Seconds::zero());
    status = Background::Get().AwaitResult(path == nullptr ? std::string() : std::string(path), patience);
  });
  if (why_size > 0) {
    const std::size_t length = status.ok() ? 0 : std::min(status.message().size(), why_size - 1);
    std::copy_n(status.message().begin(), length, why);
    why[length] = '\0';
  }
  if (status.ok()) return static_cast<int>(CommitWait::kDone);
  return static_cast<int>(status.code() == Code::kTimeout ? CommitWait::kStillUnderWay : CommitWait::kFailed);
}

}  // namespace lzy::hooks
