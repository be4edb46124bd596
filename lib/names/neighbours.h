#pragma once
// A look: a snapshot of all files and sidecars of a directory, which later lookups share (docs/design/commit.md §7, "Scans of a
// directory").
//
// A file without a sidecar of its own name, or whose sidecar was made for another file, may have been renamed. Only then
// does lookup.h need the neighbours of the file. A look costs a few operations for each name in the directory, so it must
// not be repeated for each file: a program may fill a directory with 100,000 files.
//
// An older look is still valid for a file that it saw under the same name with the same inode and ctime. Such a file was not
// renamed since, because a rename changes one of the three. A sidecar that was made for it later has its name, and the
// caller finds it without a look. For other files, the directory must be looked at again. This reads only the sidecars that
// have changed.
//
// Immutable, so threads may share it. Nothing is written, and no symbolic link is followed.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "names/peek.h"

namespace lzy {

class Neighbours {
 public:
  /// Looks at `directory` again. If it cannot be listed, status() has the error, and the look is empty.
  static std::shared_ptr<const Neighbours> Look(FileSystem& fs, const std::string& directory);
  struct Found {
    std::shared_ptr<const Neighbours> look;
    bool is_new = true;
  };
  /// Returns the present look if it is valid for the file `name`, whose stat is `file`; else a new one. Only one thread
  /// looks at a directory at a time; the others wait for its result.
  static Found For(FileSystem& fs, const std::string& directory, const std::string& name, const FileStat& file);
  /// Discards the look at `directory`. Call it after you renamed sidecars there.
  static void Forget(FileSystem& fs, const std::string& directory);
  /// Names of files that had this size, and this mtime if it is given, when they were seen. Without lzy's own files.
  std::vector<std::string> FilesOfSize(std::uint64_t bytes, std::optional<std::int64_t> mtime_ns = std::nullopt) const;
  /// True if the file `name` was seen as it is now, so that this look is valid for it.
  bool Saw(const std::string& name, const FileStat& file) const;

  const Status& status() const { return status_; }
  /// Names of files with this inode (several if they are hard links). Without lzy's own files.
  std::vector<std::string> FilesOf(std::uint64_t inode) const;
  /// Names of sidecars that were made for a file with this inode. Those that cannot be read are left out.
  std::vector<std::string> SidecarsFor(std::uint64_t inode) const;
  /// True if the dataset that had the sidecar `name` at the look has it still, and was committed since: `now` is what it
  /// records now. So no other name can have what the look saw there.
  bool WasCommittedSince(const std::string& name, const Peek& now) const;
  /// Names of sidecars that were committed for a file of this size.
  std::vector<std::string> SidecarsOfSize(std::uint64_t bytes) const;
  /// Names of sidecars that were committed for a file of this size and mtime.
  std::vector<std::string> SidecarsOfSizeAndTime(std::uint64_t bytes, std::int64_t mtime_ns) const;
  /// Names of sidecars that were committed for members of sets.
  std::vector<std::string> SidecarsOfSets() const;
  /// True if there are sidecars of another set than this one.
  bool HasSetBut(const Uuid& set) const;
  /// Patterns of the sets with committed sidecars here, derived from the places of these sidecars.
  const std::vector<std::string>& set_patterns() const { return set_patterns_; }
  /// Members of the set whose file is the one of their last commit, by inode and birth.
  const std::vector<std::string>& MembersAtHome(const Uuid& set) const;

 private:
  // A file when it was seen. Sorted by name.
  struct Seen {
    std::string name;
    std::uint64_t inode = 0;
    std::int64_t ctime_ns = 0;
    std::int64_t birth_ns = 0;
    std::uint64_t bytes = 0;
    std::int64_t mtime_ns = 0;
  };
  // A sidecar, and the facts that lookups need. Sorted by name.
  struct Entry {
    std::string name;
    FileStat file;
    Status status;
    std::uint64_t inode = 0;  // of the stamp
    std::uint64_t bytes = 0;  // of the file as committed
    std::int64_t mtime_ns = 0;
    std::int64_t birth_ns = 0;
    Uuid uuid{};  // of the dataset
    std::uint32_t rank = 0;
    std::uint64_t generation = 0;
    bool of_set = false;  // committed
    std::string pattern;  // of the set; empty if the sidecar's name does not match it
  };
  // The looks that are kept for a file system.
  struct Kept;
  // Inodes, sorted, with their index in files_ or sidecars_.
  using ByInode = std::vector<std::pair<std::uint64_t, std::uint32_t>>;
  template <class Item>
  static std::vector<std::string> NamesWith(std::uint64_t inode, const ByInode& by_inode,
                                            const std::vector<Item>& items);

  static std::shared_ptr<const Neighbours> LookAgain(FileSystem& fs, const std::string& directory,
                                                     std::shared_ptr<const Neighbours>& kept);
  void SeeFiles(FileSystem& fs, const std::string& directory, const std::vector<DirectoryEntry>& names);
  void SeeSidecars(FileSystem& fs, const std::string& directory, const std::vector<DirectoryEntry>& names,
                   const Neighbours* before);
  void Index();
  /// nullopt: the sidecar is gone.
  static std::optional<Entry> Read(FileSystem& fs, const std::string& path, const std::string& name);

  Status status_;
  std::int64_t began_ns_ = 0;
  std::vector<Seen> files_;
  std::vector<Entry> sidecars_;
  ByInode files_by_inode_;
  ByInode sidecars_by_inode_;
  std::vector<std::string> set_patterns_;
  std::map<Uuid, std::vector<std::string>> at_home_;
};

}  // namespace lzy
