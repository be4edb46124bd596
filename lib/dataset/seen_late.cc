#include "dataset/seen_late.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

namespace lzy {

Status LookAgain(FileSystem& fs, const std::string& directory, const std::function<Status()>& look) {
  using std::chrono::milliseconds;
  constexpr milliseconds kLongest{1600};
  Status seen = look();
  for (milliseconds pause{0}; !seen.ok() && pause < kLongest; pause = 2 * pause + milliseconds(25)) {
    std::this_thread::sleep_for(pause);
    (void)fs.List(directory);
    seen = look();
  }
  return seen;
}

// With clocks of whole seconds, a file and the one that it replaced may have the same time.
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
