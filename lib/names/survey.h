#pragma once
// Finds the datasets that a PATH means, as far as one process sees them. No communication; names/resolve merges the results
// of the ranks. names/orphans uses it to walk a tree and to find members.
//
// It caches what it has read (one Directory for each directory), so it sees one state of the file system, from the time of
// the first look. Not thread-safe. Nothing is written.

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "names/lookup.h"
#include "names/resolve.h"

namespace lzy {

/// One version of a set, as the sidecars of its members record it. Versions are compared by commit time first. The default
/// version is older than any other.
struct SetVersion {
  std::int64_t wall_time_ns = 0;
  Uuid uuid{};
  std::uint32_t members = 0;
  LZY_FIELDS(wall_time_ns, uuid, members)
  friend auto operator<=>(const SetVersion&, const SetVersion&) = default;
};

/// A file that was a member only of an older version of its set, or that was to become a member and was never committed.
struct Leftover {
  std::string path;
  std::string sidecar;
  std::uint32_t members = 0;  ///< number of members of the older set; 0: it was never committed
  bool present = false;       ///< the data exist, not only the sidecar
  bool named = false;         ///< PATH leads to this file, not only to the set
  bool needless = false;      ///< FindOrphans says that the sidecar may go; names/resolve asks for what is not present
  std::string foreign;        ///< the sidecar is of a member of a set of this other name; empty: of an older set of the same name
  LZY_FIELDS(path, sidecar, members, present, named, needless, foreign)
};

/// Use: Add each PATH, exchange found() with the other ranks, then ask for the members of what all ranks found.
class Survey {
 public:
  /// `sees_all`: this process sees all disks, so what names/provers knows of datasets elsewhere counts.
  Survey(FileSystem& fs, Resolve what, bool sees_all = false) : fs_(fs), what_(what), sees_all_(sees_all) {}

  /// Finds the datasets of PATH and adds them to found(). kInvalidArgument or kUnprotected: this process sees none; another
  /// one may. Other errors: PATH could not be examined. Errors with single files are in troubles().
  Status Add(const std::string& path);
  /// Datasets by path or pattern.
  const std::map<std::string, DatasetRef>& found() const { return found_; }
  const std::vector<Status>& troubles() const { return troubles_; }

  /// A path that matches a pattern: the pattern with every '*' replaced, the path, and the rank if the pattern has a
  /// placeholder.
  struct Match {
    std::string resolved;
    std::string path;
    std::optional<std::uint32_t> rank;
  };
  /// A member as this process sees it.
  struct Member {
    std::string path;
    std::optional<Peek> peek;  // of its sidecar, if it can be read
  };
  /// The members of `pattern` that this process sees, by rank, of any version of the set.
  const std::map<std::uint32_t, Member>& MembersOf(const std::string& pattern);
  /// The committed version of them that counts (WhichSetCounts); the default version if there is none.
  SetVersion NewestOf(const std::string& pattern);

  /// Sets the members of the set `dataset` to those that this process sees. Leaves out files that were members of an older
  /// version only, and returns them. `newest`: the newest version that any rank sees.
  std::vector<Leftover> FillMembers(DatasetRef& dataset, const SetVersion& newest);
  /// True if PATH leads to more of the set than leftovers of an older version.
  bool IsMeant(const std::string& pattern, const SetVersion& newest) const;

  /// With kProtectable: directories below PATH that have sidecars without the file of their name. Its file may have been moved.
  const std::set<std::string>& bereft() const { return bereft_; }
  /// Calls `visit` for `path` and each directory below it, after Names() was listed. Does not follow links to directories.
  /// `hidden`: also visits directories whose names begin with a dot. Directories below `path` that cannot be listed are
  /// added to troubles(); the Status is that of `path` itself.
  Status Walk(const std::string& path, bool hidden, const std::function<void(Directory&)>& visit);
  /// The pattern of the set that has `path` as a member, by the sidecars of other members. `path` need not exist.
  std::optional<std::string> PatternOfSiblings(const std::string& path);
  /// The present pattern of a set whose members' directories were renamed.
  std::optional<std::string> PatternOfRenamedDirectory(const std::string& path, const Peek& peek);
  /// True if the whole set of `peek`, whose member `path` was renamed, may now have the pattern `guess`.
  bool IsLikely(const std::string& guess, const std::string& path, const Peek& peek);
  /// True if the pattern leads to another member of the set of `peek`.
  bool HasOtherMember(const std::string& pattern, const Peek& peek);
  /// Removes shared files from found() that are members of sets that were found later.
  void DropMembers();
  /// Removes sets from found() that are in another directory: their members here are fewer than those that are missing, and too
  /// few for a repair; and more of the same commit are there. The members here were moved or copied; troubles() says so, and what
  /// to do. Sets that PATH names by their pattern stay.
  void DropStrays();

