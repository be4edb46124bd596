#pragma once
// Who may use a file that is built anew: owner, mode and ACL, as far as somebody vouches for them and nobody has taken them
// away since (SECURITY.md; docs/design/hooks.md "Access"). Local.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "dataset/view.h"

namespace lzy {

/// Whose the sidecars are that say how a file was. Root's are left out, since nobody else can forge those. By the owner
/// of each sidecar file on disk, not by what it says.
std::set<std::uint32_t> OwnersOfSidecars(const Ensemble& ensemble);

/// Gives `fresh`, which will replace `file` or is to be in its place, the access that `record` tells of. Nobody gets more
/// than that, than the sidecar beside the file allows, and than the file allows that is there and is replaced. At no
/// moment is `fresh` open to anybody else. Warns if the access is narrower than what was recorded. kIo if it is not
/// certain to whom the file belongs.
Status GiveAccess(const Ensemble& ensemble, const FileView& file, const MemberRecord& record, File& fresh,
                  std::vector<std::string>& warnings);

}  // namespace lzy
