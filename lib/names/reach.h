#pragma once
// Which directories may have the sidecar of a file, and what is in them (docs/design/commit.md §7, "Owners of sidecars").
//
// A file may have been moved, so its sidecar may be in another directory. In reach are the directories that the command names,
// and those that lzy knows of (the catalogue).
//
// Local to one process; nothing is written. The reach is kept with the file system. Everything here is thread-safe.

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "merkle/leaf_key.h"
#include "names/neighbours.h"
#include "names/recorded.h"

namespace lzy {

/// Adds a directory to the reach. ResolvePath calls it for all datasets that it finds.
void AddToReach(FileSystem& fs, const std::string& directory);
/// Directories that the command names, or that lzy only knows of (the catalogue).
enum class Reach { kNamed, kKnown };
/// Adds more directories to the reach. `directories` is called at most once: when the first file differs from its sidecar, or
/// with kNamed when a file without a sidecar may have been moved. Missing directories are skipped.
void AddToReach(FileSystem& fs, std::function<std::vector<std::string>()> directories, Reach which);
/// Adds files that lzy knows of (the catalogue): `of_size` returns the paths of those that may have had this size at their last commit. A
/// file that is protected for the first time may have been one of them. All calls come one after the other.
void AddFilesToReach(FileSystem& fs, std::function<std::vector<std::string>(std::uint64_t bytes)> of_size);
/// The path of a sidecar in reach that was committed for member `rank` of `set`, in another directory than `here`; nullopt if there
/// is none.
std::optional<std::string> SidecarOfMemberInReach(FileSystem& fs, const std::string& here, const Uuid& set, std::uint32_t rank);
/// Paths of the committed sidecars in reach, in other directories than `here`, including those that were set aside.
std::vector<std::string> SidecarsInReach(FileSystem& fs, const std::string& here);

/// The real path of a directory (empty: the working directory), because one directory may have several paths. If it cannot be
/// resolved, the path as it is.
std::string RealDirectory(FileSystem& fs, const std::string& directory);
/// The path of a file in its real directory. The file itself may be a link.
std::string RealPathOf(FileSystem& fs, const std::string& path);
/// The path of the data file of a sidecar's name. For a sidecar that was set aside: of the name that it had. Empty if the name
/// is none of a sidecar.
std::string OwnerOf(const std::string& sidecar);

/// Sidecars of files of one size, by the hash of the first block. So one block of a file shows which of them are worth a
/// comparison, however many there are. Immutable.
class SameSize {
 public:
  /// `sidecars`: paths. Those that cannot be read are left out.
  SameSize(FileSystem& fs, const std::vector<std::string>& sidecars);
  /// Paths of the sidecars whose first leaf matches the first block of the file. Fails if that cannot be read.
  Result<std::vector<std::string>> WithFirstBlockOf(File& data, std::uint64_t size, const LeafKey* key) const;

 private:
  // By block size, seal and first leaf.
  std::map<std::pair<std::uint32_t, bool>, std::multimap<decltype(Hash::bytes), std::string>> by_first_;
};

/// What a file or a stamp has, to look up others that have the same.
struct SizeAndTime {
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  auto operator<=>(const SizeAndTime&) const = default;
};

/// The sidecars and files around a file, read when they are first needed and kept for the next files. Use the one of the file
/// system: fs.Memo<Surroundings>(). `here`: the real path of the file's directory; sidecars and files there are left out.
class Surroundings {
 public:
  /// Sidecars that were committed for a file of this size: beside the file, from the look at its directory; in reach, if
  /// another directory than `here` is. The latter are read at most once, so they include those in `here`.
  std::shared_ptr<const SameSize> Beside(FileSystem& fs, const std::string& directory, std::uint64_t bytes,
                                         const std::shared_ptr<const Neighbours>& look);
  std::shared_ptr<const SameSize> InReach(FileSystem& fs, std::uint64_t bytes, const std::string& here);
  /// Members without a sidecar that sets beside the file, or in reach, record.
  std::shared_ptr<const RecordedMembers> RecordedBeside(FileSystem& fs, const std::string& directory,
                                                        const std::shared_ptr<const Neighbours>& look);
  std::shared_ptr<const RecordedMembers> RecordedInReach(FileSystem& fs, const std::string& here);
  /// Paths of all committed sidecars in reach; those in `here` are among them.
  std::vector<std::string> AllInReach(FileSystem& fs, const std::string& here);
  /// The path of a sidecar that was committed for this member of a set; nullopt if there is none.
  std::optional<std::string> OfMember(FileSystem& fs, const Uuid& set, std::uint32_t rank, const std::string& here);
  /// Paths of sidecars that were committed for a file of this inode number.
  std::vector<std::string> InReachFor(FileSystem& fs, std::uint64_t inode, const std::string& here);
  /// Paths of sidecars that were committed for a file of this size and mtime, or of this inode number: all those in named directories, and
  /// by size and mtime those of files that AddFilesToReach knows. Does not look at the directories of the catalogue: files that are protected
  /// for the first time must not read all of its sidecars.
  std::vector<std::string> CommittedFor(FileSystem& fs, const SizeAndTime& file, std::uint64_t inode, const std::string& here);
  /// Discards what CommittedFor read: a commit of this command may have given sidecars other names since. False: that was done too often,
  /// and nothing is discarded.
  bool ForgetSidecars();
  /// Members without a sidecar that sets in named directories record.
  std::shared_ptr<const RecordedMembers> RecordedInNamed(FileSystem& fs, const std::string& here);
  /// Paths of files of this size and mtime, or of this inode number, below `here`, protected or not, in directories that are not in reach: a
  /// program may move its old files there. The first call for a directory stats what is below it, on the same file system: only the first names, and in one process
  /// no more than kMostBelow.
  std::vector<std::string> FilesBelow(FileSystem& fs, const SizeAndTime& file, std::uint64_t inode, const std::string& here);
  static constexpr std::size_t kMostBelow = 32768;
  /// The same of files around `here`, outside it: below the directory above it, then below the one above that, and so on, on the same
  /// file system. A person may have moved a file to any directory. Each directory is looked at once, however many ask.
  /// The search ends after kMostBelow names below the directory above `here`, and after as many farther away, for all together.
  std::vector<std::string> FilesNear(FileSystem& fs, const SizeAndTime& file, std::uint64_t inode, const std::string& here);
  /// True if FilesNear knows all files below the directory above `here`. False: there are too many.
  bool KnowsNear(FileSystem& fs, const std::string& here);
  /// Paths of files of this size, and this mtime if it is given, or of this inode number, protected or not. The first call stats all files
  /// in reach.
  std::vector<std::string> FilesOfSize(FileSystem& fs, std::uint64_t bytes, std::optional<std::int64_t> mtime_ns, std::uint64_t inode,
                                       const std::string& here);
  /// True if the command names this directory, a real path.
  bool IsNamed(FileSystem& fs, const std::string& directory);

