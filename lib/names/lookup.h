#pragma once
// Finds the sidecar of a file (docs/design/commit.md §7, "Owners of sidecars").
//
// Files are renamed, swapped and rotated after their commit, or put back from backups, so the name is only the first guess.
// The sidecar of the file's name counts if the file is the committed one, or has its size and mtime. Otherwise inode and
// time of birth together show which file was renamed. What names/proven holds goes before all of these. Readers call
// FindSidecar. Writers then rename the sidecar to match (dataset/rehome). names/survey uses a Directory for many files.
//
// Everything here only reads, is local to one process, and follows no symbolic link within the directory.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "names/neighbours.h"
#include "names/peek.h"

namespace lzy {

/// The files and sidecars of one directory. Reads each when it is first needed, and only once. So answers agree with each
/// other, but do not show later changes; make a new object to see them. Not thread-safe.
class Directory {
 public:
  Directory(FileSystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}

  std::string PathOf(const std::string& name) const { return JoinPath(path_, name); }
  /// All names in the directory. Fails if it cannot be listed; the other functions then use what they can see.
  Result<const std::set<std::string>*> Names();
  /// Names of sidecars, including temporary names, which an interrupted rename of sidecars may have left.
  const std::vector<std::string>& Sidecars();
  /// The contents of the sidecar of this name, or why it cannot be read.
  const Result<Peek>& PeekAt(const std::string& sidecar);

  /// Name of the sidecar of the data file `name`, which may be missing. Empty if there is none. See FindSidecar.
  std::string SidecarOf(const std::string& name);
  /// The present name of the file for which `sidecar` was committed, if it is in this directory: the file with the stamp.
  /// Among hard links, the one with the sidecar's own name wins. If no file has the stamp: a file of another name with the
  /// same inode and time of birth, which was changed before it was renamed, or was never committed.
  ///
  /// Members of one set that exchanged their names do not take their sidecars along: the name is the rank, and the hashes
  /// show that they have each other's content.
  std::optional<std::string> HomeOf(const std::string& sidecar);
  /// The inverse of SidecarOf: the home of `sidecar`, or the file of its own name after an edit. nullopt if that file is
  /// missing or has another sidecar.
  std::optional<std::string> UserOf(const std::string& sidecar);
  /// For a `sidecar` without a home: the name of its file. That is the file of its own name, or the recorded one if it was
  /// exchanged for the sidecar of a file that is gone.
  std::optional<std::string> NameMeantBy(const std::string& sidecar);
  /// For a sidecar without a home, whose file is gone: finds its file by content. Candidates are files with its stamp that
  /// have another sidecar, or, if births are not known, files without a sidecar. They are read and must have the committed
  /// content. Remembers the answer (names/proven). Does not find sealed files.
  std::optional<std::string> HomeByContent(const std::string& sidecar);
  /// Files without a sidecar that have size and mtime of `sidecar`, which no file uses: it may have been committed for one of them, under
  /// another name, and that one may be damaged. Reads no data.
  std::vector<std::string> LeftBy(const std::string& sidecar);
  /// True if `name` is a symbolic link in the place of a protected file: the sidecar beside it was made for a file of this
  /// name.
  bool IsLinkInPlaceOfFile(const std::string& name);
  /// The name that the file `name` had at the last commit, if it was another member of its set.
  std::optional<std::string> OtherMemberIn(const std::string& name);
  /// Patterns of the sets with committed sidecars in this directory, derived from the places of these sidecars. `name`: a
  /// file that may be a member; it may be missing.
  std::vector<std::string> SetPatternsAround(const std::string& name);

