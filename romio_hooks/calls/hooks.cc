// The hooks of MPI-IO, in the order of a file's life. Each hook looks up the file, records what the call may change, makes
// the real call, and records the result, all in the entry of the file (files/open_file.h).
//
// Two rules follow from crashes. Before the real call, what a write may touch is recorded, and an intent is durable. A
// write that fails may have written any part, so it stays recorded.
//
// Every hook makes the real call exactly once, even if its own work fails: that work runs in Guarded. These hooks
// communicate: MPI_Init and MPI_Finalize (for sets), sync and close (for commits), and ordered reads that are checked. All
// other hooks in this file make only local calls.

#include "hooks/calls/hooks.h"

#include <fmt/format.h>
#include <mpi.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hooks/background/background.h"
#include "hooks/calls/committing.h"
#include "hooks/calls/open.h"
#include "hooks/calls/plain.h"
#include "hooks/contract/guarded.h"
#include "hooks/epochs/file_epoch.h"
#include "hooks/files/pointers.h"
#include "hooks/files/registry.h"
#include "hooks/files/settings.h"
#include "hooks/files/thread_level.h"
#include "hooks/reports/messages.h"
#include "hooks/reports/mpi_error.h"
#include "hooks/sets/sets.h"
#include "hooks/transfers/capturing.h"
#include "hooks/transfers/pending.h"
#include "hooks/transfers/verifying.h"
#include "mpi/finalize_progress.h"
#include "transport/beside.h"

namespace lzy::hooks {
namespace {

// Most programs have files that lzy does not track. The counter avoids the lock of the registry for them. Relaxed order is
// enough: a thread got a tracked handle from an open that counted it.
std::shared_ptr<OpenFile> FindTracked(Word handle) noexcept {
  if (tracked_files.load(std::memory_order_relaxed) == 0) return nullptr;
  try {
    return Registry::Get().Find(handle);
  } catch (...) {
    return nullptr;
  }
}

void TouchWhole(OpenFile& file) {
  const std::lock_guard lock(file.mutex);
  file.touched.AddWhole();
}

// Records what a write may change. Without ranges, the whole file counts.
void Touch(OpenFile& file, const std::optional<std::vector<Interval>>& ranges) {
  if (!ranges) return TouchWhole(file);
  const std::lock_guard lock(file.mutex);
  file.touched.Add(*ranges);
}

/// Records a write whose bytes the layer does not see. The commit reads these ranges back from the file.
void TouchUnseen(OpenFile& file, const std::optional<std::vector<Interval>>& ranges) {
  Touch(file, ranges);
  if (ranges) MissRanges(file, *ranges);
}

/// The most ranges that one write is taken apart into. More than an epoch keeps: the set of an epoch joins those with
/// the smallest gaps, and it can choose better if it sees more of them.
constexpr std::size_t kMostRanges = 4 * kMostTouched;

/// Data that a write collects before the real call and needs after it.
struct Before {
  /// Others may move the pointer: look again at where it is.
  bool follow_pointer = false;
  MPI_Offset position = 0;
  std::uint64_t seeks = 0;
  MpiView view;
  std::uint64_t bytes = 0;
  /// The place is known. The write must be captured, or these ranges missed.
  bool capture = false;
  std::optional<std::vector<Interval>> ranges;
  std::unique_ptr<CaptureBeside> beside;  ///< the thread that captures it meanwhile

