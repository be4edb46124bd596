// Locks and creates sidecars.
//
// Many processes may do this at once. A new sidecar is built under a random name and renamed. If another process was faster,
// its sidecar is used. After a process gets a lock, it checks the name again (StillNamed).

#include "dataset/lock.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/acl.h"
#include "base/late_file.h"
#include "base/node.h"
#include "base/printable.h"
#include "dataset/view.h"
#include "names/lookup.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"
#include "storage/past_cache.h"

namespace lzy {
namespace {

// Builds a complete, synced sidecar under a temporary name, and returns the name. Its contents only identify the file.
Result<std::string> BuildEmpty(FileSystem& fs, const std::string& path, File& like, const EmptySidecar& empty) {
  const std::string temporary = TemporarySidecarPath(path);
  LZY_ASSIGN_OR_RETURN(const FileStat stat, like.Stat());
  SidecarContents contents = empty.contents;
  SetIdentity(contents.superblock.stamp, stat);
  Status written;
  {
    auto fresh = Sidecar::Create(fs, temporary, contents, like);
    written = fresh.status();
    if (written.ok() && empty.intent) written = (*fresh)->SetIntent(*empty.intent);
    if (written.ok()) written = (*fresh)->WriteAll(std::move(contents));
  }
  if (written.ok()) return temporary;
  (void)fs.Remove(temporary);
  return written;
}

// Builds a sidecar and renames it to `path`. If several processes do this, one succeeds, and the others use its sidecar.
// `replace`: overwrites a ruined sidecar, which the caller has locked.
Status PutEmpty(FileSystem& fs, const std::string& path, File& like, const EmptySidecar& empty, bool replace) {
  LZY_ASSIGN_OR_RETURN(const std::string temporary, BuildEmpty(fs, path, like, empty));
  return GiveName(fs, temporary, path, replace);
}

// True if `path` still means the open file. A commit may have renamed another file to it.
Result<bool> StillNamed(FileSystem& fs, const std::string& path, File& file) {
  LZY_ASSIGN_OR_RETURN(const FileStat held, file.Stat());
  auto named = fs.Stat(path, /*follow=*/false);
  return named.ok() && named->inode == held.inode && named->file_system == held.file_system;
}

// Loads a sidecar. A sidecar that contradicts itself is an error, like one with wrong hashes. On failure, `file` keeps the
// file.
Result<std::unique_ptr<Sidecar>> LoadSound(std::shared_ptr<File>& file) {
  const std::string path = file->path();
  auto sidecar = Sidecar::Load(std::move(file), OpenMode::kReadWrite);
  if (!sidecar.ok()) return sidecar;
  const Status sound = CheckContents((*sidecar)->contents());
  if (sound.ok()) return sidecar;
  file = Sidecar::ReleaseFile(std::move(sidecar).value());
  return sound.WithContext(path);
}

// For messages: which process holds the lock. LockHolderHere finds a holder on this host. For other hosts, the file system's
// server may know the process. Otherwise the intent of the sidecar is the best guess.
std::string HolderText(FileSystem& fs, const std::string& path) {
  const auto file = fs.Open(path, OpenMode::kRead, /*follow=*/false);
  const auto stat = file.ok() ? (*file)->Stat() : Result<FileStat>(file.status());
  const std::string here = stat.ok() ? LockHolderHere(stat->inode) : std::string();
  if (!here.empty()) return fmt::format(": {}, on this host", here);
  const auto holder = file.ok() ? (*file)->FindLockHolder() : std::nullopt;
  const std::string number = holder && holder->process != 0 ? fmt::format(": process {}, of this host or another", holder->process) : "";
  const auto sidecar = Sidecar::Load(fs, path, OpenMode::kRead);
  if (!sidecar.ok() || !(*sidecar)->intent()) return number;
  const Intent& intent = *(*sidecar)->intent();
  return fmt::format("{}: perhaps process {} of {}, at work on it since {}", number, intent.pid, Printable(intent.host),
                     TimeText(intent.wall_time_ns));
}

// Pauses between attempts. The first is short, and each is half as long again as the one before, up to 1.5 s. Most network
// file systems notice changes by other nodes within a second.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Patience(std::chrono::milliseconds time) : end_(Clock::now() + time) {}
  bool is_over() const { return Clock::now() >= end_; }
  void Pause() {
    std::this_thread::sleep_until(std::min(Clock::now() + pause_, end_));
    pause_ = std::min<Clock::duration>(pause_ * 3 / 2, kLongest);
  }

 private:
  static constexpr std::chrono::milliseconds kLongest{1500};
  const Clock::time_point end_;
  Clock::duration pause_ = std::chrono::milliseconds(5);
};

// Opens the sidecar, and creates it first if `create` is given. Returns null if other processes keep creating and removing
// it. Pages in memory that another node may have changed are not used.
Result<std::shared_ptr<File>> OpenToLock(FileSystem& fs, const std::string& path, File* data, const EmptySidecar* create) {
  auto file = fs.Open(path, OpenMode::kReadWrite, /*follow=*/false);
  if (file.status().code() == Code::kNotFound && create != nullptr) {
    LZY_RETURN_IF_ERROR(PutEmpty(fs, path, *data, *create, /*replace=*/false));
    file = fs.Open(path, OpenMode::kReadWrite, /*follow=*/false);
    if (file.status().code() == Code::kNotFound) return std::shared_ptr<File>();
  }
  LZY_RETURN_IF_ERROR(file.status());
  const bool late = MaySeeLate(**file);
  return std::shared_ptr<File>(late ? ReadPastCache(std::move(file).value()) : std::move(file).value());
}

}  // namespace

