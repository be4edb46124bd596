#pragma once
// Asks the file system how it distributes a file over its servers: Lustre, BeeGFS, GlusterFS, CephFS
// (docs/design/overview.md §3, "Servers of a file system"). Uses none of their libraries. Answers come from another machine
// and may be hostile, so each parser checks every bound.
//
// dataset/ and commit/ use it for option stripe=servers, lzy-info for its output. geometry/stripes evaluates the result.

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "geometry/stripes.h"

namespace lzy {

/// nullopt: the file system reports nothing, like most file systems. kInvalidArgument: its answer is invalid.
using Stripes = Result<std::optional<StripeLayout>>;

/// The stripes of `file`. Costs one operation (BeeGFS: one more for each server), or none if the file system with this
/// st_dev is known to report nothing. Returns nullopt if the answer cannot be read for any reason.
Stripes StripesOf(FileSystem& fs, File& file);

/// Parses the extended attribute `lustre.lov`: struct lov_user_md of version 1 or 3, or a composite layout (struct
/// lov_comp_md_v1), in either byte order. Servers are OSTs, named "OST000a" with the index in hexadecimal, as in Lustre.
/// Data on the metadata server are on "MDT".
Stripes ParseLustre(ByteSpan attribute);
/// Parses the attribute `ceph.file.layout`. It names no servers, because CephFS computes the place of each object.
Stripes ParseCeph(std::string_view attribute);
/// Parses the attribute `glusterfs.pathinfo`: the bricks of a file. All servers of a replica count as one server.
Stripes ParseGluster(std::string_view attribute);
/// Parses the results of the ioctls BEEGFS_IOC_GET_STRIPEINFO (`info`) and BEEGFS_IOC_GET_STRIPETARGET_V2 (for each
/// target), in the byte order of this machine.
Stripes ParseBeegfs(ByteSpan info, const std::vector<std::vector<std::uint8_t>>& targets);
inline constexpr std::size_t kBeegfsInfoBytes = 12, kBeegfsTargetBytes = 536;

/// Facts about file systems that StripesOf remembers (FileSystem::Memo). Tests set `answer` for file systems that they
/// cannot mount.
struct StripeMemo {
  enum class Kind { kNone, kLustre, kCeph, kGluster, kBeegfs, kFuse };
  std::mutex mutex;
  std::map<std::uint64_t, Kind> kinds;  ///< by st_dev
  std::function<Stripes(File& file)> answer;
};

}  // namespace lzy
