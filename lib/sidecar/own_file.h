#pragma once
// Gives a sidecar a file of its own if several names lead to its file (docs/design/commit.md §7, "Hard links").

#include <memory>

#include "base/file.h"

namespace lzy {

/// Copies the locked file `shared`, which has several names, and gives the synced copy the name `shared.path()`. The other names
/// keep `shared`. The copy is locked before it gets the name, so the caller has the lock of the name at any moment.
/// Returns the copy. The caller must sync the directory before it writes. After a failure, the name means what it meant
/// before, and no copy is left. kBusy: the name means another file by now.
Result<std::shared_ptr<File>> MakeOwnFile(FileSystem& fs, File& shared);

}  // namespace lzy
