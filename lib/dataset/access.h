#pragma once
// Whether the access to files (owner, mode, ACL) is what the last commit recorded.

#include "dataset/view.h"

namespace lzy {

/// Whether the sidecar belongs to the owner and the group of its file. Only then may it take over the file's access
/// without being made anew: with its owner, a sidecar vouches for what it says (SECURITY.md).
bool HasOwnerOfFile(const FileView& file);
/// Whether the access to every file is what the sidecars record. An ACL is compared with that of the sidecar beside the
/// file. Collective over context.comm.
Result<bool> AccessIsRecorded(const Context& context, const DatasetView& view);

}  // namespace lzy
