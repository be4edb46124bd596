#pragma once
// Finds the sidecar of a file by the content of the file (docs/design/commit.md §7, "Owners of sidecars").
//
// lookup.h goes by stamps, and reads no data. After a restore from a backup, or on a file system without times of birth,
// stamps say little; then the content decides. The engine calls this module if a file has no sidecar, or differs from the
// sidecar that it has by its stamp. Data are read up to the first block that differs.
//
// Local to one process; nothing is written. Results are cached with the file system; lookup.h uses them until the file
// changes.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/record.h"
#include "base/status.h"
#include "merkle/leaf_key.h"
#include "names/peek.h"

namespace lzy {

/// True if every block of the file `data` has its leaf in `sidecar`. False for an empty file, because it would match the
/// sidecar of any empty file. `key`: the key of a sealed dataset; without it, a sealed sidecar matches nothing. Fails only
/// if the data cannot be read.
Result<bool> HoldsCommitted(FileSystem& fs, const std::string& data, const std::string& sidecar, const LeafKey* key);

/// A sidecar of another name that was committed for the present content of a file.
struct Prover {
  std::string sidecar;  ///< path
  std::string owner;    ///< the data file that has the name of the sidecar
  /// True if the sidecar may be used for the file: it is in the same directory, is not of a set, and the file of the
  /// sidecar's name does not exist or has another content.
  bool usable = false;
  bool beside = false;  ///< it is in the directory of the file
  bool named = false;   ///< it is in a directory with datasets that the command names
  bool recorded = false;  ///< it is the sidecar of another member; the owner's own sidecar is lost, but this one records its root
};
/// Finds a sidecar other than `own` (a path; may be empty) that proves the content of `data_path`. Searches the directory of
/// the file and the directories in reach (AddToReach). Prefers a usable sidecar. If no sidecar was made for this content,
/// finds one of another set that records it for a member without a sidecar; for this, reads the whole file. nullopt if
/// nothing proves the content. Fails if the file cannot be read.
Result<std::optional<Prover>> FindProver(FileSystem& fs, const std::string& data_path, const std::string& own,
                                         const LeafKey* key);
/// The files that FindHolder examines.
enum class Holders {
  kAll,        ///< all, and also those that have the committed size and mtime but not the content: they may be the file, damaged
               ///< since
  kProtected,  ///< those with a sidecar, and members of sets: a repair might write to them
  kOfItsTime,  ///< those of kProtected with the committed mtime: the others count as edited
};
/// A file that FindHolder found.
struct Holder {
  std::string path;
  bool proven = false;  ///< it has the committed content; else it may be the file, damaged since (kAll)
  bool committed = false;  ///< not proven: it has a sidecar of its own that was made after the damage
};
/// Finds a file other than `except` (a path) that has the content that `sidecar` committed, and not the content of its own
/// sidecar. If `sidecar` is lost, nothing proves this content any more. Examines the first 256 files of the committed size
/// beside the sidecar, and those in reach. If no file has the content: with kAll, finds one with the committed size and mtime
/// that may be the file, damaged since, even if its own sidecar proves what it has now. nullopt if there is none.
std::optional<Holder> FindHolder(FileSystem& fs, const std::string& sidecar, const std::string& except, const LeafKey* key,
                                 Holders which);
/// Finds a file other than `except` with the size and mtime that `sidecar` committed, and most of the content, but not all: it
/// was renamed, and damaged. Then only `sidecar` can give its content back. nullopt if there is none, if its own sidecar proves
/// what it has, or if another file has the committed content.
std::optional<std::string> FindRotten(FileSystem& fs, const std::string& sidecar, const std::string& except, const LeafKey* key);
/// True if a file in reach other than `except` has the content that `sidecar` committed.
bool IsHeldByAnother(FileSystem& fs, const std::string& sidecar, const std::string& except, const LeafKey* key);
/// If a usable sidecar of another name proves the content of `data_path` (FindProver), remembers it as the sidecar of this
/// file. Goes on with the file that loses this sidecar, because files may have been swapped or rotated. Returns true if it
/// remembered anything; then FindSidecar and Rehome of this process use it. Call it for a file that differs from the sidecar
/// of its stamp, or has none. Reads one block, and more only if this block matches. Members of sets keep the sidecars of
/// their names.
Result<bool> AdoptByContent(FileSystem& fs, const std::string& data_path, const LeafKey* key);
/// A file without a sidecar: AdoptByContent gave the sidecar that it was judged by to the file `by`, and it was renamed.
struct LeftBare {
  std::string path;
  std::string by;
  std::string sidecar;  ///< its former path
  LZY_FIELDS(path, by, sidecar)
};
/// Returns each such file once, if it still exists and nothing else tells of it. From any thread.
std::vector<LeftBare> TakeLeftBare(FileSystem& fs);
/// A sidecar that was committed for a file with the same inode, size and mtime.
struct FormerName {
  std::string sidecar;  ///< path
  Peek peek;
  std::string name;  ///< the name of the file at that commit: its base name, or for a member the end of its path; with the
                     ///< directory if that is another one
};
enum class Within { kDirectory, kReach };
/// Finds such sidecars other than `except` (a path; may be empty) for the file `data_path`, whose stat is `stat`: beside the
/// file, or also in reach on its file system. If there is one, the file was renamed. Births are compared if they are known.
std::vector<FormerName> CommittedAs(FileSystem& fs, const std::string& data_path, const FileStat& stat, const std::string& except,
                                    Within within);
/// Finds sidecars beside the file that were committed with its size and mtime, and at least half of its blocks, if no file of
/// their name has the committed content: the file was renamed, came back from a backup (so it has another inode), and was
/// damaged. Parameters as for CommittedAs.
std::vector<FormerName> MostlyAs(FileSystem& fs, const std::string& data_path, const FileStat& stat, const std::string& except,
                                 const LeafKey* key);
/// For a file without a sidecar: finds its name at its commit, if it was renamed or moved to another directory, and damaged.
/// That is so if a sidecar of another name, beside it or in a directory that the command names, was committed for its inode,
/// size and mtime, no file of that name has the committed content, and this file has not either. Half of the blocks count like
/// the inode. Otherwise nullopt.
std::optional<std::string> RottenAs(FileSystem& fs, const std::string& data_path, const LeafKey* key);
/// kUnprotected, with what to do, if the file `path` of `dataset` is such a file (RottenAs).
Status RefuseRotten(FileSystem& fs, const std::string& path, const std::string& dataset, const LeafKey* key);
/// Remembers that `sidecar` is proven to be that of the file `name`. Both are names in `directory`.
void RememberProven(FileSystem& fs, const std::string& directory, const std::string& name, const std::string& sidecar);
/// The name of the sidecar that is proven to be that of the file `name`; nullopt if file or sidecar have changed since.
std::optional<std::string> ProvenSidecar(FileSystem& fs, const std::string& directory, const std::string& name);
/// The inverse of ProvenSidecar: the file for which `sidecar` is proven.
std::optional<std::string> ProvenHome(FileSystem& fs, const std::string& directory, const std::string& sidecar);

/// Adds a directory to the reach of FindProver. ResolvePath calls it for all datasets that it finds.
void AddToReach(FileSystem& fs, const std::string& directory);
/// Directories that the command names, or that lzy only knows of (the catalogue).
enum class Reach { kNamed, kKnown };
/// Adds more directories to the reach. `directories` is called at most once: when the first file differs from its sidecar, or
/// with kNamed when a file without a sidecar may have been moved. Missing directories are skipped. Thread-safe.
void AddToReach(FileSystem& fs, std::function<std::vector<std::string>()> directories, Reach which);

/// Paths of the committed sidecars in reach, in other directories than `here`, including those that were set aside.
std::vector<std::string> SidecarsInReach(FileSystem& fs, const std::string& here);

}  // namespace lzy
