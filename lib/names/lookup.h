#pragma once
// Which sidecar belongs to which file of a directory. Files are renamed, swapped and rotated after their commit, so a
// name is only the first guess: the stamp (inode, size, mtime) decides, and inode and time of birth where a file was changed.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "sidecar/sidecar_format.h"

namespace lzy {

/// Whom a sidecar belongs to: what its superblock and info record say, without its trees, which may be large.
struct Peek {
  Uuid uuid{};
  std::uint64_t generation = 0;
  DatasetKind kind = DatasetKind::kShared;
  bool committed = false;
  std::uint32_t rank = 0;
  std::uint32_t members = 0;  ///< 0 while a set was never committed: nobody knows then
  std::int64_t wall_time_ns = 0;
  Stamp stamp;
  std::string name;  ///< info record: base name, or the pattern's tail
  Parts parts;       ///< where its parity is, if in device directories
};
Result<Peek> PeekSidecar(FileSystem& fs, const std::string& path);

/// Whether `file` may be the one that `stamp` was taken of, whatever was written to it since: inode and time of birth, where that
/// is known. The device number is left out: it changes from mount to mount.
bool MayBe(const FileStat& file, const Stamp& stamp);
/// From now on `stamp` is of `file`; its size and time stay.
void SetIdentity(Stamp& stamp, const FileStat& file);

/// One directory's files and sidecars, looked up as needed, once each: what changes later is not seen.
class Directory {
 public:
  Directory(FileSystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}

  std::string PathOf(const std::string& name) const;
  /// Every name there is.
  Result<const std::set<std::string>*> Names();
  /// Names of sidecars, those that a rename which broke off left under a temporary name among them.
  const std::vector<std::string>& Sidecars();
  const Result<Peek>& PeekAt(const std::string& sidecar);

  /// The sidecar of data file `name`, be it there or not; empty: it has none. See FindSidecar.
  std::string SidecarOf(const std::string& name);
  /// The file that `sidecar` was committed for, under its present name, if it is in this directory: the one with its
  /// stamp, else one of another name with its inode and time of birth, which was changed (or never committed) before it got
  /// that name. The
  /// file of the sidecar's own name goes before hard links to it. Members of one set that were renamed among each other
  /// do not take their sidecars along: their names are their ranks, and hashes tell that they have each other's content.
  std::optional<std::string> HomeOf(const std::string& sidecar);
  /// The file whose SidecarOf() `sidecar` is: its home, or one of its own name that was edited; none if that is missing
  /// or has another sidecar.
  std::optional<std::string> UserOf(const std::string& sidecar);
  /// The member of the same set that the file `name` was at the last commit, if that is not what it is called now.
  std::optional<std::string> OtherMemberIn(const std::string& name);
  /// The patterns of the sets that committed sidecars here are of, going by the sidecars' own places.
  const std::vector<std::string>& SetPatterns();

 private:
  void List();
  bool IsRegular(const std::string& name);
  std::string FindSidecarOf(const std::string& name);
  /// The regular file `name`; none if it is something else or not there.
  std::optional<FileStat> StatOf(const std::string& name);
  /// True when the file `name` is the one that `stamp` was taken of. The device number is left out: it changes from
  /// mount to mount.
  bool HasStamp(const std::string& name, const Stamp& stamp);
  /// The file that has the sidecar's stamp.
  std::optional<std::string> HomeByStamp(const std::string& sidecar);
  /// The file of another name that was changed since the sidecar's commit (or its making, if it never was committed). It may
  /// have another sidecar all the same.
  std::optional<std::string> HomeByInode(const std::string& sidecar);
  std::optional<std::string> FindHomeByStamp(const std::string& sidecar);
  std::optional<std::string> FindHomeByInode(const std::string& sidecar);
  /// Whether others of the set, of which `owner` was a member, still are what they were: then the set was not renamed, but
  /// a member of it moved away, and what has its name took its place.
  bool OthersAreAtHome(const std::string& owner, const Peek& peek);
  /// Whether the sidecar of the name `name` was committed for a file of this size and time, whatever its inode.
  bool FitsOwnSidecar(const std::string& name, const FileStat& file);
  bool OfSameSet(const std::string& sidecar, const Peek& peek);
  bool NamesMember(const std::string& name, const std::string& owner, const Peek& peek) const;
  const std::multimap<std::uint64_t, std::string>& FilesByInode();
  const std::multimap<std::uint64_t, std::string>& SidecarsByInode();

  FileSystem& fs_;
  const std::string path_;
  bool listed_ = false;
  Status list_status_;
  std::set<std::string> names_;
  std::vector<std::string> sidecar_names_;  // whatever they are
  std::vector<std::string> without_owner_;  // of them those with no file of their own name
  std::optional<std::vector<std::string>> sidecars_;
  std::map<std::string, Result<Peek>> peeks_;
  std::map<std::string, std::string> sidecar_of_;                     // by file
  std::map<std::string, std::optional<std::string>> home_by_stamp_;  // by sidecar
  std::map<std::string, std::optional<std::string>> home_by_inode_;
  std::optional<std::multimap<std::uint64_t, std::string>> files_by_inode_;
  std::optional<std::multimap<std::uint64_t, std::string>> sidecars_by_inode_;
  std::optional<std::vector<std::string>> set_patterns_;
};

/// The sidecar of `data_path`: the one in its directory whose stamp (inode, size, mtime) says that it was committed for
/// this file, under whatever name (docs/design.md "Owners of sidecars"); of a file that was changed since, the one of its inode; otherwise
/// ".LZY.<name>", if that was not committed for a file that has another name by now. kNotFound if none; kUnprotected if
/// the name is too long to have one.
Result<std::string> FindSidecar(FileSystem& fs, const std::string& data_path);

/// The path a symbolic link in the last component leads to (dangling ones too); other paths as they are.
std::string FollowLink(FileSystem& fs, const std::string& path);

}  // namespace lzy