  /// True if, after a failed write, only these ranges are doubtful. With verify-writes everything else is compared with the
  /// device after the commit, including data that another rank should have written for this one.
  bool MayLose(const OpenFile& file) const { return ranges && file.options.verify_writes; }
};

/// After a write at the individual pointer: notes its new position. A write that fell short moved the pointer by less, and
/// so may some writes that failed without a code. Then later writes count for more than they touch, until MPI is asked
/// again after the next sync.
void MoveOwnPointer(OpenFile& file, const DataCall& call, const Before& before, int code) {
  if (call.place != Place::kOwnPointer || (before.bytes == 0 && code == MPI_SUCCESS)) return;
  LoseOwnPosition(file);
  if (code != MPI_SUCCESS || before.follow_pointer) return;
  KeepOwnPosition(file, call, before.position, before.bytes, before.view.etype_size());
}

/// For a pointer that other ranks or threads may move: notes where it is before the write. AfterWrite looks again, and
/// everything in between counts as touched. If a seek is under way, the pointer can be anywhere, so the whole file
/// counts.
void StartFollowing(OpenFile& file, const DataCall& call, Before& before) {
  {
    const std::lock_guard lock(file.mutex);
    if (file.seeks_begun != file.seeks_ended) file.touched.AddWhole();
    before.seeks = file.seeks_begun;
    before.follow_pointer = true;
  }
  before.position = PositionOf(As<MPI_File>(call.fh), call.place);
}

/// For a view with which some MPI libraries write to wrong places: takes the ranges of the standard, and compares the write
/// with these.
void TakeAsDefined(OpenFile& file, Before& before) {
  const MpiView defined = before.view.AsDefined();
  before.ranges = defined.Ranges(before.position, before.bytes, kMostRanges);
  if (!before.ranges) return;
  before.view = defined;
  DistrustCapture(file);
}

/// Records what the write may touch, and makes sure that an intent is set. The order matters: if the intent came first, a
/// commit in another thread could void it before the record. If it pays, a thread captures a blocking write of known place
/// during the real call.
void BeforeWrite(OpenFile& file, const DataCall& call, Before& before) {
  const auto bytes = DataBytes(call.count, As<MPI_Datatype>(call.type));
  if (call.done == Done::kUntold) LetPointerWander(file);
  CompareSizes(file);
  bool whole = file.sequential || !bytes;  // in sequential mode MPI does not tell positions
  {
    const std::lock_guard lock(file.mutex);
    before.view = file.view;
    whole |= file.touched.whole();
  }
  if (bytes && *bytes == 0) return;  // nothing is touched; collective calls often have nothing to write
  if (whole) {
    TouchWhole(file);
  } else if (call.place == Place::kExplicit || (call.place == Place::kOwnPointer && !SeveralThreads())) {
    before.position = TakeOwnPosition(file, call);
    before.bytes = *bytes;
    before.ranges = before.view.Ranges(before.position, *bytes, kMostRanges);
    if (!before.ranges && file.options.verify_writes) TakeAsDefined(file, before);
    before.capture = before.ranges && call.done != Done::kUntold;
    Touch(file, before.ranges);
    if (!before.capture && before.ranges) MissRanges(file, *before.ranges);
  } else {
    StartFollowing(file, call, before);
  }
  EnsureEpoch(file);
  if (before.capture && call.done == Done::kAtReturn) {
    before.beside = CaptureBeside::Start(file, call, before.view, before.position, before.bytes);
  }
}

/// For a captured write that is not complete at return: remembers the request or split call that will tell whether it
/// succeeds. Until then the capture of its epoch does not count.
void ExpectEnd(OpenFile& file, const DataCall& call, const std::shared_ptr<Capture>& capture, std::uint64_t bytes) {
  if (call.done == Done::kByRequest) BeginPending(file, capture, call.request, bytes);
  if (call.done != Done::kAtEnd) return;
  const std::lock_guard lock(file.mutex);
  if (file.capture) file.split_write = bytes;
}

/// Captures the write if no thread has done so. If its place was not known before, notes the touched range: between the old
/// and the new position of the pointer, unless a seek moved it meanwhile.
void AfterWrite(OpenFile& file, const DataCall& call, const Before& before, int code) {
  NoteWriteTime(file);
  MoveOwnPointer(file, call, before, code);
  const bool tells = call.done == Done::kAtReturn && before.capture;
  const bool whole = code == MPI_SUCCESS && (!tells || IsWhole(*call.status, before.bytes));
  const bool lost = !whole && before.MayLose(file);
  if (before.beside) {
    before.beside->End(whole, lost ? &*before.ranges : nullptr);
  } else if (before.capture && whole) {
    WriteCapture writing(file, call, before.view, before.position, before.bytes);
    writing.Run();
    ExpectEnd(file, call, writing.capture(), before.bytes);
  }
  if (lost && !before.beside) LoseRanges(file, *before.ranges);
  if (!whole && !lost) VoidCapture(file);
  if (!before.follow_pointer) return;
  const MPI_Offset now = PositionOf(As<MPI_File>(call.fh), call.place);
  bool moved = before.position < 0 || now < before.position;
  {
    const std::lock_guard lock(file.mutex);
    moved |= file.seeks_begun != before.seeks;
  }
  if (moved) {
    TouchWhole(file);
  } else {
    const auto bytes = static_cast<std::uint64_t>(now - before.position) * before.view.etype_size();
    TouchUnseen(file, before.view.Ranges(before.position, bytes, kMostRanges));
  }
}

/// With on-error=fail, a failed commit is an error of the call. Otherwise, and if the call itself failed, the code of the
/// call is returned.
int CodeAfterCommit(const OpenFile& file, int code, const Status& commit) {
  if (code != MPI_SUCCESS || !file.options.fail_on_error) return code;
  // A commit in the background has no call that could return its error, so the next call does.
  const bool earlier = Background::Get().TakeFailure();
  return !commit.ok() || earlier ? MPI_ERR_IO : code;
}

// From here on the ranks can communicate, so sets can be declared and healed. Collective over MPI_COMM_WORLD.
int StartMpi(const Starting& start) {
  Usage::StartClock();
  ServeNetworkInFinalize();
  const char* const when = std::getenv("LZY_COMMIT");
  bool background = when != nullptr && std::string_view(when) == "background";
  Guarded("MPI_Init", [&] { background = background || EnvironmentAnnouncesMembers(); });
  if (background) Background::StopAtExit();
  const int code = StartWithLevel(start, /*raise=*/background);
  if (code == MPI_SUCCESS) {
    Guarded("MPI_Init", [] {
      Sets::Start(CallsOfPlainMembers());
      if (Sets* sets = Sets::Get()) sets->Heal();
    });
  }
  return code;
}

// The program must not see that the layer asked for more.
int QueryThread(RealCall real, int* provided) {
  const int code = real();
  if (code == MPI_SUCCESS && provided != nullptr) *provided = LevelOfProgram(*provided);
  return code;
}

bool IsFirstOfWorld() {
  int rank = 0;
  return PMPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS || rank == 0;
}

// The delete callback of an attribute on MPI_COMM_SELF would run later than this, after the callbacks in which libraries
// (HDF5) close their files. But it could only be set at an open, and a rank without one would miss the last meeting of the
// sets. A close after this still commits a shared file; a member of a set then stays at risk.
int Finalize(RealCall real) {
  Guarded("MPI_Finalize", [] {
    Sets* const sets = Sets::Get();
    if (sets != nullptr && sets->announcements() != nullptr) sets->announcements()->Finish();
  });
  Guarded("MPI_Finalize", [] { Background::Get().Finish(IsFirstOfWorld()); });
  // After an interruption, a thread that does not end may hold the lock of the sets.
  if (!BesideProgram::Interrupted()) Guarded("MPI_Finalize", [] { Sets::Finish(); });
  int code = real();
  Guarded("MPI_Finalize", [&] {
    for (const auto& file : Registry::Get().TakeAll()) {
      if (file->reads_only || !file->Leads()) continue;
      if (file->touched.empty()) {
        // This rank does not know what the others wrote, and can no longer ask them.
        if (file->comm->size() == 1 && !file->set) TakeIntentBack(*file);
        continue;
      }
      Say(file->options, Options::Log::kWarn,
          fmt::format("{}: not closed before MPI_Finalize; it stays at risk until the next commit", file->path));
    }
    ReportOpenMembers();
    Usage::PrintAll();
    if (code == MPI_SUCCESS && Background::Get().TakeFailure()) code = MPI_ERR_IO;
  });
  return code;
}

// Programs that use only sessions do not call MPI_Finalize.
int SessionFinalize(RealCall real, void*) {
  const int code = real();
  Guarded("MPI_Session_finalize", [] {
    int initialized = 0;
    if (PMPI_Initialized(&initialized) == MPI_SUCCESS && !initialized) Usage::PrintAll();
  });
  return code;
}

// The real sync comes first, because a commit needs durable data.
int Sync(RealCall real, Word fh) {
  const auto file = FindTracked(fh);
  if (!file || file->reads_only) return real();
  UsageTimer timer(file->usage.get());
  AwaitCommitsOf(*file);
  int code = timer.Call(real);
  Guarded("MPI_File_sync", [&] {
    {
      const std::lock_guard lock(file->mutex);
      file->own_pointer.reset();
      file->own_pointer_wanders = false;  // all calls under way must be complete now
    }
    const int with_commit = CodeAfterCommit(*file, code, CommitOrHandOver(file, Moment::kSync, code == MPI_SUCCESS));
    if (with_commit != code) {
      code = with_commit;
      PMPI_File_call_errhandler(As<MPI_File>(fh), code);  // as for any error of this call; the default handler returns the code
    }
  });
  return code;
}

// The entry is taken before the real close, because MPI may give the same handle to another thread's open at once.
int Close(RealCall real, Word* fh) {
  std::shared_ptr<OpenFile> file;
  std::string doomed;
  if (fh != nullptr) {
    Guarded("MPI_File_close", [&] {
      doomed = Registry::Get().TakeDoomed(*fh);
      file = Registry::Get().Take(*fh);
    });
  }
  if (!file || file->reads_only) {
    const int code = real();
    if (!doomed.empty()) Guarded("MPI_File_close", [&] { AfterCloseOfDoomed(doomed); });
    return code;
  }
  // The Usage is needed after the file is gone.
  const std::shared_ptr<Usage> usage = file->usage;
  UsageTimer timer(usage.get());
  int code = timer.Call(real);
  // The handle is gone, and with it the error handler for a failed commit. So only the code reports it.
  Guarded("MPI_File_close", [&] { code = CodeAfterCommit(*file, code, CommitOrHandOver(file, Moment::kClose, true)); });
  Guarded("MPI_File_close", [&] { file.reset(); });
  return code;
}

int SetView(RealCall real, Word fh, std::int64_t displacement, Word etype, Word filetype, const char* representation,
            Word) {
  const int code = real();
  if (const auto file = FindTracked(fh)) {
    Guarded("MPI_File_set_view", [&] {
      // ROMIO sets some of the views that it refuses.
      MpiView view = MpiView::Unknown();
      if (code == MPI_SUCCESS) view.Set(displacement, As<MPI_Datatype>(etype), As<MPI_Datatype>(filetype), representation);
      const std::lock_guard lock(file->mutex);
      file->view = view;
      file->own_pointer.reset();
      if (code == MPI_SUCCESS && !file->own_pointer_wanders) file->own_pointer = 0;
    });
  }
  return code;
}

/// Makes a call that changes the size of the file to `size`, or, if it only `adds`, to at least `size`. Bytes from the
/// smaller of the two sizes on count as touched. The rank that changes the size compares it first, and that is enough. The
/// result of the real call does not matter: a failed call may have changed the size.
int ChangeSize(RealCall real, Word fh, std::int64_t size, bool adds) {
  const auto file = FindTracked(fh);
  if (file && !file->reads_only) AwaitCommitsOf(*file);
  if (file && file->failed.ok() && !file->reads_only && size >= 0) {
    Guarded("MPI_File_set_size", [&] {
      const auto stat = PosixFileSystem().Stat(file->path);
      const auto wanted = static_cast<std::uint64_t>(size);
      const std::uint64_t now = stat.ok() ? stat->size : 0;
      const std::uint64_t least = adds ? now : std::min(now, wanted);
      const std::vector<Interval> changed{{file->BeginOfChange(least), kEverythingBehind}};
      Touch(*file, changed);
      if (!adds) CutCapture(*file, wanted, changed);
      if (!adds) Registry::Get().TouchWholeElsewhere(*file);  // what other handles captured may be gone
      EnsureEpoch(*file);
    });
  }
  const int code = real();
  if (file && !file->reads_only) Guarded("MPI_File_set_size", [&] { NoteWriteTime(*file); });
  return code;
}

int SetSize(RealCall real, Word fh, std::int64_t size) {
  return ChangeSize(real, fh, size, /*adds=*/false);
}

// The present content stays as it is. MPI does not define the added bytes, so the commit reads those that nobody writes.
int Preallocate(RealCall real, Word fh, std::int64_t size) {
  return ChangeSize(real, fh, size, /*adds=*/true);
}

/// A write from before its real call until its result is recorded. If an exception or a jump out of the real call (from an
/// error handler) ends it, it may have written anything.
class WriteUnderWay {
 public:
  WriteUnderWay(OpenFile& file, Place place) : file_(file), counts_(SeveralThreads() || IsShared(place)) {
    if (counts_) Count(1);
  }
  ~WriteUnderWay() {
    if (!accounted_for) {
      Guarded("MPI_File_write", [&] {
        TouchWhole(file_);
        VoidCapture(file_);
      });
    }
    if (counts_) Count(-1);
  }
  WriteUnderWay(const WriteUnderWay&) = delete;
  WriteUnderWay& operator=(const WriteUnderWay&) = delete;

