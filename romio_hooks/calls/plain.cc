#include "hooks/calls/plain.h"

#include <fmt/format.h>
#include <mpi.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "hooks/background/background.h"
#include "hooks/calls/committing.h"
#include "hooks/calls/open.h"
#include "hooks/contract/guarded.h"
#include "hooks/disk/selection.h"
#include "hooks/epochs/file_epoch.h"
#include "hooks/files/registry.h"
#include "hooks/files/settings.h"
#include "hooks/files/thread_level.h"
#include "hooks/reports/messages.h"
#include "hooks/reports/opened.h"
#include "hooks/transfers/capturing.h"
#include "sidecar/names.h"

namespace lzy::hooks {
namespace {

/// Times of files may count in seconds, or two (FAT). A file whose mtime is older than this when it is opened gets another mtime by any
/// write.
constexpr std::int64_t kCoarsestClockNs = 2'000'000'000;

/// An open file, and its state when it was opened.
struct Entry {
  std::shared_ptr<OpenFile> file;
  FileStat begun;
  std::int64_t opened_ns = 0;
};

struct Entries {
  std::mutex mutex;
  std::map<PlainFile, Entry> open;
  PlainFile last = 0;
};
Entries& TheEntries() {
  static auto& entries = *new Entries;  // never destroyed: files are closed at exit, too
  return entries;
}

std::optional<Entry> Take(PlainFile number) {
  Entries& entries = TheEntries();
  const std::lock_guard lock(entries.mutex);
  const auto node = entries.open.extract(number);
  return node ? std::optional(std::move(node.mapped())) : std::nullopt;
}

/// What announces this rank's member of a set; null after MPI_Finalize, and if members are committed in their close.
Announcements* AnnouncementsNow() {
  Sets* const sets = Sets::Get();
  return sets == nullptr ? nullptr : sets->announcements();
}
Announcements* AnnouncementsOf(const OpenFile& file) {
  return file.set && file.background ? AnnouncementsNow() : nullptr;
}

/// Whether option posix wants this file. Options include and exclude were applied already.
bool IsWanted(const Options& options, const std::optional<SetName>& set) {
  if (options.posix == Options::Posix::kOff) return false;
  return set || (options.posix == Options::Posix::kOn && !options.include.empty());
}

/// The file at `path`, if it is there and is wanted. If it is empty, so that the program begins to write it, reports why a wanted
/// one cannot be protected.
std::shared_ptr<OpenFile> Consider(const char* path, FileStat& stat) {
  const Candidate candidate = ConsiderFile(path, MPI_INFO_NULL);
  if (!candidate.wanted || !candidate.refused.ok()) return nullptr;
  // After MPI_Finalize there are no sets any more.
  const Sets* const sets = Sets::Get();
  auto set = sets == nullptr ? Result<std::optional<SetName>>(std::nullopt)
                             : FindSet(candidate.texts, candidate.options, candidate.path);
  if (!set.ok()) {
    if (candidate.stat.size > 0) return nullptr;
    Refuse(candidate.options, candidate.path, set.status());
    NoteOpened(candidate.path, set.status().message(), /*plain=*/true);
    return nullptr;
  }
  if (!IsWanted(candidate.options, *set)) return nullptr;
  auto file = std::make_shared<OpenFile>();
  file->path = candidate.path;
  file->options = candidate.options;
  file->comm = SelfCommunicator();
  file->plain = true;
  file->uncoordinated = true;  // others may write it, too
  file->set = std::move(*set);
  file->background = file->options.background || !file->options.given.contains("commit");
  stat = candidate.stat;
  return file;
}

/// Tracks `file`, and begins its epoch. 0 if that is not possible.
PlainFile Begin(const std::shared_ptr<OpenFile>& file, const FileStat& stat) {
  Sets* const sets = Sets::Get();
  const bool reports = !file->set || sets == nullptr || sets->rank() == 0;
  if (file->options.summary && reports) file->usage = Usage::Of(file->set ? file->set->pattern : file->path);
  Registry::Get().Join(*file, stat.file_system, stat.inode);
  if (file->set && sets != nullptr) sets->NoteMember();
  if (Announcements* const announcements = AnnouncementsOf(*file)) announcements->Opens(*file->set);
  file->failed = BeginFirstEpoch(*file);
  if (!file->failed.ok()) RefuseForNow(*file);
  Entries& entries = TheEntries();
  const std::lock_guard lock(entries.mutex);
  entries.open[++entries.last] = {file, stat, WallClockNs()};
  return entries.last;
}

// A write that leaves the times of the file as they are is not seen: nothing changes the size, and the clock of the file system
// has not moved on.
bool WasChanged(const Entry& entry) {
  const auto now = PosixFileSystem().Stat(entry.file->path);
  const FileStat& begun = entry.begun;
  const bool same = now.ok() && now->inode == begun.inode && now->size == begun.size && now->mtime_ns == begun.mtime_ns &&
                    now->ctime_ns == begun.ctime_ns;
  return !same || begun.size == 0 || begun.mtime_ns + kCoarsestClockNs > entry.opened_ns;
}

/// Whether this thread may call MPI. A program may close files in any thread.
bool MayCallMpiHere() {
  int is_main = 0;
  return MpiAllowsThreads() || (PMPI_Is_thread_main(&is_main) == MPI_SUCCESS && is_main);
}

/// Ends an entry without a commit. Its intent stays.
void Forgo(const Entry& entry) {
  if (Announcements* const announcements = AnnouncementsOf(*entry.file)) announcements->Complete(entry.file, /*changed=*/false);
  (void)Registry::Get().Leave(*entry.file);
}

/// The program did not change the file. Its intent goes, unless another descriptor has the file open, or its commit has not begun.
void EndUnchanged(OpenFile& file, bool waits) {
  if (!Registry::Get().Leave(file) && !waits) TakeIntentBack(file);
}

/// The file is complete: its commit begins. `opened`: the program had it open.
void End(const Entry& entry, bool opened = true) {
  OpenFile& file = *entry.file;
  const bool changed = opened && WasChanged(entry);
  if (changed) {
    {
      const std::lock_guard lock(file.mutex);
      file.touched.AddWhole();
    }
    NoteWriteTime(file);
  }
  if (Announcements* const announcements = AnnouncementsOf(file)) {
    const bool waits = announcements->Complete(entry.file, changed);
    return changed ? void() : EndUnchanged(file, waits);
  }
  if (!changed) return EndUnchanged(file, /*waits=*/false);
  Sets* const sets = file.set ? Sets::Get() : nullptr;
  if (sets != nullptr && !MayCallMpiHere()) return sets->Postpone(file);
  if (file.set && sets == nullptr) {
    SayOnce(file.options, Options::Log::kWarn, file.path, "late",
            fmt::format("{}: not closed before MPI_Finalize; it stays at risk until the next commit", file.path));
  }
  (void)CommitOrHandOver(entry.file, Moment::kClose, /*data_safe=*/true);
}

}  // namespace

// The program may be about to overwrite its only committed checkpoint while the commit of the next one is under way.
PlainFile PlainWillOpen(const char* path) {
  PlainFile number = 0;
  Guarded("open", [&] {
    FileStat stat;
    const auto file = Consider(path, stat);
    if (!file) return;
    if (Background::Get().IsBusy()) Background::Get().AwaitBeforeOpen(path);
    number = Begin(file, stat);
  });
  return number;
}

PlainFile PlainDidOpen(const char* path, PlainFile number, bool opened) {
  PlainFile result = number;
  Guarded("open", [&] {
    if (number != 0 && !opened) {
      result = 0;
      if (const auto entry = Take(number)) End(*entry, /*opened=*/false);
      return;
    }
    FileStat stat;
    if (number == 0 && opened) {
      if (const auto file = Consider(path, stat)) result = Begin(file, stat);
    }
    if (result == 0) return;
    Entries& entries = TheEntries();
    const std::lock_guard lock(entries.mutex);
    const OpenFile& file = *entries.open.at(result).file;
    NoteOpened(file.path, file.failed.message(), /*plain=*/true);
  });
  return result;
}

void PlainDidClose(PlainFile number) {
  Guarded("close", [&] {
    if (const auto entry = Take(number)) End(*entry);
  });
}

// ------------------------------------------------------------------------------------------------ Renames and removals

namespace {

/// A rename that is under way.
struct Rename {
  std::string from, to;  ///< real directories with the names
  bool had_sidecar = false;
  std::optional<SetName> set;  ///< of `from`
  PlainFile target = 0;  ///< the file that is replaced; its epoch has begun
};

/// A removal that is under way.
struct Removal {
  std::string path;
  std::optional<SetName> set;
};

/// The set that has the file at `path` as this rank's member, if option posix wants that.
std::optional<SetName> SetOf(const std::string& path) {
  FileStat stat;
  const auto file = Consider(path.c_str(), stat);
  return file ? file->set : std::nullopt;
}

/// Around a call that takes this rank's member of `set` away.
void Hold(const std::optional<SetName>& set) {
  Announcements* const announcements = set ? AnnouncementsNow() : nullptr;
  if (announcements != nullptr) announcements->Opens(*set);
}
bool Withdraw(const std::optional<SetName>& set, bool done) {
  Announcements* const announcements = set ? AnnouncementsNow() : nullptr;
  return announcements != nullptr && announcements->Withdraw(set->id, done);
}

/// The real directory of `path`, with its name. The file itself may be missing.
std::string InRealDirectory(const std::string& path) {
  const auto directory = PosixFileSystem().RealPath(DirectoryOf(path));
  return directory.ok() ? JoinPath(*directory, BaseNameOf(path)) : path;
}

bool HasSidecar(const std::string& path) {
  const auto sidecar = SidecarPath(path);
  return sidecar.ok() && PosixFileSystem().Stat(*sidecar, /*follow=*/false).ok();
}

}  // namespace

void* PlainWillRename(const char* from, const char* to) {
  std::unique_ptr<Rename> rename;
  Guarded("rename", [&] {
    const auto stat = PosixFileSystem().Stat(from, /*follow=*/false);
    if (!stat.ok() || stat->type != FileStat::Type::kRegular) return;
    rename = std::make_unique<Rename>();
    rename->from = InRealDirectory(from);
    rename->to = InRealDirectory(to);
    rename->had_sidecar = HasSidecar(rename->from);
    FileStat target;
    const auto replaced = Consider(rename->to.c_str(), target);
    if (Background::Get().IsBusy()) {
      if (rename->had_sidecar) Background::Get().AwaitBeforeOpen(rename->from);
      if (replaced) Background::Get().AwaitBeforeOpen(rename->to);
    }
    if (rename->had_sidecar) rename->set = SetOf(rename->from);
    Hold(rename->set);
    if (replaced) rename->target = Begin(replaced, target);
  });
  return rename.release();
}

// A file that was protected under its old name takes its sidecar with it, unless its new name makes it a member of another
// set. A file that was not gets protected under the new one.
void PlainDidRename(void* token, bool renamed) {
  Guarded("rename", [&] {
    const std::unique_ptr<Rename> rename(static_cast<Rename*>(token));
    const auto target = rename->target == 0 ? std::nullopt : Take(rename->target);
    const bool waited = Withdraw(rename->set, renamed);
    if (waited) {
      const Options& options = EnvironmentSettings().options;
      SayOnce(options, Options::Log::kWarn, rename->from, "renamed",
              fmt::format("{}: renamed to {} before its set {} was committed: it stays at risk. Wait with lzy_commit_wait before you rename "
                          "members",
                          rename->from, rename->to, rename->set->pattern));
    }
    if (target && !renamed) End(*target, /*opened=*/false);
    if (!renamed) return;
    // The intent of the file that was replaced stays until the commit of the new one.
    if (target) Forgo(*target);
    FileStat stat;
    const auto file = Consider(rename->to.c_str(), stat);
    // The sidecar of a member has parity that the others need.
    if (rename->had_sidecar && !rename->set && (!file || !file->set)) {
      const Options& options = EnvironmentSettings().options;
      const Status moved = FollowRename(PosixFileSystem(), options, rename->from, rename->to, {});
      if (!moved.ok()) Say(options, Options::Log::kInfo, fmt::format("{}: {}", rename->from, moved.message()));
      if (moved.ok()) return;
    }
    if (!file) return;
    const PlainFile number = Begin(file, stat);
    NoteOpened(file->path, file->failed.message(), /*plain=*/true);
    if (auto entry = Take(number)) {
      entry->begun.size = 0;  // all of it is new
      End(*entry);
    }
  });
}

void* PlainWillRemove(const char* path) {
  std::unique_ptr<Removal> removal;
  Guarded("unlink", [&] {
    const std::string real = PathToDelete(path);
    if (real.empty() || !HasSidecar(real)) return;
    Background::Get().AwaitAll();  // the next checkpoint must be committed before this one is gone
    removal = std::make_unique<Removal>(Removal{real, SetOf(real)});
    Hold(removal->set);
  });
  return removal.release();
}

void PlainDidRemove(void* token, bool removed) {
  Guarded("unlink", [&] {
    const std::unique_ptr<Removal> removal(static_cast<Removal*>(token));
    // Before it may be committed again.
    if (removed) ForgetDeleted(removal->path);
    Withdraw(removal->set, removed);
  });
}

// --------------------------------------------------------------------------------------------------- Members of sets

namespace {

void CommitMember(const std::shared_ptr<OpenFile>& file, bool in_background, std::function<void(const Status&)> done) {
  const auto commit = [file, done] {
    Sets* const sets = Sets::Get();
    Status status(Code::kIo, "MPI_Finalize has ended");
    if (sets != nullptr) status = NoThrow([&] { return sets->Commit(*file, Moment::kClose, /*data_safe=*/true); });
    done(status);
    // It is tried again, so nobody needs to know.
    return status.code() == Code::kBusy ? Status::Ok() : status;
  };
  const auto since = CommitTimes::Clock::now();
  bool begun = false;
  if (in_background) (void)NoThrow([&] { begun = Background::Get().Begin(file, since, commit); });
  if (begun) return;
  file->times = {since, std::nullopt};
  (void)NoThrow([&] { return commit(); });
}

std::shared_ptr<OpenFile> MakeMember(const SetName& set, bool busy) {
  const std::string path = ExpandPattern(set.pattern, Sets::Get()->rank());
  FileStat stat;
  std::shared_ptr<OpenFile> file;
  if (!busy) (void)NoThrow([&] { file = Consider(path.c_str(), stat); });
  if (file && file->set && file->set->id == set.id) {
    Registry::Get().Join(*file, stat.file_system, stat.inode);
    file->failed = BeginFirstEpoch(*file);
    return file;
  }
  file = std::make_shared<OpenFile>();
  file->path = path;
  file->options = EnvironmentSettings().options;
  file->comm = SelfCommunicator();
  file->plain = true;
  file->set = set;
  Registry::Get().Join(*file, 0, 0);
  file->failed = {Code::kBusy, "it is being written, or not there"};
  return file;
}

}  // namespace

Sets::PlainCalls CallsOfPlainMembers() {
  return {[] { return Background::Get().IsPossible(); }, CommitMember, MakeMember};
}

bool EnvironmentAnnouncesMembers() {
  const Settings& environment = EnvironmentSettings();
  return environment.status.ok() && AnnouncesMembers(environment.options);
}

void ReportOpenMembers() {
  Entries& entries = TheEntries();
  const std::lock_guard lock(entries.mutex);
  for (const auto& [number, entry] : entries.open) {
    if (!entry.file->set || !WasChanged(entry)) continue;
    Say(entry.file->options, Options::Log::kWarn,
        fmt::format("{}: not closed before MPI_Finalize; it stays at risk until the next commit", entry.file->path));
  }
}

}  // namespace lzy::hooks
