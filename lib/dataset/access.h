#pragma once
// Compares the access to files (owner, mode, ACL) with what the last commit recorded.

#include "dataset/view.h"

namespace lzy {

/// True if the sidecar has the Unix owner and group of its file. Otherwise the access to the sidecar must not be changed in
/// place, and only a new sidecar can follow the file: the owner of a sidecar vouches for its contents (SECURITY.md).
bool HasOwnerOfFile(const FileView& file);
/// True if the owner, mode and ACL of every file are as its sidecar records. The ACL is compared with the ACL of the
/// sidecar. Collective over context.comm.
Result<bool> AccessIsRecorded(const Context& context, const DatasetView& view);

}  // namespace lzy
