// Sidecars under their commit lock, and their making where there is none yet.
//
// Every step is safe against others who do the same: a sidecar is built under a random name and renamed, and whoever
// loses the race uses what the winner made. After taking a lock, the name is looked at again (StillNamed).

#include "dataset/lock.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

#include "base/acl.h"
#include "base/node.h"
#include "base/printable.h"
#include "dataset/view.h"
#include "names/lookup.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// A sidecar that says nothing yet but of whom it is, whole and durable under a name of its own.
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

// Puts one under its name. Of several processes that do this where there is none one succeeds; the others use what it
// made. `replace`: in place of ruins, whose lock the caller holds.
Status PutEmpty(FileSystem& fs, const std::string& path, File& like, const EmptySidecar& empty, bool replace) {
  LZY_ASSIGN_OR_RETURN(const std::string temporary, BuildEmpty(fs, path, like, empty));
  return GiveName(fs, temporary, path, replace);
}

// True when `path` still means the open file: a commit may have renamed another one to it.
Result<bool> StillNamed(FileSystem& fs, const std::string& path, File& file) {
  LZY_ASSIGN_OR_RETURN(const FileStat held, file.Stat());
  auto named = fs.Stat(path, /*follow=*/false);
  return named.ok() && named->inode == held.inode && named->device == held.device;
}

// What contradicts itself is as useless as what has the wrong hashes. On failure the file stays where it is.
Result<std::unique_ptr<Sidecar>> LoadSound(std::shared_ptr<File>& file) {
  const std::string path = file->path();
  auto sidecar = Sidecar::Load(std::move(file), OpenMode::kReadWrite);
  if (!sidecar.ok()) return sidecar;
  const Status sound = CheckContents((*sidecar)->contents());
  if (sound.ok()) return sidecar;
  file = Sidecar::ReleaseFile(std::move(sidecar).value());
  return sound.WithContext(path);
}

// For messages: who may be meant by "another process". A lock itself does not tell. A holder on this host can be
// looked for (LockHolderHere). Of one elsewhere, only its intent may tell.
std::string HolderText(FileSystem& fs, const std::string& path) {
  const auto stat = fs.Stat(path, /*follow=*/false);
  const std::string here = stat.ok() ? LockHolderHere(stat->inode) : std::string();
  if (!here.empty()) return fmt::format(": {}, on this host", here);
  const auto sidecar = Sidecar::Load(fs, path, OpenMode::kRead);
  if (!sidecar.ok() || !(*sidecar)->intent()) return {};
  const Intent& intent = *(*sidecar)->intent();
  return fmt::format(": perhaps process {} of {}, at work on it since {}", intent.pid, Printable(intent.host),
                     TimeText(intent.wall_time_ns));
}

}  // namespace

// Only bits are taken away. The owner and the group stay.
Status NarrowAccess(File& sidecar, File& data) {
  LZY_ASSIGN_OR_RETURN(const FileStat have, sidecar.Stat());
  LZY_ASSIGN_OR_RETURN(const FileStat want, data.Stat());
  LZY_ASSIGN_OR_RETURN(const Acl have_acl, sidecar.AccessAcl());
  LZY_ASSIGN_OR_RETURN(const Acl want_acl, data.AccessAcl());
  // As File::CopyAccess has it: of a file with another group its members are "others". An ACL that is not that of the
  // data grants nothing. If the sidecar has none, it gets what is left without the ACL of the data.
  std::uint32_t allowed = want.mode;
  if (have_acl != WithoutExecute(want_acl)) allowed = have_acl.empty() ? NarrowedMode(allowed, want_acl) : 0;
  if (have.gid != want.gid) allowed = ModeForOtherGroup(allowed);
  allowed &= 0066;
  if ((have.mode & 0066 & ~allowed) == 0) return Status::Ok();
  return sidecar.SetAccess((have.mode & 0600) | (have.mode & allowed), have.uid, have.gid);
}

// Nothing but the temporary is removed: a name that somebody else has given is his.
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

// Waits by trying again, since a lock that is waited for could be on a file that has lost its name meanwhile.
Result<std::unique_ptr<Sidecar>> LockSidecar(FileSystem& fs, const std::string& path, File* data,
                                             const EmptySidecar* create, std::uint32_t timeout_seconds,
                                             std::shared_ptr<File>* ruins) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_seconds);
  bool replaced = false;
  const auto open = [&]() -> Result<std::shared_ptr<File>> {
    LZY_ASSIGN_OR_RETURN(std::shared_ptr<File> file, fs.Open(path, OpenMode::kReadWrite, /*follow=*/false));
    return file;
  };
  for (;;) {
    auto file = open();
    if (file.status().code() == Code::kNotFound && create != nullptr) {
      LZY_RETURN_IF_ERROR(PutEmpty(fs, path, *data, *create, /*replace=*/false));
      file = open();
    }
    const bool gone = file.status().code() == Code::kNotFound && create != nullptr;
    if (!file.ok() && !gone) return file.status();
    const Status locked = gone ? Status(Code::kBusy, "") : (*file)->Lock();
    if (!locked.ok() && locked.code() != Code::kBusy) return locked;
    if (locked.ok()) {
      LZY_ASSIGN_OR_RETURN(const bool named, StillNamed(fs, path, **file));
      if (named) {
        // Read under the lock, so that nothing in it is old.
        auto sidecar = LoadSound(*file);
        if (sidecar.ok() && data != nullptr) (void)NarrowAccess((*sidecar)->file(), *data);
        const bool ruined = IsRuined(sidecar.status());
        const bool held = ruined || sidecar.status().code() == Code::kUnreadable;
        if (held && create == nullptr && ruins != nullptr) *ruins = std::move(*file);
        if (!ruined || create == nullptr) return sidecar;
        LZY_RETURN_IF_ERROR(PutEmpty(fs, path, *data, *create, /*replace=*/true));
        if (!std::exchange(replaced, true)) continue;  // however little time there is
      }
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return {Code::kBusy,
              fmt::format("{}: another process is committing or repairing this dataset{}", path, HolderText(fs, path))};
    }
    if (!locked.ok()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// The geometry is the smallest that the format accepts, and means nothing: a commit replaces all of it. The options are
// recorded, so the first commit finds what the file was opened with.
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