  bool accounted_for = false;

 private:
  void Count(int by) {
    const std::lock_guard lock(file_.mutex);
    file_.writes_under_way += by;
  }

  OpenFile& file_;
  const bool counts_;
};

/// Both kinds of seek. Another thread may have a write under way at the same pointer. The two counters show it that a seek
/// moved the pointer, so it does not take the distance for its own data.
int SeekAny(RealCall real, OpenFile& file, std::optional<MPI_Offset> own_pointer_if_done) {
  {
    const std::lock_guard lock(file.mutex);
    ++file.seeks_begun;
  }
  const int code = real();
  const std::lock_guard lock(file.mutex);
  ++file.seeks_ended;
  file.own_pointer.reset();
  if (code == MPI_SUCCESS && !file.own_pointer_wanders) file.own_pointer = own_pointer_if_done;
  return code;
}

// A known position makes the range of the next write known, without asking MPI.
int Seek(RealCall real, Word fh, std::int64_t offset, int whence) {
  const auto file = FindTracked(fh);
  if (!file) return real();
  return SeekAny(real, *file, whence == MPI_SEEK_SET ? std::optional<MPI_Offset>(offset) : std::nullopt);
}

int SeekShared(RealCall real, Word fh, std::int64_t, int) {
  const auto file = FindTracked(fh);
  return file ? SeekAny(real, *file, std::nullopt) : real();
}

// Adds the options of the file as hints. MPI libraries drop hints that they do not know, and the standard lets a program
// see which hints are in use.
int GetInfo(RealCall real, Word fh, void* info) {
  const int code = real();
  if (code != MPI_SUCCESS || info == nullptr) return code;
  if (const auto file = FindTracked(fh)) {
    Guarded("MPI_File_get_info", [&] { AddHints(*static_cast<MPI_Info*>(info), file->options); });
  }
  return code;
}

// Passes a status to the real call even if the program ignores it, because only a status shows that a write fell short.
int TrackedWrite(RealCall real, const DataCall& call) {
  const auto file = FindTracked(call.fh);
  if (!file || !file->failed.ok() || file->reads_only) return real();
  UsageTimer timer(file->usage.get());
  AwaitCommitsOf(*file);
  MPI_Status own{};
  if (call.done == Done::kAtReturn) WantStatus(call.status, own);
  WriteUnderWay under_way(*file, call.place);
  Before before;
  bool recorded = Guarded("MPI_File_write", [&] { BeforeWrite(*file, call, before); });
  const int code = timer.Call(real);
  recorded &= Guarded("MPI_File_write", [&] { AfterWrite(*file, call, before, code); });
  under_way.accounted_for = recorded;
  return code;
}

// The second half of a split write. The bytes were captured at the first half. Only now is it known whether they were
// written. MPI allows one split call at a time on a handle, so one field of the entry is enough.
int WriteEnd(RealCall real, Word fh, void** status) {
  const auto file = FindTracked(fh);
  if (!file || file->reads_only) return real();
  MPI_Status own{};
  WantStatus(status, own);
  UsageTimer timer(file->usage.get());
  const int code = timer.Call(real);
  Guarded("MPI_File_write_all_end", [&] {
    NoteWriteTime(*file);
    const std::lock_guard lock(file->mutex);
    const std::uint64_t bytes = std::exchange(file->split_write, std::nullopt).value_or(0);
    if (code != MPI_SUCCESS || !IsWhole(*status, bytes)) VoidLockedCapture(*file);
  });
  return code;
}

// Reads of tracked files matter for two reasons: their data may be checked, and they move the pointer that writes
// follow.
int TrackedRead(RealCall real, const DataCall& call) {
  const auto file = FindTracked(call.fh);
  if (!file) return real();
  if (call.done == Done::kUntold) LetPointerWander(*file);
  if (file->check && call.place == Place::kOrdered) AwaitCommitsOf(*file);  // their checks use its communicator
  if (file->check) return ReadChecked(real, call, file);
  // The new position depends on how much data the file had.
  if (call.place == Place::kOwnPointer) LoseOwnPosition(*file);
  return real();
}

// The second half of a split read: now its data are in the buffer, and can be checked.
int ReadEnd(RealCall real, Word fh, void** status) {
  const auto file = FindTracked(fh);
  std::shared_ptr<UnfinishedRead> read;
  if (file && file->check) {
    const std::lock_guard lock(file->mutex);
    read = std::exchange(file->split_read, nullptr);
  }
  if (!read) return real();
  MPI_Status own{};
  WantStatus(status, own);
  return read->Finish(real(), *status);
}

}  // namespace

constinit const Layer kLayer = {
    .Init = StartMpi,
    .QueryThread = QueryThread,
    .Finalize = Finalize,
    .SessionFinalize = SessionFinalize,
    .Open = Open,
    .Close = Close,
    .Sync = Sync,
    .Delete = Delete,
    .SetView = SetView,
    .SetSize = SetSize,
    .Preallocate = Preallocate,
    .Seek = Seek,
    .SeekShared = SeekShared,
    .GetInfo = GetInfo,
    .Write = TrackedWrite,
    .WriteEnd = WriteEnd,
    .Read = TrackedRead,
    .ReadEnd = ReadEnd,
    .Complete = Complete,
    .ErrorClass = ErrorClass,
    .AwaitCommits = AwaitCommits,
    .PlainWillOpen = PlainWillOpen,
    .PlainDidOpen = PlainDidOpen,
    .PlainDidClose = PlainDidClose,
    .PlainWillRename = PlainWillRename,
    .PlainDidRename = PlainDidRename,
    .PlainWillRemove = PlainWillRemove,
    .PlainDidRemove = PlainDidRemove,
    .tracked_files = &tracked_files,
    .checked_files = &checked_files,
    .pending_requests = &pending_requests,
};

}  // namespace lzy::hooks
