#pragma once
// Which sidecar belongs to which file of a directory (docs/design/commit.md §7, "Owners of sidecars").
//
// Files are renamed, swapped and rotated after their commit, and put back from backups, so a name is only the first guess.
// The sidecar of the own name counts if the file is the one that was committed, or has its size and mtime. Otherwise
// inode and time of birth, both together, tell which file was renamed. Content goes before all of these: names/contents
// remembers what it proved. Readers ask FindSidecar; writers then rename the sidecar to match (dataset/rehome).
// names/survey asks a Directory for many files at once.
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

/// The files and sidecars of one directory. Each is looked at when it is first needed, and only once. So answers agree
/// with each other, but later changes are not seen: make a new one to see them. Not thread-safe.
class Directory {
 public:
  Directory(FileSystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}

  std::string PathOf(const std::string& name) const { return JoinPath(path_, name); }
  /// All names in it. Fails if the directory cannot be listed; the other functions then go by what they can see.
  Result<const std::set<std::string>*> Names();
  /// Names of sidecars. Temporary names are among them: a rename of sidecars that broke off may have left one there.
  const std::vector<std::string>& Sidecars();
  /// What the sidecar of this name says, or why it cannot be read.
  const Result<Peek>& PeekAt(const std::string& sidecar);

  /// Name of the sidecar of data file `name`, which may be missing. Empty: it has none. See FindSidecar.
  std::string SidecarOf(const std::string& name);
  /// The file for which `sidecar` was committed, under its present name, if it is in this directory. This is the file
  /// with the stamp; the file of the sidecar's own name goes before hard links to it. Otherwise it is a file of
  /// another name with the same inode and time of birth, which was changed before it was renamed (or was never
  /// committed). Members of one set that were renamed among each other do not take their sidecars along: a name is a
  /// rank there, and the hashes show that they have each other's content.
  std::optional<std::string> HomeOf(const std::string& sidecar);
  /// The inverse of SidecarOf: the home of `sidecar`, or a file of its own name that was edited. None if that file is
  /// missing or has another sidecar.
  std::optional<std::string> UserOf(const std::string& sidecar);
  /// The name of the file that `sidecar` is of, if no file is its home: its own, or, if it was exchanged for the sidecar of a file
  /// that is gone, the recorded one.
  std::optional<std::string> NameMeantBy(const std::string& sidecar);
  /// For a sidecar whose file is gone, while HomeOf has none: a file that has its whole stamp, but also claims the sidecar
  /// of its own name; or, where the file system does not tell births, one without a sidecar. It must hold what was
  /// committed, so candidates are read. Remembers the answer (names/contents). Finds no sealed files.
  std::optional<std::string> HomeByContent(const std::string& sidecar);
  /// Whether `name` is a symbolic link that has the place of a protected file: the sidecar beside it was made for a file of that name. The
  /// link says nothing about that file.
  bool IsLinkInPlaceOfFile(const std::string& name);
  /// If the file `name` was another member of its set at the last commit: the name that it had then.
  std::optional<std::string> OtherMemberIn(const std::string& name);
  /// Patterns of the sets that have committed sidecars here, derived from the places of these sidecars. The file `name`,
  /// if it is there, is the one that may be a member.
  std::vector<std::string> SetPatternsAround(const std::string& name);

