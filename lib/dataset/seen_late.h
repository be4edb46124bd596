#pragma once
// Names that a node sees late. On file systems of several nodes, a name may for a second or so mean the file that had it before
// another node renamed one over it, or nothing at all; and pages of a file may be those of before it was written. So what
// another rank has just seen is looked for again, before anything is said or written.

#include <functional>
#include <memory>
#include <string>

#include "base/file.h"

namespace lzy {

/// Calls `look` until it returns ok, for about three seconds; then returns what it returned last. `look` is called a second
/// time at once, after a list of `directory`: that brings the names of a node up to date on FUSE and NFS. Local.
Status LookAgain(FileSystem& fs, const std::string& directory, const std::function<Status()>& look);

/// Opens what another rank has open under the same name, and sees as `theirs`; looks again until it is that. To be called where
/// the ranks have several page caches (dataset/page_caches.h). `by_inode`: ranks see the same inodes. Some file systems make them
/// up on each node; there, size and time have to do. kIo: this rank sees another file. Local.
Result<std::unique_ptr<File>> OpenSame(FileSystem& fs, const std::string& path, const FileStat& theirs, bool by_inode, OpenMode mode);

/// That ranks see different files, as they do where a directory is not shared by all nodes.
Status SeesAnotherSidecar(const std::string& path);

}  // namespace lzy
