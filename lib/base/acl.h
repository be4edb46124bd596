#pragma once
// POSIX access ACLs: the permissions that an ACL grants, and functions that give a file the access of another file, or a
// recorded access, without granting anybody more.
//
// An ACL is in the format of File::AccessAcl: linux/posix_acl_xattr.h, u32 version, then entries of u16 tag, u16
// permissions, u32 id, all little-endian. With an ACL, the group bits of a mode are the mask of the ACL, not the
// permissions of the group.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"

namespace lzy {

using Acl = std::vector<std::uint8_t>;

/// Names of the extended attributes with the ACLs of a file or directory.
inline constexpr const char* kAccessAcl = "system.posix_acl_access";
inline constexpr const char* kDefaultAcl = "system.posix_acl_default";

/// In a recorded mode (docs/format.md §5): the file had an ACL, which permission bits cannot express.
inline constexpr std::uint32_t kModeHadAcl = 1u << 16;

/// The ACL without the execute permission of any entry.
Acl WithoutExecute(Acl acl);

/// Permission bits for a file without the ACL that grant nobody more than the ACL did. The group gets the permissions in
/// both its entry and the mask. An entry can also deny, so group and others get nothing that an entry of a user or group
/// denies. An empty ACL changes nothing. For an unreadable ACL, only the owner's bits are left.
std::uint32_t NarrowedMode(std::uint32_t mode, const Acl& acl);
/// NarrowedMode, with kModeHadAcl if there is an ACL.
std::uint32_t RecordedMode(std::uint32_t mode, const Acl& acl);
/// Stat, with RecordedMode as the mode.
Result<FileStat> StatToRecord(File& file);
/// The mode (07777) for a file that gets another group than the one of `mode`. Members of the old group are others now, and
/// get no more than they had. The new group gets the permissions of others.
std::uint32_t ModeForOtherGroup(std::uint32_t mode);
/// Adds execute and special bits to `has`, the mode of a file after File::CopyAccess from a file with mode `from`. Each
/// class gets execute permission only if it got all other permissions of `from`.
std::uint32_t WithExecute(std::uint32_t has, std::uint32_t from);

/// A substitute for a file that no longer exists, or not yet, as argument of File::CopyAccess: has this owner, mode and
/// ACL.
class AccessOf final : public ReadOnlyFile {
 public:
  AccessOf(std::string path, FileStat stat, Acl acl)
      : ReadOnlyFile(std::move(path)), stat_(std::move(stat)), acl_(std::move(acl)) {}
  Result<FileStat> Stat() override { return stat_; }
  Result<std::vector<std::uint8_t>> AccessAcl() override { return acl_; }

 private:
  const FileStat stat_;
  const Acl acl_;
};

}  // namespace lzy
