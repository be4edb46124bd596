#pragma once
// How the file system spreads a file over its servers, as it tells it: Lustre, BeeGFS, GlusterFS, CephFS (docs/design/overview.md §3,
// "Servers of a file system"). No library of these is used. What they say comes from another machine and is hostile: each
// parser checks every bound.
//
// dataset/ and commit/ ask here for option stripe=servers, and lzy-info for what it prints. geometry/stripes says what
// follows from it.

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "geometry/stripes.h"

namespace lzy {

/// No value: the file system tells nothing, as most do. kInvalidArgument: what it tells makes no sense.
using Stripes = Result<std::optional<StripeLayout>>;

/// How `file` is striped. One operation (BeeGFS: one, and one for each server); none where the file system of this device is
/// known to tell nothing. What cannot be had, for whatever reason, is not told.
Stripes StripesOf(FileSystem& fs, File& file);

/// The extended attribute `lustre.lov`: struct lov_user_md of version 1 or 3, or a composite layout (struct
/// lov_comp_md_v1), in either byte order. Servers are OSTs, "OST000a" with the index in hexadecimal as Lustre names them;
/// the data that a layout has on the metadata server are on "MDT".
Stripes ParseLustre(ByteSpan attribute);
/// The attribute `ceph.file.layout`. It tells no servers: CephFS places each object by its own rules.
Stripes ParseCeph(std::string_view attribute);
/// The attribute `glusterfs.pathinfo`: on which bricks a file is. The servers of a replica are one place.
Stripes ParseGluster(std::string_view attribute);
/// What the ioctl BEEGFS_IOC_GET_STRIPEINFO fills in (`info`), and what BEEGFS_IOC_GET_STRIPETARGET_V2 does for each target,
/// in the byte order of this machine.
Stripes ParseBeegfs(ByteSpan info, const std::vector<std::vector<std::uint8_t>>& targets);
inline constexpr std::size_t kBeegfsInfoBytes = 12, kBeegfsTargetBytes = 536;

/// What StripesOf remembers of a file system (FileSystem::Memo). Tests of what nobody here can mount put `answer` there.
struct StripeMemo {
  enum class Kind { kNone, kLustre, kCeph, kGluster, kBeegfs, kFuse };
  std::mutex mutex;
  std::map<std::uint64_t, Kind> kinds;  ///< by st_dev
  std::function<Stripes(File& file)> answer;
};

}  // namespace lzy
