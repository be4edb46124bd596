#pragma once
// One look at all files and sidecars of a directory, kept for those who ask later (docs/design/commit.md §7, "Scans of a directory").
//
// A file that has no sidecar of its own name, or one that was made for another file, may have been renamed. Only then
// does lookup.h ask who its neighbours are. A look costs a few operations for each name in the directory, so it must not
// be repeated for each file: a program may fill a directory with 100,000 of them.
//
// A look of before still answers for a file that it saw under the same name with the same inode and time of change.
// That file was not renamed since, because a rename changes one of the three. So a sidecar that was made for it since
// has its name, and the caller finds that one without a look. Other files need a new look. It reads again only the
// sidecars that have changed.
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
  /// A new look at `directory`. If it cannot be listed, status() says why and there is nothing in it.
  static std::shared_ptr<const Neighbours> Look(FileSystem& fs, const std::string& directory);
  struct Found {
    std::shared_ptr<const Neighbours> look;
    bool is_new = true;
  };
  /// The look of before if it still answers for the file `name`, which is `file` now; else a new one. At most one
  /// thread looks at a directory at a time, and the others wait for what it sees.
  static Found For(FileSystem& fs, const std::string& directory, const std::string& name, const FileStat& file);
  /// For whoever has moved sidecars: the next one looks again.
  static void Forget(FileSystem& fs, const std::string& directory);
  /// Names of files of this size, as it was when they were seen. Without lzy's own.
  std::vector<std::string> FilesOfSize(std::uint64_t bytes) const;
  /// Whether the file `name` was seen as it is now, so that this look still answers for it.
  bool Saw(const std::string& name, const FileStat& file) const;

  const Status& status() const { return status_; }
  /// Names of files with this inode, without lzy's own. More than one: hard links.
  std::vector<std::string> FilesOf(std::uint64_t inode) const;
  /// Names of sidecars that were made for a file with this inode. Those that cannot be read are left out.
  std::vector<std::string> SidecarsFor(std::uint64_t inode) const;
  /// Names of sidecars that were committed for a file of this size.
  std::vector<std::string> SidecarsOfSize(std::uint64_t bytes) const;
  /// Names of sidecars that were committed for members of sets.
  std::vector<std::string> SidecarsOfSets() const;
  /// Whether there are any of another set than this one.
  bool HasSetBut(const Uuid& set) const;
  /// Patterns of the sets that have committed sidecars here, from the places of these sidecars.
  const std::vector<std::string>& set_patterns() const { return set_patterns_; }
  /// Members of the set that have the file which they had at their last commit.
  const std::vector<std::string>& MembersAtHome(const Uuid& set) const;

 private:
  // What a file was when it was seen. Sorted by name.
  struct Seen {
    std::string name;
    std::uint64_t inode = 0;
    std::int64_t ctime_ns = 0;
    std::int64_t birth_ns = 0;
    std::uint64_t bytes = 0;
  };
  // A sidecar, and what of it is asked for later. Sorted by name.
  struct Entry {
    std::string name;
    FileStat file;
    Status status;
    std::uint64_t inode = 0;  // of the stamp
    std::uint64_t bytes = 0;  // of the file as committed
    std::int64_t birth_ns = 0;
    bool of_set = false;  // committed
    Uuid set{};
    std::string pattern;  // of the set; empty if the name is not one of it
  };
  // What is kept with a file system.
  struct Kept;
  // Inodes, sorted, and where in files_ or sidecars_ each is.
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
  /// None: it is gone.
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