 private:
  /// The directory `path`, read once. A reference stays valid until Walk leaves the directory.
  Directory& At(const std::string& path);
  /// The path of the sidecar of the data file `path` (empty: none), and its contents if it can be read.
  std::string SidecarOf(const std::string& path);
  std::optional<Peek> PeekFor(const std::string& path);
  /// True if the sidecar of the member was made for the present file, by inode and birth.
  bool IsBesideItsFile(const Member& member);
  /// True if `path` is a data file (anything but a directory), or has a sidecar.
  bool IsThere(const std::string& path);

  /// Add for each kind of PATH: a file or directory, the pattern of a set, a pattern of files with '*', a tree.
  Status AddPath(const std::string& path);
  Status AddPattern(const std::string& pattern);
  Status AddGlob(const std::string& glob);
  Status AddDirectory(const std::string& given);
  bool IsReplaced(const std::string& path);
  /// Adds one file: as a shared file, or as its whole set if it is a member.
  void AddFile(const std::string& path);
  /// For a file whose path is also the pattern of a set: true if it must not be found, because commands could not tell it from
  /// the set. troubles() says so, and what to do.
  bool IsHiddenByASet(const std::string& path);
  /// Returns false if the sidecar is that of a member, but its set is not here.
  bool AddMember(const std::string& path, const Peek& peek);
  /// If the file of `path` exists under another name, adds that one with a note. Otherwise returns false.
  bool AddRenamed(const std::string& path);
  /// True if `sidecar`, which no file uses, needs no dataset of its own: all members of its set in the directory have other
  /// names now, or its member has another sidecar.
  bool IsOfRenamedSet(Directory& directory, const std::string& sidecar);
  DatasetRef& AddSet(const std::string& pattern);
  /// If the sidecar of a matched file is that of a member of another set: the pattern of that set.
  std::optional<std::string> OtherSetOf(const Match& match, const std::optional<Peek>& peek);
  /// The patterns of sets that were renamed as a whole, if the matched files are members of these and none is a member of a
  /// set of the given pattern.
  std::set<std::string> RenamedSetsIn(const std::vector<Match>& matches);
  /// The pattern of the set of a matched file without a sidecar, by the sidecars of other members.
  std::optional<std::string> ClaimantOf(const Match& match);

  /// The pattern of a set whose members were renamed, guessed from their present names.
  std::optional<std::string> PatternOfRenamed(const std::string& path, const Peek& peek);
  /// The pattern of the set of a member that still has the name of its commit. That is `recorded`, unless all other members were
  /// renamed to another pattern that gives this one the same name: ck.0.%r is now ck.%r.0, and ck.0.0 is a member of both.
  std::string PresentPattern(const std::string& path, const std::string& recorded, const Peek& peek);
  /// True if the first member that has the name of its commit by this pattern is one of a set that has another pattern now.
  bool WasRenamed(const std::string& pattern);
  /// The pattern that has `path` as member `rank`, from the recorded tail. If `path` is relative to a directory inside the
  /// pattern, uses its real path.
  std::optional<std::string> PatternByTail(const std::string& path, const std::string& tail, std::uint32_t rank);
  /// Matches components[depth] and the following ones below `directory`, and adds matches to `out`.
  Status WalkPattern(const std::vector<std::string>& components, std::size_t depth, const std::string& directory,
                     const std::string& resolved, std::optional<std::uint32_t> rank, std::vector<Match>& out);
  Result<std::vector<Match>> MatchesOf(const std::string& pattern);
  /// The number of members of this version that exist as files.
  std::size_t CountOf(const std::string& pattern, const Uuid& uuid);
  /// The members of a set; if no file here has the name of a member, those whose sidecars PATH leads to.
  const std::map<std::uint32_t, Member>& SeenOf(const std::string& pattern);
  /// The pattern in another directory that has more members of the commit of `stray`; nullopt if there is none.
  std::optional<std::string> HomeOfStray(const std::string& pattern, const Peek& stray);
  /// True if the set of `stray` was committed here, and what `home` has of it is a copy, such as a backup.
  bool IsPlaceOfSet(const std::string& pattern, const Peek& stray, const std::string& home);
  /// The message about a member of a set that is at `home`.
  Status DescribeStray(const Member& member, const std::string& home);
  /// Adds hints about members that exchanged their names.
  void HintAtSwaps(DatasetRef& dataset);

  FileSystem& fs_;
  const Resolve what_;
  const bool sees_all_;
  std::map<std::string, Directory> directories_;
  std::map<std::string, DatasetRef> found_;
  std::set<std::string> set_patterns_;  // keys of the sets in found_
  // Those of them that PATH names, or that have a member which cannot be of an older version.
  std::set<std::string> meant_;
  bool by_pattern_ = false;  // PATH is a pattern
  std::set<std::string> bereft_;
  // By pattern: members that PATH led to, and the results of MembersOf.
  std::map<std::string, std::map<std::uint32_t, Member>> named_members_;
  std::map<std::string, std::map<std::uint32_t, Member>> surveyed_;
  std::vector<Status> troubles_;
};

}  // namespace lzy
