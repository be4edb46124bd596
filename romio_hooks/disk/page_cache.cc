#include "hooks/disk/page_cache.h"

#include <sys/statfs.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace lzy::hooks {
namespace {

// Magic numbers of statfs(2).
constexpr std::array<std::uint64_t, 4> kWithoutPages = {
    0x19830326,  // BeeGFS: its usual cache has some hundred KiB
    0x20030528,  // OrangeFS (PVFS2)
    0x65735546,  // FUSE: pages go when a file is opened again, as lzy does (not if it is mounted with keep_cache)
    0x01021997,  // 9P: its usual cache mode is none
};

}  // namespace

bool PagesStay(const std::string& path) {
  struct statfs about {};
  if (statfs(path.c_str(), &about) != 0) return true;
  return std::ranges::find(kWithoutPages, static_cast<std::uint64_t>(about.f_type)) == kWithoutPages.end();
}

}  // namespace lzy::hooks