 private:
  /// Fills in names_ and inodes_, or list_status_.
  void List();
  /// False if the list of the directory shows that no file has this inode.
  bool MayHold(std::uint64_t inode);
  bool IsRegular(const std::string& name) { return StatOf(name).has_value(); }
  std::string FindSidecarOf(const std::string& name);
  /// FindSidecarOf for a file that is gone.
  std::string SidecarOfLost(const std::string& name);
  /// The stat of the regular file `name`; nullopt if it is missing or something else.
  std::optional<FileStat> StatOf(const std::string& name);
  /// True if `file`, which has the name of `sidecar`, is the file for which the sidecar was made, or a copy of it.
  bool Claims(const FileStat& file, const std::string& sidecar, const Peek& peek) const;
  /// The file with the stamp of the sidecar. This function and the next one cache their answers.
  std::optional<std::string> HomeByStamp(const std::string& sidecar);
  /// A file of another name that was changed since the commit of the sidecar (or, if it was never committed, since it was
  /// made). Another sidecar may fit this file better.
  std::optional<std::string> HomeByInode(const std::string& sidecar);
  /// True if other members of `owner`'s set still have their files. Then the set was not renamed: one member was moved away,
  /// and the file that now has its name took its place.
  bool OthersAreAtHome(const std::string& owner, const Peek& peek);
  /// True if `sidecar` has the name that it had at its commit.
  bool RecordsItsName(const std::string& sidecar, const Peek& peek) const;
  /// True if the file of `sidecar`'s own name exists and claims it.
  bool IsClaimed(const std::string& sidecar, const Peek& peek);
  /// True if the file `name` claims the sidecar of its own name.
  bool HasOwnSidecar(const std::string& name);
  /// True if `name`, which has the inode of `sidecar`, is another member of its set.
  bool IsExchanged(const std::string& name, const std::string& sidecar, const Peek& peek);
  /// True if `sidecar` is of the set of `peek`.
  bool OfSameSet(const std::string& sidecar, const Peek& peek);
  /// True if the pattern of `owner`'s set gives `name` to another member. Its sidecar may be lost.
  bool NamesMember(const std::string& name, const std::string& owner, const Peek& peek) const;
  /// True if `sidecar` is of a member but has the name of another member: sidecars were renamed, not data.
  bool IsMisplaced(const std::string& sidecar, const Peek& peek) const;
  /// While an object of this class exists, lookups are for the file `name`. Nested objects change nothing. Empty: for no
  /// file in particular.
  class Asking;
  /// A look that is valid for the file of the lookup. If there is no such file, the look is no older than this object.
  const Neighbours& Around();
  /// Files with this inode, and sidecars whose stamp has it. If an older look does not match the directory, looks again.
  std::vector<std::string> FilesOf(std::uint64_t inode);
  std::vector<std::string> SidecarsFor(std::uint64_t inode);
  std::vector<std::string> StillTrue(const std::function<std::vector<std::string>()>& ask,
                                     const std::function<bool(const std::string&)>& is_true);

  FileSystem& fs_;
  const std::string path_;
  bool listed_ = false;
  Status list_status_;
  std::set<std::string> names_;
  std::optional<std::vector<std::uint64_t>> inodes_;  // of files, sorted; nullopt if the list has no inodes
  std::optional<std::vector<std::string>> sidecars_;
  std::shared_ptr<const Neighbours> look_;
  bool looked_now_ = false;  // look_ is no older than this object
  std::string asking_;
  std::map<std::string, Result<Peek>> peeks_;
  std::optional<std::multimap<std::uint64_t, std::string>> unowned_;  // files without a sidecar, by size
  std::map<std::string, std::string> sidecar_of_;                     // by file
  std::map<std::string, std::optional<std::string>> home_by_stamp_;  // by sidecar
  std::map<std::string, std::optional<std::string>> home_by_inode_;
};

/// The path of the sidecar of `data_path`, in the same directory. A symbolic link `data_path` is followed first. It is the
/// first that applies of:
///  - the sidecar that content has proven (names/proven);
///  - ".LZY.<name>", if its stamp has the file's size and mtime, or its inode and time of birth;
///  - a sidecar of another name with the file's inode and time of birth, if no file of that name claims it;
///  - ".LZY.<name>", unless it was committed for a file that has another name now.
/// kNotFound: there is none. kUnprotected: the file name is too long to have a sidecar. The sidecar may be damaged.
Result<std::string> FindSidecar(FileSystem& fs, const std::string& data_path);
/// The contents of that sidecar. Errors are those of FindSidecar and PeekSidecar.
Result<Peek> FindAndPeek(FileSystem& fs, const std::string& data_path);

/// Finds the sidecar of a lost member, identified by set and rank, in `directory`, if no file there uses it. It may have any
/// name after a rename of the set. `temporary_only`: searches temporary names only. nullopt if there is none.
std::optional<std::string> FindSidecarOfMember(FileSystem& fs, const std::string& directory, const Uuid& set, std::uint32_t rank,
                                               bool temporary_only);

/// Follows a symbolic link in the last component of `path`, also to a target that does not exist. Returns other paths
/// unchanged.
std::string FollowLink(FileSystem& fs, const std::string& path);

}  // namespace lzy
