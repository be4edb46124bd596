#include "repair/other_names.h"

#include <algorithm>

#include "names/lookup.h"
#include "names/reach.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy {
namespace {

// True if the sidecar has the same leaves of all blocks that are written, and the same size.
bool Suits(const SidecarContents& other, const Written& written) {
  if (other.superblock.stamp.size != written.size) return false;
  if (other.data_tree.Root() == written.leaves.Root()) return true;
  if (other.superblock.block_size != written.block_size || other.data_tree.leaf_count() != written.leaves.leaf_count()) return false;
  return std::ranges::all_of(written.ranges, [&](const ByteRange& range) {
    const std::uint64_t end = std::min((range.offset + range.length + written.block_size - 1) / written.block_size, written.leaves.leaf_count());
    for (std::uint64_t block = range.offset / written.block_size; block < end; ++block) {
      if (other.data_tree.leaf(block) != written.leaves.leaf(block)) return false;
    }
    return true;
  });
}

}  // namespace

std::string SidecarThatDiffers(FileSystem& fs, const std::string& data_path, const FileStat& stat, const Written& written) {
  if (stat.links <= 1) return "";
  const std::string directory = DirectoryOf(data_path);
  std::vector<std::string> sidecars = SidecarsInReach(fs, directory);
  Directory around(fs, directory);
  for (const std::string& name : around.Sidecars()) sidecars.push_back(around.PathOf(name));
  for (const std::string& path : sidecars) {
    const auto owner = DataPathOf(path);
    const auto named = owner ? fs.Stat(*owner, /*follow=*/false) : Result<FileStat>(Code::kNotFound, path);
    if (!named.ok() || named->inode != stat.inode || named->file_system != stat.file_system) continue;
    if (BaseNameOf(*owner) == BaseNameOf(data_path) && fs.RealPath(*owner).ok() && *fs.RealPath(*owner) == data_path) continue;
    const auto loaded = Sidecar::Load(fs, path, OpenMode::kRead);
    if (loaded.ok() && (*loaded)->committed() && !Suits((*loaded)->contents(), written)) return path;
  }
  return "";
}

}  // namespace lzy
