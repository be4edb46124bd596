#pragma once
// Which sidecar a file belongs to by its content (docs/design/commit.md §7, "Owners of sidecars").
//
// lookup.h goes by stamps, and reads no data. After a restore from a backup, or on a file system that does not tell when
// a file was made, stamps say little: then content decides. The engine asks here if a file differs from the sidecar that
// it has by its stamp, or if it has none. Only what is compared is read, up to the first block that differs.
//
// Local to one process; nothing is written. What was proven is remembered with the file system, and lookup.h goes by it
// as long as the file is not changed.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "merkle/leaf_key.h"
#include "names/peek.h"
#include "names/set_claim.h"

namespace lzy {

/// Whether the file `data` is what `sidecar` committed, in every block. False for files without a byte, of which any
/// sidecar of an empty file would say so. `key`: for a sealed dataset; without it, a sealed sidecar matches nothing.
/// Fails only if the data cannot be read.
Result<bool> HoldsCommitted(FileSystem& fs, const std::string& data, const std::string& sidecar, const LeafKey* key);

/// A sidecar that was committed for the present content of a file, under another name.
struct Prover {
  std::string sidecar;  ///< path
  std::string owner;    ///< the data file of that name
  /// The sidecar may be used for the file: it is in its directory and of no set, and the file that has its name, if
  /// there is one, is not what it committed.
  bool usable = false;
  bool beside = false;  ///< in the directory of the file
  bool named = false;   ///< in a directory with datasets that the command names
  bool recorded = false;  ///< it is that of another member of a set, and records what the owner was, whose own is lost
};
/// Looks for a sidecar that proves the content of `data_path`, other than `own` (a path; empty: it has none): in the
/// directory of the file, and in those where the datasets are that the command names (AddToReach). A usable one wins. If none was made
/// for this content, one that records it of a lost member of another set counts; for that, the whole file is read. None: nullopt. Errors are those of reading the file.
Result<std::optional<Prover>> FindProver(FileSystem& fs, const std::string& data_path, const std::string& own,
                                         const LeafKey* key);
/// Which files FindHolder asks.
enum class Holders {
  kAll,        ///< also those that were never protected, and those that have the committed size and mtime, but not the content: it may
               ///< be the file, damaged since
  kProtected,  ///< those that have a sidecar, too, or are members of a set, so that a repair might write to them
  kOfItsTime,  ///< of these, those with the committed mtime: others count as edited
};
/// What FindHolder found.
struct Holder {
  std::string path;
  bool proven = false;  ///< it holds what the sidecar committed; else it may be that file, damaged since (kAll)
};
/// A file other than `except` (a path) that holds what `sidecar` committed, and not what the sidecar of its own name did: if
/// this one is lost, nothing proves that content any more. Asked are the first 256 files of that size beside the sidecar, and those
/// in reach. None: nullopt.
std::optional<Holder> FindHolder(FileSystem& fs, const std::string& sidecar, const std::string& except, const LeafKey* key,
                                 Holders which);
/// For a file that is not what the sidecar committed which it has by its stamp, or that has none: looks whether it is what
/// a usable sidecar of another name did (or that of its own name, if its stamp led to another one). If so, remembers that
/// one for the file, and goes on with the file whose sidecar that was: files may have been swapped or rotated. True if
/// there is anything new. From then on, FindSidecar and Rehome of this process go by it. Reads one block, and more only
/// if that block fits. Members of sets keep the sidecars of their names.
Result<bool> AdoptByContent(FileSystem& fs, const std::string& data_path, const LeafKey* key);
/// A sidecar that was committed for a file of this inode, size and mtime.
struct FormerName {
  std::string sidecar;  ///< path
  Peek peek;
  std::string name;  ///< of the file at that commit: base name, or the end of its path as the pattern of the set tells it; with its
                     ///< directory if that is another one
};
enum class Within { kDirectory, kReach };
/// Those of them beside the file `data_path`, which is `stat`, and in reach on its file system, other than `except` (a path; may be
/// empty): under that name it was committed, so it was renamed. Births count if they are known.
std::vector<FormerName> CommittedAs(FileSystem& fs, const std::string& data_path, const FileStat& stat, const std::string& except,
                                    Within within);
/// The name at its commit of a file that was renamed and is damaged, where births are not told. For a file that has no sidecar: one of
/// another name was committed for this inode, size and mtime, its file is gone, and the content differs from it. Else nullopt.
std::optional<std::string> RottenAs(FileSystem& fs, const std::string& data_path, const LeafKey* key);
/// Remembers that content proved `sidecar` to be that of the file `name`; both are names in `directory`.
void RememberProven(FileSystem& fs, const std::string& directory, const std::string& name, const std::string& sidecar);
/// The sidecar (name) that content proved to be that of the file `name`, if file and sidecar are still the same.
std::optional<std::string> ProvenSidecar(FileSystem& fs, const std::string& directory, const std::string& name);
/// The file that `sidecar` was proven to belong to, likewise.
std::optional<std::string> ProvenHome(FileSystem& fs, const std::string& directory, const std::string& sidecar);

/// Adds a directory to those that FindProver looks into. ResolvePath does that for all datasets that it finds.
void AddToReach(FileSystem& fs, const std::string& directory);
/// Tells where else protected files are. `directories` is asked once, if ever: when a file differs from its sidecar. What is not
/// there any more is passed over. From any thread.
void AddToReach(FileSystem& fs, std::function<std::vector<std::string>()> directories);

/// Members of another set may have been moved among those of this one, with their sidecars. If `claims` are of several sets: those of a
/// set of which as many members or more are together in reach, each the very file that was committed, become unnamed. `here`: the paths
/// of all members. Only for a process that sees all disks.
void MarkFromElsewhere(FileSystem& fs, const std::vector<std::string>& here, std::vector<SetClaim>& claims);

/// Paths of the committed sidecars in directories of the reach other than `here`, those that were set aside included.
std::vector<std::string> SidecarsInReach(FileSystem& fs, const std::string& here);

}  // namespace lzy
