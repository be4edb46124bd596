#pragma once
// What one process sees of the datasets that a PATH stands for. No communication; names/resolve.h puts the ranks'
// views together.

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "names/lookup.h"
#include "names/resolve.h"

namespace lzy {

/// A version of a set that members were seen of.
struct SetVersion {
  std::int64_t wall_time_ns = 0;
  Uuid uuid{};
  std::uint32_t members = 0;
  LZY_FIELDS(wall_time_ns, uuid, members)
  friend auto operator<=>(const SetVersion&, const SetVersion&) = default;
};

/// A file that only an older version of its set had as a member, or one that was to become a member and never did.
struct Leftover {
  std::string path;
  std::string sidecar;
  std::uint32_t members = 0;  ///< of the older set; 0: it was never committed
  bool present = false;       ///< the data, not only the sidecar
  LZY_FIELDS(path, sidecar, members, present)
};

class Survey {
 public:
  Survey(FileSystem& fs, Resolve what) : fs_(fs), what_(what) {}

  /// Looks for PATH's datasets; found() has them then. The Status is of PATH as a whole.
  Status Add(const std::string& path);
  const std::map<std::string, DatasetRef>& found() const { return found_; }
  const std::vector<Status>& troubles() const { return troubles_; }

  /// A file or member found: the pattern without its '*', the path, and the rank where the pattern has a placeholder.
  struct Match {
    std::string resolved;
    std::string path;
    std::optional<std::uint32_t> rank;
  };
  struct Member {
    std::string path;
    std::optional<Peek> peek;  // of its sidecar, when it has a usable one
  };
  /// The members of `pattern` that are to be seen here, whatever set they are of.
  const std::map<std::uint32_t, Member>& MembersOf(const std::string& pattern);
  /// The newest set among them.
  SetVersion NewestOf(const std::string& pattern);

  /// Gives `dataset`, a set, the members seen here, without those that only an older set of the same name has: these
  /// are returned.
  std::vector<Leftover> FillMembers(DatasetRef& dataset, const SetVersion& newest);
  /// True when PATH leads to the set by more than files left over from an older version of it.
  bool IsMeant(const std::string& pattern, const SetVersion& newest) const;

  /// Calls `visit` for each directory below `path`, itself first; symbolic links to directories are not followed.
  Status Walk(const std::string& path, bool hidden, const std::function<void(Directory&)>& visit);
  /// The pattern of the set whose sidecars say that `path` is one of its members; nothing of its own need be there.
  std::optional<std::string> PatternOfSiblings(const std::string& path);

 private:
  Directory& At(const std::string& path);
  /// The path of the sidecar of the data file `path` (empty: none), and what is in it if that can be read.
  std::string SidecarOf(const std::string& path);
  std::optional<Peek> PeekFor(const std::string& path);
  bool IsThere(const std::string& path);

  Status AddPath(const std::string& path);
  Status AddPattern(const std::string& pattern);
  Status AddGlob(const std::string& glob);
  Status AddDirectory(const std::string& path);
  void AddFile(const std::string& path);
  void AddMember(const std::string& path, const Peek& peek);
  /// `path` is gone, but the file that it was is there under another name: that is meant. False if it is not so.
  bool AddRenamed(const std::string& path);
  /// Whether `sidecar` is of a set whose members, as far as they are in the directory, all have other names now, or of a member
  /// that has another one.
  bool IsOfRenamedSet(Directory& directory, const std::string& sidecar);
  DatasetRef& AddSet(const std::string& pattern);

  /// The pattern of a set whose members were renamed, from what they are called now.
  std::optional<std::string> PatternOfRenamed(const std::string& path, const Peek& peek);
  /// The pattern of which `path` is rank `rank`'s member, by what was recorded of it (or its real path, where `path` is relative to
  /// a directory inside the pattern).
  std::optional<std::string> PatternByTail(const std::string& path, const std::string& tail, std::uint32_t rank);
  Status WalkPattern(const std::vector<std::string>& components, std::size_t depth, const std::string& directory,
                     const std::string& resolved, std::optional<std::uint32_t> rank, std::vector<Match>& out);
  Result<std::vector<Match>> MatchesOf(const std::string& pattern);
  void HintAtSwaps(DatasetRef& dataset);

  FileSystem& fs_;
  const Resolve what_;
  std::map<std::string, Directory> directories_;
  std::map<std::string, DatasetRef> found_;
  std::set<std::string> set_patterns_;  // keys of the sets in found_
  std::set<std::string> meant_;  // those of them that are named, or have a member that can be of no older version
  std::map<std::string, std::map<std::uint32_t, Member>> named_members_;
  std::map<std::string, std::map<std::uint32_t, Member>> surveyed_;
  std::vector<Status> troubles_;
};

}  // namespace lzy
