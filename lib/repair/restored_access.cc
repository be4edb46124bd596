#include "repair/restored_access.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/acl.h"

namespace lzy {
namespace {

constexpr std::uint32_t kReadWrite = 0666, kGroup = 0070, kNotOwner = 0077, kSetId = 06000;

// Owner and group in a sidecar are only as trustworthy as the owner of the sidecar. Otherwise a user who forges a sidecar
// could make the superuser give files, with set-id bits, to anybody. So set-id bits are dropped first, unless all sidecars
// are the superuser's. If the sidecars have several owners, none is trusted: the superuser must decide, and other users get
// a file of their own. `fresh` is the new file as it was made.
Result<MemberRecord> Vouched(const Ensemble& ensemble, const std::string& path, MemberRecord record, const FileStat& fresh) {
  const std::set<std::uint32_t> owners = OwnersOfSidecars(ensemble);
  if (owners.empty()) return record;
  record.mode &= ~kSetId;
  const bool of_group = std::ranges::all_of(ensemble.files, [&](const FileView& file) {
    return !file.sidecar_usable() || file.sidecar_uid == 0 || file.sidecar_gid == record.gid;
  });
  if (!of_group) {
    record.gid = fresh.gid;
    record.mode = (record.mode & kModeHadAcl) | (ModeForOtherGroup(record.mode) & ~kGroup);
  }
  if (owners.size() == 1) {
    record.uid = *owners.begin();
  } else if (fresh.uid == 0) {
    return {Code::kIo,
            fmt::format("{}: the sidecars of its group belong to several users, so it is not certain that the file belongs to user {}; "
                        "restore it as that user, or give the sidecars to that user",
                        path, record.uid)};
  } else {
    record.uid = fresh.uid;
  }
  return record;
}

/// The access that a file will get. It begins with what the record says, and is then narrowed.
struct Grant {
  FileStat stat;  ///< uid, gid, and the mode without an ACL
  std::uint32_t mode_with_acl = 0;
  Acl acl;  ///< without execute permissions; empty: none
};

// Narrows group and others to `limit`. The owner keeps his permissions: he could change the mode anyway.
void Narrow(std::uint32_t limit, Grant& grant) {
  grant.stat.mode = WithExecute(grant.stat.mode & kReadWrite & (limit | ~kNotOwner), grant.stat.mode);
}

// A sidecar gets the access of its file at every commit, and loses at every lock what the file has lost. If it still has the
// recorded permissions, its ACL is that of the file.
Status LimitToSidecar(File& sidecar, const MemberRecord& record, Grant& grant) {
  LZY_ASSIGN_OR_RETURN(const FileStat stat, sidecar.Stat());
  LZY_ASSIGN_OR_RETURN(const Acl acl, sidecar.AccessAcl());
  constexpr std::uint32_t kCompared = kReadWrite | kModeHadAcl;
  const std::uint32_t shown = RecordedMode(stat.mode, acl);
  if (!acl.empty() && stat.uid == grant.stat.uid && stat.gid == grant.stat.gid && (shown & kCompared) == (record.mode & kCompared)) {
    grant.acl = WithoutExecute(acl);
    grant.mode_with_acl = stat.mode;
  }
  Narrow(shown, grant);
  return Status::Ok();
}

// Narrows to the access of the existing file, which is newer than the record. If the file has another owner now, neither the
// old nor the new owner gets the rebuilt file.
Status LimitToPresent(File& present, const FileStat& fresh, Grant& grant) {
  LZY_ASSIGN_OR_RETURN(const FileStat stat, StatToRecord(present));
  LZY_ASSIGN_OR_RETURN(const Acl acl, present.AccessAcl());
  Narrow(stat.mode, grant);
  grant.stat.mode &= stat.mode | ~kNotOwner;
  if (WithoutExecute(acl) != grant.acl) grant.acl.clear();
  if (stat.gid != grant.stat.gid) {
    grant.stat.gid = fresh.gid;
    grant.stat.mode = ModeForOtherGroup(grant.stat.mode) & ~kGroup;
  }
  if (stat.uid != grant.stat.uid) {
    grant.stat.uid = fresh.uid;
    grant.stat.mode &= ~(kNotOwner | kSetId);
  }
  if (stat.gid != grant.stat.gid || stat.uid != grant.stat.uid) grant.acl.clear();
  return Status::Ok();
}

// First without execute and special bits, as File::CopyAccess does, then with them.
Status Give(const Grant& grant, File& fresh) {
  FileStat want = grant.stat;
  if (!grant.acl.empty()) want.mode = grant.mode_with_acl;
  AccessOf like(fresh.path(), want, grant.acl);
  LZY_RETURN_IF_ERROR(fresh.CopyAccess(like));
  LZY_ASSIGN_OR_RETURN(const FileStat has, fresh.Stat());
  return fresh.SetAccess(WithExecute(has.mode, grant.stat.mode & 07777), grant.stat.uid, grant.stat.gid);
}

// Warns if the file has less access than recorded.
Status Compare(const std::string& path, const MemberRecord& record, File& fresh, std::vector<std::string>& warnings) {
  LZY_ASSIGN_OR_RETURN(const FileStat has, fresh.Stat());
  LZY_ASSIGN_OR_RETURN(const Acl acl, fresh.AccessAcl());
  const bool had_acl = (record.mode & kModeHadAcl) != 0;
  const std::uint32_t missing = record.mode & 07777 & ~has.mode;
  if (missing == 0 && had_acl == !acl.empty()) return Status::Ok();
  warnings.push_back(fmt::format("{}: fewer users may use it than when it was protected: it has mode {:04o}{} now, and had {:04o}{}; "
                                 "give it what it should have: chmod{}",
                                 path, has.mode & 07777, acl.empty() ? "" : " and an ACL", record.mode & 07777,
                                 had_acl ? " and an ACL" : "", had_acl ? ", setfacl" : ""));
  return Status::Ok();
}

}  // namespace

std::set<std::uint32_t> OwnersOfSidecars(const Ensemble& ensemble) {
  std::set<std::uint32_t> owners;
  for (const FileView& file : ensemble.files) {
    if (file.sidecar_usable()) owners.insert(file.sidecar_uid);
  }
  owners.erase(0);
  return owners;
}

Status GiveAccess(const Ensemble& ensemble, const FileView& file, const MemberRecord& record, File& fresh,
                  std::vector<std::string>& warnings) {
  LZY_ASSIGN_OR_RETURN(const FileStat made, fresh.Stat());
  LZY_ASSIGN_OR_RETURN(const MemberRecord allowed, Vouched(ensemble, file.path, record, made));
  Grant grant;
  grant.stat.mode = allowed.mode & 07777;
  grant.stat.uid = allowed.uid;
  grant.stat.gid = allowed.gid;
  if (file.sidecar) LZY_RETURN_IF_ERROR(LimitToSidecar(file.sidecar->file(), allowed, grant));
  if (file.data) LZY_RETURN_IF_ERROR(LimitToPresent(*file.data, made, grant));
  LZY_RETURN_IF_ERROR(Give(grant, fresh));
  return Compare(file.path, record, fresh, warnings);
}

}  // namespace lzy
