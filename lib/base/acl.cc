#include "base/acl.h"

#include <cstddef>

namespace lzy {
namespace {

constexpr std::size_t kHeader = 4, kEntry = 8, kPermissions = 2;
constexpr std::uint32_t kVersion = 2;
// Tags of entries.
enum : std::uint16_t { kOwner = 0x01, kUser = 0x02, kOwnGroup = 0x04, kGroup = 0x08, kMask = 0x10, kOther = 0x20 };

/// The permissions that an ACL grants, each from 0 to 7.
struct Allowed {
  std::uint32_t group = 0;   ///< the file's own group
  std::uint32_t mask = 7;
  std::uint32_t users = 7;   ///< all users of the list
  std::uint32_t groups = 7;  ///< all groups of the list
};

}  // namespace

Acl WithoutExecute(Acl acl) {
  for (std::size_t at = kHeader; at + kEntry <= acl.size(); at += kEntry) {
    std::uint8_t* permissions = acl.data() + at + kPermissions;
    StoreLe(permissions, static_cast<std::uint16_t>(LoadLe<std::uint16_t>(permissions) & ~1u));
  }
  return acl;
}

// Entries of users come before those of groups. So a listed user may be a member of the file's group, or one of the others.
// A member of a listed group may be in the file's group, too; then one of the two entries is enough.
std::uint32_t NarrowedMode(std::uint32_t mode, const Acl& acl) {
  constexpr std::uint32_t kOwnerAndSpecial = 07700;
  if (acl.empty()) return mode;
  if (acl.size() < kHeader || (acl.size() - kHeader) % kEntry != 0 || LoadLe<std::uint32_t>(acl.data()) != kVersion) {
    return mode & kOwnerAndSpecial;
  }
  Allowed allowed;
  for (std::size_t at = kHeader; at < acl.size(); at += kEntry) {
    const std::uint32_t permissions = LoadLe<std::uint16_t>(acl.data() + at + kPermissions) & 7u;
    switch (LoadLe<std::uint16_t>(acl.data() + at)) {
      case kOwner: case kOther: break;  // these are in the mode
      case kUser: allowed.users &= permissions; break;
      case kOwnGroup: allowed.group = permissions; break;
      case kGroup: allowed.groups &= permissions; break;
      case kMask: allowed.mask = permissions; break;
      default: return mode & kOwnerAndSpecial;
    }
  }
  const std::uint32_t group = allowed.group & allowed.mask & allowed.users;
  const std::uint32_t others = mode & allowed.users & allowed.groups & 7u;
  return (mode & kOwnerAndSpecial) | group << 3 | others;
}

std::uint32_t RecordedMode(std::uint32_t mode, const Acl& acl) {
  return NarrowedMode(mode, acl) | (acl.empty() ? 0 : kModeHadAcl);
}

Result<FileStat> StatToRecord(File& file) {
  LZY_ASSIGN_OR_RETURN(FileStat stat, file.Stat());
  LZY_ASSIGN_OR_RETURN(const Acl acl, file.AccessAcl());
  stat.mode = RecordedMode(stat.mode, acl);
  return stat;
}

std::uint32_t ModeForOtherGroup(std::uint32_t mode) {
  const std::uint32_t others = mode & mode >> 3 & 7u;
  return (mode & 05700) | others << 3 | others;
}

std::uint32_t WithExecute(std::uint32_t has, std::uint32_t from) {
  std::uint32_t mode = has | (from & 07000);
  for (const std::uint32_t who : {0700u, 0070u, 0007u}) {
    if ((has & who & 0666) == (from & who & 0666)) mode |= from & who & 0111;
  }
  return mode;
}

}  // namespace lzy
