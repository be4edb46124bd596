#pragma once
// Names that a node sees late. On file systems of several nodes, another node may have renamed a file over a name. For a
// second or so, this node may still see the old file, or none. Pages of a file may be older than its last write, too. So
// before lzy reports or writes anything, it looks again for what another rank has just seen (docs/design/commit.md §5,
// "Pages of several nodes").

#include <functional>
#include <memory>
#include <string>

#include "base/file.h"
#include "comm/communicator.h"

namespace lzy {

/// Calls `look` until it returns ok, for about three seconds, and returns its last status. Before each call but the first,
/// lists `directory`, because that updates a node's names on FUSE and NFS. The second call follows at once. Local.
Status LookAgain(FileSystem& fs, const std::string& directory, const std::function<Status()>& look);

/// Opens the file that another rank has open under the same name with the stat `theirs`; looks again until the name means
/// that file. Call it where the ranks have several page caches (dataset/page_caches.h). `by_inode`: all ranks see the same
/// inodes. Otherwise compares size and mtime, because some file systems make up inodes on each node. kIo if this rank sees
/// another file. Local.
Result<std::unique_ptr<File>> OpenSame(FileSystem& fs, const std::string& path, const FileStat& theirs, bool by_inode, OpenMode mode);

/// Opens the file that has the name now, even if this node does not know it yet. Reads go past the page cache. Local.
Result<std::unique_ptr<File>> OpenNewest(FileSystem& fs, const std::string& path, OpenMode mode);

/// Stats the file that has the name now: opens it, because an open asks the server and a stat may not. `path` must not be a
/// link. Local.
Result<FileStat> StatNewest(FileSystem& fs, const std::string& path);

/// Stats `file` for a verdict on a difference. Waits until size or mtime differ from `known`, but not longer than nodes keep
/// old values (a second or so). Does not wait if no other node can have changed the file. Local.
Result<FileStat> StatPatiently(File& file, const FileStat& known);

/// Waits until all ranks see the same size and mtime of `file`, the data of a shared file. The rank that wrote last sees the
/// right values, so if all ranks see the same, these are right. If the ranks still differ after about three seconds, returns
/// ok, and they go on with what they see. Call it after all ranks have written and synced, if they have several page caches.
/// Collective.
Status SeeAlike(Communicator& comm, File& file);

/// The error for ranks that see different sidecars, for example because a directory is not shared by all nodes.
Status SeesAnotherSidecar(const std::string& path);

}  // namespace lzy
