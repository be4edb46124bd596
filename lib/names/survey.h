#pragma once
// What one process sees of the datasets that a PATH stands for. No communication; names/resolve puts the ranks' views
// together. names/orphans uses it to walk a tree and to find members.
//
// It keeps what it has looked at (one Directory for each directory), so it sees one state of the file system, from the
// time of the first look. Not thread-safe. Nothing is written.

#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "names/lookup.h"
#include "names/resolve.h"

namespace lzy {

/// One version of a set, as its members' sidecars tell. Versions compare by the time of their commit first. The
/// default one is older than any.
struct SetVersion {
  std::int64_t wall_time_ns = 0;
  Uuid uuid{};
  std::uint32_t members = 0;
  LZY_FIELDS(wall_time_ns, uuid, members)
  friend auto operator<=>(const SetVersion&, const SetVersion&) = default;
};

/// A file that was a member only of an older version of its set, or that was to become a member and never was
/// committed.
struct Leftover {
  std::string path;
  std::string sidecar;
  std::uint32_t members = 0;  ///< of the older set; 0: it was never committed
  bool present = false;       ///< the data, not only the sidecar
  bool named = false;         ///< PATH leads to this file, not only to the set
  LZY_FIELDS(path, sidecar, members, present, named)
};

/// Use: Add each PATH, exchange found() with the other ranks, then ask for the members of what all ranks found.
class Survey {
 public:
  /// `sees_all`: this process sees all disks, so what names/contents knows of datasets elsewhere counts.
  Survey(FileSystem& fs, Resolve what, bool sees_all = false) : fs_(fs), what_(what), sees_all_(sees_all) {}

  /// Looks for the datasets of PATH and adds them to found(). kInvalidArgument or kUnprotected: this process sees
  /// nothing of it; another one may. Other errors: PATH could not be looked into. Trouble with single files is in
  /// troubles().
  Status Add(const std::string& path);
  /// By path or pattern.
  const std::map<std::string, DatasetRef>& found() const { return found_; }
  const std::vector<Status>& troubles() const { return troubles_; }

  /// A path that matches a pattern: the pattern without its '*', the path, and the rank if the pattern has a
  /// placeholder.
  struct Match {
    std::string resolved;
    std::string path;
    std::optional<std::uint32_t> rank;
  };
  /// A member as it is seen here.
  struct Member {
    std::string path;
    std::optional<Peek> peek;  // of its sidecar, when it has a usable one
  };
  /// The members of `pattern` that this process sees, by rank, of whatever version of the set they are.
  const std::map<std::uint32_t, Member>& MembersOf(const std::string& pattern);
  /// The committed version among them that counts (WhichSetCounts); a default one if there is none.
  SetVersion NewestOf(const std::string& pattern);

  /// Gives `dataset`, which is a set, the members that this process sees. Files that only an older version of the set
  /// had as members are left out and returned. `newest`: the newest version that any rank sees.
  std::vector<Leftover> FillMembers(DatasetRef& dataset, const SetVersion& newest);
  /// True if PATH leads to the set by more than files that are left over from an older version of it.
  bool IsMeant(const std::string& pattern, const SetVersion& newest) const;

  /// Calls `visit` for each directory below `path`, itself first, with its Names() listed. Links to directories are not
  /// followed. `hidden`: also visit directories whose names begin with a dot. What cannot be listed below `path` is
  /// added to troubles(); the Status is that of `path` itself.
  Status Walk(const std::string& path, bool hidden, const std::function<void(Directory&)>& visit);
  /// The pattern of the set that has `path` as a member, as sidecars of other members say. `path` itself need not
  /// exist.
  std::optional<std::string> PatternOfSiblings(const std::string& path);
  /// The pattern of a set of which the directories of the members were renamed.
  std::optional<std::string> PatternOfRenamedDirectory(const std::string& path, const Peek& peek);
  /// Whether the set of `peek`, whose member `path` was renamed, as a whole may have the pattern `guess` now.
  bool IsLikely(const std::string& guess, const std::string& path, const Peek& peek);
  /// Whether the pattern leads to a member of the set of `peek` other than that one.
  bool HasOtherMember(const std::string& pattern, const Peek& peek);
  /// Files that were taken for datasets of their own, and are members of sets that were found later.
  void DropMembers();
  /// Takes sets out of found() that are none here: fewer of their members are here than are missing, and more are in another
  /// directory, where the set is. These were moved or copied here; troubles() says so, and what to do. If as many are in both places, those
  /// whose sidecars were changed later were moved. Sets that PATH names by their pattern stay.
  void DropStrays();