  void AddToReach(const std::string& directory);
  void AddToReach(std::function<std::vector<std::string>()> more, Reach which);
  void AddFilesToReach(std::function<std::vector<std::string>(std::uint64_t)> of_size);

 private:
  using BySize = std::multimap<std::uint64_t, std::string>;
  using BySizeAndTime = std::multimap<SizeAndTime, std::string>;
  // Files, or sidecars by what they record of their files.
  struct Seen {
    void Add(const SizeAndTime& file, std::uint64_t inode, const std::string& path);
    // The paths with size and time from `first` to `last`, or with this inode, that are not in the directory `here`.
    std::vector<std::string> Beyond(const SizeAndTime& first, const SizeAndTime& last, std::uint64_t inode, const std::string& here) const;
    BySizeAndTime by_time;
    std::multimap<std::uint64_t, BySizeAndTime::value_type> by_inode;
  };
  // The mutex must be held in all of them.
  void LookBeside(const std::shared_ptr<const Neighbours>& look);
  void Add(const std::string& directory, Reach which);
  void TakeMore(FileSystem& fs, Reach which);
  // True if another directory than `here` is in reach; then by_size_ is filled.
  bool ReachesBeyond(FileSystem& fs, const std::string& here);
  void LookAtReach(FileSystem& fs);
  // True if the command names another directory than `here`.
  bool NamesOthers(FileSystem& fs, const std::string& here);
  void LookAtNamed(FileSystem& fs);
  const BySizeAndTime& KnownOfSize(FileSystem& fs, std::uint64_t bytes);
  Seen LookBelow(FileSystem& fs, const std::string& here);
  bool LookNear(FileSystem& fs, const std::string& here);
  bool LookNearBelow(FileSystem& fs, const std::string& top, std::size_t& seen);
  // Adds the files below `top` to `files`; with `aside` those in it, too, and passes by directories that near_ has. `seen` counts names.
  // False: there are more than kMostBelow.
  bool LookThrough(FileSystem& fs, const std::string& top, bool aside, Seen& files, std::size_t& seen);

  std::mutex mutex_;
  std::set<std::string> directories_, named_;  // in reach; named_ is a part of directories_
  std::map<Reach, std::vector<std::function<std::vector<std::string>()>>> more_;
  // From the present look at the directory of a file.
  std::shared_ptr<const Neighbours> look_;
  std::map<std::uint64_t, std::shared_ptr<const SameSize>> beside_;  // by size
  std::shared_ptr<const RecordedMembers> recorded_beside_;
  // From directories_.
  std::optional<BySize> by_size_;  // committed sidecars
  BySize by_inode_;                // the same paths
  std::vector<std::string> of_sets_;  // those of them that are of sets
  std::map<std::pair<Uuid, std::uint32_t>, std::string> by_member_;  // the same, by set and rank
  std::optional<Seen> files_;
  std::map<std::uint64_t, std::shared_ptr<const SameSize>> in_reach_;  // by size
  std::shared_ptr<const RecordedMembers> recorded_in_reach_;
  // From named_.
  std::optional<Seen> named_sidecars_;
  int forgotten_ = 0;  // times
  std::vector<std::string> named_of_sets_;  // those of them that are of sets
  std::shared_ptr<const RecordedMembers> recorded_in_named_;
  std::function<std::vector<std::string>(std::uint64_t)> known_files_;
  std::map<std::uint64_t, BySizeAndTime> known_sidecars_;  // of known_files_, by size
  std::map<std::string, Seen> below_;  // files, by directory
  Seen near_files_;
  std::map<std::string, bool> near_;  // directories that were looked through for near_files_, with all below them: true if to the end
  std::set<std::string> near_above_;  // those of them that are directly above one that asked
  std::size_t seen_below_ = 0, seen_near_ = 0;  // names
};

}  // namespace lzy
