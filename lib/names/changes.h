#pragma once
// Finds the files that a command created or changed below directories, without reading data: one look before the command,
// one after it. lzy-run uses it for programs that write without MPI-IO (docs/design/hooks.md §10).
//
// Local to one process. Nothing is written, and no symbolic link below a directory is followed.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "names/lookup.h"

namespace lzy {

/// True if `path` is `directory` or lies below it. Both must be absolute, without links. No I/O.
bool IsBelow(const std::string& path, const std::string& directory);

/// A snapshot of all regular files below `directories` that lzy-protect would protect: no hidden files, nothing below hidden
/// directories, and nothing in /proc, /sys or /dev. Keeps 8 bytes for each file: a hash of its path, inode, size, mtime and
/// ctime.
class TreeLook {
 public:
  /// The value of `most_names` for no limit.
  static constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

  /// Examines at most `most_names` names; if there are more, whole() is false. Missing directories count as empty. A
  /// directory below another one of the list is examined once.
  TreeLook(FileSystem& fs, const std::vector<std::string>& directories, std::uint64_t most_names = kNoLimit);

  bool whole() const { return whole_; }
  /// Directories that could not be listed. A file or directory that vanishes meanwhile is no error.
  const std::vector<Status>& troubles() const { return troubles_; }
  /// The latest ctime of a file (ns). Times do not show a change within the same tick of the file system's clock.
  std::int64_t newest_ns() const { return newest_ns_; }
  /// Files that exist now and did not exist, or were different, in this snapshot; sorted. This includes files that were
  /// renamed, or whose owner or mode changed. `troubles` gets directories that cannot be listed now.
  std::vector<std::string> ChangedSince(FileSystem& fs, std::vector<Status>& troubles) const;

 private:
  std::vector<std::string> directories_;
  std::vector<std::uint64_t> seen_;  // sorted
  std::vector<Status> troubles_;
  std::int64_t newest_ns_ = 0;
  bool whole_ = true;
};

/// Finds out which files are as their last commit left them. Caches sidecars; to see later commits, make a new object.
class CommitsSeen {
 public:
  explicit CommitsSeen(FileSystem& fs) : fs_(fs) {}
  /// The sidecar of the file `path`. nullopt if there is none, or it cannot be read.
  std::optional<Peek> SidecarOf(const std::string& path);
  /// The same, but nullopt also if the file differs in size or mtime from its last commit, or was never committed.
  std::optional<Peek> CommitOf(const std::string& path);

 private:
  FileSystem& fs_;
  std::map<std::string, Directory> directories_;
};

}  // namespace lzy