 private:
  /// The directory `path`, looked at once. A reference stays valid until Walk leaves the directory.
  Directory& At(const std::string& path);
  /// The path of the sidecar of the data file `path` (empty: none), and what it says, if it can be read.
  std::string SidecarOf(const std::string& path);
  std::optional<Peek> PeekFor(const std::string& path);
  /// Whether its sidecar was made for the file that is there, by inode and birth.
  bool IsBesideItsFile(const Member& member);
  /// Tells names/contents where the sets are that were found so far.
  void NoteReach();
  /// Whether `path` is a data file (anything but a directory) or has a sidecar.
  bool IsThere(const std::string& path);

  /// The kinds of PATH: a file or directory, a set's pattern, a pattern of files with '*', a tree.
  Status AddPath(const std::string& path);
  Status AddPattern(const std::string& pattern);
  Status AddGlob(const std::string& glob);
  Status AddDirectory(const std::string& given);
  bool IsReplaced(const std::string& path);
  /// Adds one file: as the shared file that it is, or as its whole set if it is a member.
  void AddFile(const std::string& path);
  /// False if the sidecar is that of a member, but tells of no set that is here.
  bool AddMember(const std::string& path, const Peek& peek);
  /// If `path` is gone, but its file is there under another name: adds that one with a note. Otherwise returns false.
  bool AddRenamed(const std::string& path);
  /// Whether `sidecar`, which no file uses, needs no dataset of its own: all members of its set that are in the
  /// directory have other names now, or its member has another sidecar.
  bool IsOfRenamedSet(Directory& directory, const std::string& sidecar);
  DatasetRef& AddSet(const std::string& pattern);
  /// If the sidecar of a matched file says that it is a member of another set than the pattern's: the pattern of that
  /// one.
  static std::optional<std::string> OtherSetOf(const Match& match, const std::optional<Peek>& peek);
  /// Sets that were renamed as a whole, if the matched files belong to these and not to one of the pattern that matched.
  std::set<std::string> RenamedSetsIn(const std::vector<Match>& matches);
  /// That of a matched file that has no sidecar, by what the sidecars of other members say.
  std::optional<std::string> ClaimantOf(const Match& match);

  /// The pattern of a set whose members were renamed, guessed from the names that they have now.
  std::optional<std::string> PatternOfRenamed(const std::string& path, const Peek& peek);
  /// The pattern that has `path` as member `rank`, from the tail that was recorded. If `path` is relative to a
  /// directory inside the pattern, its real path is used.
  std::optional<std::string> PatternByTail(const std::string& path, const std::string& tail, std::uint32_t rank);
  /// Matches components[depth] and all behind it below `directory`, and adds what matches to `out`.
  Status WalkPattern(const std::vector<std::string>& components, std::size_t depth, const std::string& directory,
                     const std::string& resolved, std::optional<std::uint32_t> rank, std::vector<Match>& out);
  Result<std::vector<Match>> MatchesOf(const std::string& pattern);
  /// Members of the newest version that are there, as files.
  std::size_t CountOf(const std::string& pattern);
  /// Where most of the set with the version of `pattern` is; nullopt: nowhere else.
  std::optional<std::string> HomeOfStray(const std::string& pattern);
  /// What tells which of two places of one set is its home; the greater one is.
  std::tuple<std::size_t, std::int64_t, std::string> HomelinessOf(const std::string& pattern);
  /// What to say of one of its members, where the set is `home`.
  Status TellStray(const Member& member, const std::string& home);
  /// Adds hints about members that were renamed among each other.
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
  // By pattern: members that PATH led to, and the answers of MembersOf.
  std::map<std::string, std::map<std::uint32_t, Member>> named_members_;
  std::map<std::string, std::map<std::uint32_t, Member>> surveyed_;
  std::vector<Status> troubles_;
};

}  // namespace lzy
