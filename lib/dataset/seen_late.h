#pragma once
// Names and times that a node sees late. On file systems of several nodes, another node may have renamed a file over a name.
// For a second or so, this node may still see the old file, or none. Pages of a file may be older than its last write, too.
// So before lzy reports or writes anything, it repeats the look-up until this node sees the same file as the other rank
// (docs/design/commit.md §5, "Pages of several nodes").

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/file.h"
#include "comm/communicator.h"
#include "dataset/view.h"

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

/// The longest pause while ranks wait until they see a file alike, by directory; kept for the process (FileSystem::Memo). On
/// some file systems, ranks never see the same mtime. So each wait in vain halves the longest pause of the directory. All
/// such waits of a process in a directory take six seconds together. After a wait that helped, the pause is kLongest again.
/// Thread-safe.
class PatienceOf {
 public:
  static constexpr std::chrono::milliseconds kLongest{1600};  // all pauses together: about three seconds
  std::chrono::milliseconds Longest(const std::string& directory);
  /// Records how a wait ended.
  void Note(const std::string& directory, bool seen_alike);

 private:
  std::mutex mutex_;
  std::map<std::string, std::chrono::milliseconds> impatient_;
};

/// Waits until all ranks see the same size and mtime of `file`, the data of a shared file. The rank that wrote last sees the
/// right values, so if all ranks see the same, these are right. If the ranks still differ after about three seconds (less
/// after waits in vain, see PatienceOf), returns ok, and they go on with what they see. Call it after all ranks have written
/// and synced, if they have several page caches. Collective.
Status SeeAlike(FileSystem& fs, Communicator& comm, File& file);
/// The same for the members of a set that `seen_by` lists, with the ranks that stat each (PageCaches::seen_by). Sets the size
/// and mtime of these files in `view`. Collective.
Status SeeMembersAlike(FileSystem& fs, Communicator& comm, const std::map<std::uint32_t, std::vector<int>>& seen_by, DatasetView& view);

/// The error for ranks that see different sidecars, for example because a directory is not shared by all nodes.
Status SeesAnotherSidecar(const std::string& path);

}  // namespace lzy
