#pragma once
// What a POSIX access ACL allows, and how a file gets the access of another one, or a recorded one, without anybody
// getting more.
//
// An ACL is as File::AccessAcl has it: linux/posix_acl_xattr.h, u32 version, then entries of u16 tag, u16 permissions, u32
// id, all little-endian. With an ACL, the group bits of a mode are its mask, and not what the group may do.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"

namespace lzy {

using Acl = std::vector<std::uint8_t>;

/// Extended attributes that hold the ACLs of a file or directory.
inline constexpr const char* kAccessAcl = "system.posix_acl_access";
inline constexpr const char* kDefaultAcl = "system.posix_acl_default";

/// In a mode that is recorded (docs/format.md §5): the file had an ACL, which the permission bits cannot show.
inline constexpr std::uint32_t kModeHadAcl = 1u << 16;

/// The ACL without the execute permission of any entry.
Acl WithoutExecute(Acl acl);

/// The permission bits that, without the ACL, let nobody do what he could not do with it: the group gets what its entry
/// and the mask allow. An entry can also deny, so group and others get nothing that one of the entries of users and
/// groups denies. An empty ACL changes nothing. Of an ACL that cannot be read, only the owner's bits are left.
std::uint32_t NarrowedMode(std::uint32_t mode, const Acl& acl);
/// NarrowedMode, with kModeHadAcl if there is an ACL.
std::uint32_t RecordedMode(std::uint32_t mode, const Acl& acl);
/// Stat, with RecordedMode as the mode.
Result<FileStat> StatToRecord(File& file);
/// The mode (07777) for a file that belongs to another group than the one that `mode` is about: members of that group are
/// others now, and get no more than they had. The group that the file has instead gets what others have.
std::uint32_t ModeForOtherGroup(std::uint32_t mode);
/// `has` is the mode of a file that has taken over the access of another one of the mode `from` (File::CopyAccess). The
/// mode with the execute and special bits too: each class gets execute permission only if it got everything else.
std::uint32_t WithExecute(std::uint32_t has, std::uint32_t from);

/// A file that there is no more, or not yet, for File::CopyAccess: it has this owner, mode and ACL.
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
