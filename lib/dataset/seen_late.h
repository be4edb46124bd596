#pragma once
// Names that a node sees late. On file systems of several nodes, a name may for a second or so mean the file that had it before
// another node renamed one over it, or nothing at all; and pages of a file may be those of before it was written. So what
// another rank has just seen is looked for again, before anything is said or written.

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

/// Calls `look` until it returns ok, for about three seconds; then returns what it returned last. `look` is called a second
/// time at once, after a list of `directory`: that brings the names of a node up to date on FUSE and NFS. Local.
Status LookAgain(FileSystem& fs, const std::string& directory, const std::function<Status()>& look);

/// Opens what another rank has open under the same name, and sees as `theirs`; looks again until it is that. To be called where
/// the ranks have several page caches (dataset/page_caches.h). `by_inode`: ranks see the same inodes. Some file systems make them
/// up on each node; there, size and time have to do. kIo: this rank sees another file. Local.
Result<std::unique_ptr<File>> OpenSame(FileSystem& fs, const std::string& path, const FileStat& theirs, bool by_inode, OpenMode mode);

/// Opens what has the name by now, of which this node may not have been told yet, and reads it past the page cache. Local.
Result<std::unique_ptr<File>> OpenNewest(FileSystem& fs, const std::string& path, OpenMode mode);

/// What has the name by now: an open asks the server, a stat need not. `path` is no link. Local.
Result<FileStat> StatNewest(FileSystem& fs, const std::string& path);

/// What the file is by now, for a verdict on something that differs: looks until size or time are not those of `known`, for as
/// long as nodes keep them (a second or so). Does not wait if no other node can have changed it. Local.
Result<FileStat> StatPatiently(File& file, const FileStat& known);

/// How long this process waits for ranks to see a file alike (FileSystem::Memo), by directory. On some file systems they never do. So the
/// longest pause is halved whenever waiting was in vain, which makes six seconds in all however many commits there are. Once it
/// helped, it is what it was. Thread-safe.
class PatienceOf {
 public:
  static constexpr std::chrono::milliseconds kLongest{1600};  // all pauses together: about three seconds
  std::chrono::milliseconds Longest(const std::string& directory);
  void Note(const std::string& directory, bool seen_alike);

 private:
  std::mutex mutex_;
  std::map<std::string, std::chrono::milliseconds> impatient_;
};

/// After all ranks have written and synced: waits until each sees the same size and time of `file`, the data of a shared file, for
/// about three seconds (PatienceOf). Who wrote last sees the truth, so then all do. If that does not help, ranks go on with what they
/// see. To be called where the ranks have several page caches. Collective.
Status SeeAlike(FileSystem& fs, Communicator& comm, File& file);
/// The same for members of a set: `seen_by` says which ranks look at each (PageCaches). `view` gets the sizes and times that they have
/// then. Collective.
Status SeeMembersAlike(FileSystem& fs, Communicator& comm, const std::map<std::uint32_t, std::vector<int>>& seen_by, DatasetView& view);

/// That ranks see different files, as they do where a directory is not shared by all nodes.
Status SeesAnotherSidecar(const std::string& path);

}  // namespace lzy