// Only clears permission bits. Owner and group stay.
Status NarrowAccess(File& sidecar, File& data) {
  LZY_ASSIGN_OR_RETURN(const FileStat have, sidecar.Stat());
  LZY_ASSIGN_OR_RETURN(const FileStat want, data.Stat());
  LZY_ASSIGN_OR_RETURN(const Acl have_acl, sidecar.AccessAcl());
  LZY_ASSIGN_OR_RETURN(const Acl want_acl, data.AccessAcl());
  // As in File::CopyAccess, members of a file's group count as "others" for a sidecar with another group. An ACL that is not
  // that of the data grants nothing. If the sidecar has no ACL, it gets the permissions that remain without the ACL of the
  // data.
  std::uint32_t allowed = want.mode;
  if (have_acl != WithoutExecute(want_acl)) allowed = have_acl.empty() ? NarrowedMode(allowed, want_acl) : 0;
  if (have.gid != want.gid) allowed = ModeForOtherGroup(allowed);
  allowed &= 0066;
  if ((have.mode & 0066 & ~allowed) == 0) return Status::Ok();
  return sidecar.SetAccess((have.mode & 0600) | (have.mode & allowed), have.uid, have.gid);
}

// Removes only `temporary`, because `path` may be the sidecar of another process.
Status GiveName(FileSystem& fs, const std::string& temporary, const std::string& path, bool replace) {
  const auto rename = [&]() -> Result<bool> {
    if (!replace) return fs.RenameIfAbsent(temporary, path);
    LZY_RETURN_IF_ERROR(fs.Rename(temporary, path));
    return true;
  };
  const Result<bool> named = rename();
  if (!named.ok() || !*named) (void)fs.Remove(temporary);
  return named.ok() ? fs.SyncDirectory(DirectoryOf(path)) : named.status();
}

bool IsRuined(const Status& loading) {
  return loading.code() == Code::kUnprotected || loading.code() == Code::kCorrupt;
}

Status MakeSidecar(FileSystem& fs, const std::string& path, File& data, const EmptySidecar& empty) {
  return PutEmpty(fs, path, data, empty, /*replace=*/false);
}

// Waits by trying again, because the locked file may have lost its name meanwhile. Uses the same descriptor while the name
// means that file: a server may keep the lock of a closed descriptor, or of a killed process, as long as others open the
// file again and again.
Result<std::unique_ptr<Sidecar>> LockSidecar(FileSystem& fs, const std::string& path, File* data,
                                             const EmptySidecar* create, std::uint32_t timeout_seconds,
                                             std::shared_ptr<File>* ruins, std::shared_ptr<File> held) {
  constexpr std::chrono::milliseconds kSeenLate{2500};
  Patience patience{std::chrono::seconds(timeout_seconds)}, late{kSeenLate};
  std::shared_ptr<File> file = std::move(held);  // locking it again does nothing
  bool replaced = false;
  for (;;) {
    if (!file) {
      LZY_ASSIGN_OR_RETURN(file, OpenToLock(fs, path, data, create));
    }
    Status locked = file ? file->Lock() : Status(Code::kBusy, "");
    // The previous holder of the lock may be on another node.
    if (locked.ok()) locked = Refresh(*file);
    // Another node has replaced or removed the file, and this node did not know it when it opened the file.
    const bool gone = locked.code() == Code::kNotFound;
    // Not kNotFound: the name exists, so no caller may conclude that there is no sidecar.
    if (gone && late.is_over()) return {Code::kBusy, locked.message()};
    if (!locked.ok() && locked.code() != Code::kBusy && !gone) return locked;
    bool named = false;
    if (file && !gone) {
      LZY_ASSIGN_OR_RETURN(named, StillNamed(fs, path, *file));
    }
    if (locked.ok() && named) {
      // Load under the lock, so that nothing is out of date.
      auto sidecar = LoadSound(file);
      if (sidecar.ok()) (*sidecar)->MayReplaceFileIn(fs);
      if (sidecar.ok() && data != nullptr) (void)NarrowAccess((*sidecar)->file(), *data);
      const bool ruined = IsRuined(sidecar.status());
      const bool kept = ruined || sidecar.status().code() == Code::kUnreadable;
      if (kept && create == nullptr && ruins != nullptr) *ruins = std::move(file);
      if (!ruined || create == nullptr) return sidecar;
      LZY_RETURN_IF_ERROR(PutEmpty(fs, path, *data, *create, /*replace=*/true));
      file.reset();
      if (!std::exchange(replaced, true)) continue;  // try at least once more, even if the time is over
    }
    if (!named) file.reset();
    if (!gone && patience.is_over()) {
      return {Code::kBusy,
              fmt::format("{}: another process is committing or repairing this dataset{}", path, HolderText(fs, path))};
    }
    if (!locked.ok()) (gone ? late : patience).Pause();
  }
}

// The geometry is the smallest that the format accepts; the first commit replaces it. Options are recorded, so the first
// commit finds those with which the file was opened.
EmptySidecar NewSidecar(const Options& options, DatasetKind kind, const std::string& name, std::uint32_t rank) {
  EmptySidecar empty;
  SidecarContents& contents = empty.contents;
  Superblock& sb = contents.superblock;
  sb.uuid = NewUuid();
  sb.state = SidecarState::kNeverCommitted;
  sb.kind = kind;
  sb.placement = kind == DatasetKind::kSet ? ParityPlacement::kPerDevice : ParityPlacement::kPooled;
  sb.block_size = ChooseBlockSize(options.block_size, 0);
  sb.unit = sb.block_size;
  sb.members = 1;
  sb.largest_group = 1;
  sb.rank = rank;
  contents.info.name = name;
  contents.info.stripe_option = options.stripe;
  contents.info.group_option = options.group;
  return empty;
}

}  // namespace lzy
