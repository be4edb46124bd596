#pragma once
// What a command made or changed below directories: a look before it, one after it, and no data read. lzy-run asks, for
// programs that write without MPI-IO.
//
// Local to one process; nothing is written, and no symbolic link below a directory is followed.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "names/lookup.h"

namespace lzy {

/// All regular files below `directories` that lzy-protect would protect: not hidden, nor below a hidden directory, nor in
/// /proc, /sys or /dev. Of each file it keeps 8 bytes: a hash of its path, inode, size, mtime and ctime.
class TreeLook {
 public:
  /// The most names that are looked at. With more, the look is not whole().
  static constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

  /// Directories that are missing are empty. Those below others of them are looked at once.
  TreeLook(FileSystem& fs, const std::vector<std::string>& directories, std::uint64_t most_names = kNoLimit);

  bool whole() const { return whole_; }
  /// What could not be listed. Things that vanish meanwhile are no trouble.
  const std::vector<Status>& troubles() const { return troubles_; }
  /// The latest ctime of a file (ns). A change in the same tick of the file system's clock cannot be seen by times.
  std::int64_t newest_ns() const { return newest_ns_; }
  /// Files that are there now, and were not, or not like this, in this look. Sorted. A file that was renamed, or whose owner
  /// or mode changed, is one of them. `troubles` gets what cannot be listed now.
  std::vector<std::string> ChangedSince(FileSystem& fs, std::vector<Status>& troubles) const;

 private:
  std::vector<std::string> directories_;
  std::vector<std::uint64_t> seen_;  // sorted
  std::vector<Status> troubles_;
  std::int64_t newest_ns_ = 0;
  bool whole_ = true;
};

/// Which files are as their last commit left them. Remembers what it has seen of sidecars: to see later commits, make a new
/// one.
class CommitsSeen {
 public:
  explicit CommitsSeen(FileSystem& fs) : fs_(fs) {}
  /// The sidecar of the file `path`, if there is one that can be read.
  std::optional<Peek> SidecarOf(const std::string& path);
  /// The same, if the file has the size and mtime that it had at a commit: nothing is to be committed.
  std::optional<Peek> CommitOf(const std::string& path);

 private:
  FileSystem& fs_;
  std::map<std::string, Directory> directories_;
};

}  // namespace lzy
