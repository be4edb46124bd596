#include "common/moved_in_tree.h"

#include <map>
#include <mutex>
#include <utility>

#include "common/paths.h"
#include "names/content_match.h"
#include "names/membership.h"
#include "names/peek.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy {
namespace {

// The most files that are compared with one sidecar.
constexpr std::size_t kMostCompared = 8;

// Kept with the file system.
class FilesBelow {
 public:
  void Set(std::function<std::vector<std::string>()> directories) {
    const std::lock_guard lock(mutex_);
    directories_ = std::move(directories);
  }

  std::vector<std::string> Files(FileSystem& fs, const Stamp& stamp) {
    const std::lock_guard lock(mutex_);
    if (directories_) {
      for (const std::string& directory : std::exchange(directories_, nullptr)()) List(fs, directory);
    }
    std::vector<std::string> paths;
    const auto [begin, end] = files_.equal_range({stamp.size, stamp.mtime_ns});
    for (auto at = begin; at != end; ++at) paths.push_back(at->second);
    return paths;
  }

 private:
  void List(FileSystem& fs, const std::string& directory) {
    const auto names = fs.List(directory.empty() ? "." : directory);
    for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
      const std::string path = JoinPath(directory, name);
      const auto stat = IsLzyName(name) ? Result<FileStat>(Code::kNotFound, path) : fs.Stat(path, /*follow=*/false);
      const bool regular = stat.ok() && stat->type == FileStat::Type::kRegular;
      if (regular) files_.emplace(std::pair(stat->size, stat->mtime_ns), path);
    }
  }

  std::mutex mutex_;
  std::function<std::vector<std::string>()> directories_;
  std::multimap<std::pair<std::uint64_t, std::int64_t>, std::string> files_;  // by size and mtime
};

}  // namespace

void LookForMovedIn(FileSystem& fs, std::function<std::vector<std::string>()> directories) { fs.Memo<FilesBelow>().Set(std::move(directories)); }

std::optional<MovedFile> FindMoved(FileSystem& fs, const std::string& sidecar, const LeafKey* key) {
  const auto loaded = Sidecar::Load(fs, sidecar, OpenMode::kRead);
  if (!loaded.ok() || !(*loaded)->committed()) return std::nullopt;
  std::optional<MovedFile> found;
  std::size_t compared = 0;
  for (const std::string& path : fs.Memo<FilesBelow>().Files(fs, (*loaded)->contents().superblock.stamp)) {
    const auto own = SidecarPath(path);
    if ((own.ok() && IsThere(fs, *own)) || IsClaimedByASet(fs, path)) continue;
    if (++compared > kMostCompared) break;
    const auto whole = HoldsCommitted(fs, path, **loaded, key);
    if (whole.ok() && *whole) return MovedFile{path, true};
    if (!found && IsMostlyAs(fs, path, **loaded, key)) found = MovedFile{path, false};
  }
  return found;
}

}  // namespace lzy