 private:
  /// Fills names_ and inodes_, or list_status_.
  void List();
  /// False if no file in it has this inode, as the list tells.
  bool MayHold(std::uint64_t inode);
  bool IsRegular(const std::string& name) { return StatOf(name).has_value(); }
  std::string FindSidecarOf(const std::string& name);
  /// The same of a file that is gone.
  std::string SidecarOfLost(const std::string& name);
  /// The regular file `name`; none if it is missing or something else.
  std::optional<FileStat> StatOf(const std::string& name);
  /// Whether `file`, which has the name of `sidecar`, is the one that the sidecar was made for, or a copy of it.
  bool Claims(const FileStat& file, const std::string& sidecar, const Peek& peek) const;
  /// The file that has the sidecar's stamp. This one and the next remember their answers.
  std::optional<std::string> HomeByStamp(const std::string& sidecar);
  /// A file of another name that was changed since the commit of the sidecar (or since it was made, if it was never
  /// committed). It may still have another sidecar that fits better.
  std::optional<std::string> HomeByInode(const std::string& sidecar);
  /// Whether other members of the set of which `owner` is one still are the files that they were. Then the set was not
  /// renamed. One member was moved away, and the file that now has its name took its place.
  bool OthersAreAtHome(const std::string& owner, const Peek& peek);
  /// Whether `sidecar` has the name that it had at its commit.
  bool RecordsItsName(const std::string& sidecar, const Peek& peek) const;
  /// Whether the file that has the name of `sidecar` is there and claims it.
  bool IsClaimed(const std::string& sidecar, const Peek& peek);
  /// Whether the file `name` claims the sidecar of its own name.
  bool HasOwnSidecar(const std::string& name);
  /// Whether `name`, which has the inode of `sidecar`, is another member of its set.
  bool IsExchanged(const std::string& name, const std::string& sidecar, const Peek& peek);
  /// Whether `sidecar` is of the set of `peek`.
  bool OfSameSet(const std::string& sidecar, const Peek& peek);
  /// Whether `name` is the name of another member of the set of `owner`, by the set's pattern. Its sidecar may be lost.
  bool NamesMember(const std::string& name, const std::string& owner, const Peek& peek) const;
  /// Whether `sidecar` is a member's, but has the name of another member of its set: sidecars were renamed, not data.
  bool IsMisplaced(const std::string& sidecar, const Peek& peek) const;
  /// While it lives, questions are about the file `name`, unless they are part of an earlier question. Empty: about no
  /// file in particular.
  class Asking;
  /// A look that answers for the file that is asked about. If it is about none, the look is no older than this object.
  const Neighbours& Around();
  /// Names with this inode, and sidecars whose stamp has it. If the look is one of before and they are not what it says,
  /// there is a new one.
  std::vector<std::string> FilesOf(std::uint64_t inode);
  std::vector<std::string> SidecarsFor(std::uint64_t inode);
  std::vector<std::string> StillTrue(const std::function<std::vector<std::string>()>& ask,
                                     const std::function<bool(const std::string&)>& is_true);

  FileSystem& fs_;
  const std::string path_;
  bool listed_ = false;
  Status list_status_;
  std::set<std::string> names_;
  std::optional<std::vector<std::uint64_t>> inodes_;  // of files, sorted; none if the list does not tell
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

/// The path of the sidecar of `data_path`, in the same directory. Symbolic links are followed first. It is, in this
/// order:
///  - the one that content proved (names/contents);
///  - ".LZY.<name>" if its stamp has the size and mtime of the file, or its inode and time of birth;
///  - the sidecar of another name with inode and time of birth of the file, if no file of that name claims it;
///  - ".LZY.<name>", unless that was committed for a file that has another name by now.
/// kNotFound: it has none. kUnprotected: its name is too long to have one. The sidecar found may be damaged.
Result<std::string> FindSidecar(FileSystem& fs, const std::string& data_path);
/// What that sidecar says. Errors are those of FindSidecar and PeekSidecar.
Result<Peek> FindAndPeek(FileSystem& fs, const std::string& data_path);

/// The sidecar in `directory` that was made for a lost member of a set, whatever its name, if no file there has it. It is known
/// by set and rank: a rename of the whole set may have left it anywhere. `temporary_only`: under temporary names only.
std::optional<std::string> FindSidecarOfMember(FileSystem& fs, const std::string& directory, const Uuid& set, std::uint32_t rank,
                                               bool temporary_only);

/// Where a symbolic link in the last component leads to, also if nothing is there. Other paths are returned as they
/// are.
std::string FollowLink(FileSystem& fs, const std::string& path);

}  // namespace lzy
