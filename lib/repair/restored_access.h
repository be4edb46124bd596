#pragma once
// Access (owner, mode, ACL) to files that are built anew. A file gets no more access than a trusted sidecar records, and no
// more than users have now (SECURITY.md; docs/design/hooks.md §10 "Access"). Local.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "dataset/view.h"

namespace lzy {

/// The Unix owners of the usable sidecars of `ensemble`, from the sidecar files on disk. The superuser is left out, because
/// nobody else can forge a sidecar of the superuser.
std::set<std::uint32_t> OwnersOfSidecars(const Ensemble& ensemble);

/// Gives `fresh`, which will replace `file`, the access in `record`: but no more than its sidecar allows, and no more than
/// the existing file allows. `fresh` is never open to other users meanwhile. Warns if the access is narrower than recorded.
/// kIo if it is not certain who owns the file.
Status GiveAccess(const Ensemble& ensemble, const FileView& file, const MemberRecord& record, File& fresh,
                  std::vector<std::string>& warnings);

}  // namespace lzy
