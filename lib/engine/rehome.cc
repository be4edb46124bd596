#include "engine/rehome.h"

#include <optional>

#include "engine/resolve.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy {
namespace {

// The file in `directory` that has this stamp, if any.
std::optional<std::string> FileWithStamp(FileSystem& fs, const std::string& directory, const Stamp& stamp) {
  auto names = fs.List(directory);
  if (!names.ok()) return std::nullopt;
  for (const std::string& name : *names) {
    if (IsLzyName(name)) continue;
    const std::string path = JoinPath(directory, name);
    auto stat = fs.Stat(path, /*follow=*/false);
    if (stat.ok() && stat->inode == stamp.inode && stat->size == stamp.size && stat->mtime_ns == stamp.mtime_ns)
      return path;
  }
  return std::nullopt;
}

}  // namespace

Result<std::string> Rehome(FileSystem& fs, const std::string& data_path) {
  LZY_ASSIGN_OR_RETURN(const std::string real, fs.RealPath(data_path));
  LZY_ASSIGN_OR_RETURN(const std::string own, SidecarPath(real));
  const std::string directory = DirectoryOf(real);
  auto data = fs.Stat(real);
  auto sidecar = Sidecar::Load(fs, own, OpenMode::kRead);
  if (sidecar.ok() && (*sidecar)->committed()) {
    const Stamp& stamp = (*sidecar)->contents().superblock.stamp;
    if (data.ok() && data->inode != stamp.inode) {
      auto owner = FileWithStamp(fs, directory, stamp);
      if (owner && *owner != real) {
        LZY_ASSIGN_OR_RETURN(const std::string home, SidecarPath(*owner));
        LZY_RETURN_IF_ERROR(fs.Rename(own, home));
        LZY_RETURN_IF_ERROR(fs.SyncDirectory(directory));
      }
    }
  }
  auto found = FindSidecar(fs, real);
  if (found.ok() && BaseNameOf(*found) != BaseNameOf(own)) {
    LZY_RETURN_IF_ERROR(fs.Rename(*found, own));
    LZY_RETURN_IF_ERROR(fs.SyncDirectory(directory));
  }
  return own;
}

}  // namespace lzy
