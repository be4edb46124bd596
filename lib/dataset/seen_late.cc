#include "dataset/seen_late.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <tuple>
#include <utility>

#include "base/late_file.h"
#include "comm/records.h"
#include "storage/past_cache.h"

namespace lzy {
namespace {

using std::chrono::milliseconds;

// Calls `seen` until it returns true. There is no pause before the first call; each later pause is more than twice as long
// as the one before.
template <class Seen>
void UntilSeen(milliseconds longest, const Seen& seen) {
  for (milliseconds pause{0}; pause < longest; pause = 2 * pause + milliseconds(25)) {
    std::this_thread::sleep_for(pause);
    if (seen()) return;
  }
}

// These make all pauses together about three seconds, and one and a half.
constexpr milliseconds kPatient{1600}, kShort{800};

}  // namespace

Status LookAgain(FileSystem& fs, const std::string& directory, const std::function<Status()>& look) {
  Status seen = look();
  if (seen.ok()) return seen;
  UntilSeen(kPatient, [&] {
    (void)fs.List(directory);
    seen = look();
    return seen.ok();
  });
  return seen;
}

// An open may succeed on a file that was replaced; Refresh finds that out. A list of the directory updates its names.
Result<std::unique_ptr<File>> OpenNewest(FileSystem& fs, const std::string& path, OpenMode mode) {
  const auto look = [&]() -> Result<std::unique_ptr<File>> {
    LZY_ASSIGN_OR_RETURN(auto file, fs.Open(path, mode, /*follow=*/false));
    if (!MaySeeLate(*file)) return file;
    LZY_RETURN_IF_ERROR(Refresh(*file));
    return ReadPastCache(std::move(file));
  };
  auto found = look();
  if (found.ok()) return found;
  (void)fs.List(DirectoryOf(path));
  return look();
}

Result<FileStat> StatNewest(FileSystem& fs, const std::string& path) {
  const auto seen = fs.Stat(path);
  if (!seen.ok() || seen->type != FileStat::Type::kRegular) return seen;
  const auto file = OpenNewest(fs, path, OpenMode::kRead);
  if (file.ok()) return (*file)->Stat();
  return file.status().code() == Code::kNotFound ? Result<FileStat>(file.status()) : seen;
}

Result<FileStat> StatPatiently(File& file, const FileStat& known) {
  Result<FileStat> seen = file.Stat();
  const auto is_newer = [&] { return !seen.ok() || seen->size != known.size || seen->mtime_ns != known.mtime_ns; };
  if (is_newer() || !MaySeeLate(file)) return seen;
  UntilSeen(kShort, [&] {
    const Status refreshed = Refresh(file);
    seen = refreshed.ok() || refreshed.code() == Code::kNotFound ? file.Stat() : refreshed;
    return is_newer();
  });
  return seen;
}

Status SeeAlike(Communicator& comm, File& file) {
  Status status;
  UntilSeen(kPatient, [&] {
    std::tuple<std::uint64_t, std::int64_t> mine;
    status = AgreeOn(comm, [&]() -> Status {
      LZY_RETURN_IF_ERROR(Refresh(file));
      LZY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
      mine = {stat.size, stat.mtime_ns};
      return Status::Ok();
    });
    if (!status.ok()) return true;
    const auto all = AllGatherRecords(comm, mine);
    status = Agree(comm, all.status());
    return !status.ok() || std::ranges::all_of(*all, [&](const auto& one) { return one == (*all)[0]; });
  });
  return status;
}

// The inode is compared if possible, because with clocks of whole seconds a file and the one that it replaced may have the
// same time.
Result<std::unique_ptr<File>> OpenSame(FileSystem& fs, const std::string& path, const FileStat& theirs, bool by_inode, OpenMode mode) {
  std::unique_ptr<File> found;
  LZY_RETURN_IF_ERROR(LookAgain(fs, DirectoryOf(path), [&]() -> Status {
    LZY_ASSIGN_OR_RETURN(auto file, fs.Open(path, mode, /*follow=*/false));
    LZY_ASSIGN_OR_RETURN(const FileStat stat, file->Stat());
    const bool same = by_inode ? stat.inode == theirs.inode : stat.size == theirs.size && stat.mtime_ns == theirs.mtime_ns;
    if (!same) return SeesAnotherSidecar(path);
    found = std::move(file);
    return Status::Ok();
  }));
  return found;
}

Status SeesAnotherSidecar(const std::string& path) {
  return {Code::kIo, fmt::format("{}: ranks see different sidecars; is the directory shared by all of them?", path)};
}

}  // namespace lzy
