#pragma once
// Judges a file by the set of which it is a member (docs/design/repair.md §9, "Copies").
//
// A member may have no sidecar, or one of an older commit than its set: it was lost, or came back from a backup. Then nothing
// beside the file shows that it has rotted, or that its content is an older one. The sidecars of the other members record the
// root of its data. Local to one process; nothing is written.

#include <cstdint>
#include <map>
#include <string>

#include "dataset/view.h"
#include "names/recorded.h"

namespace lzy {

/// A member of a committed set, as the sidecars of the set record it.
struct MemberRule {
  RecordedMember record;
  bool usable = false;   ///< it has a sidecar of the last commit, and all hashes in it are known
  bool known = true;     ///< false: all sidecars of its group are lost, so nothing records its content
};
/// The members of a committed set by rank, also those that are not there. For files that this process does not own,
/// `usable` does not say whether all hashes are known.
std::map<std::uint32_t, MemberRule> RulesOf(const DatasetView& view);
/// True if the file `path` has the content that `record` describes. Reads all of it.
bool IsAsRecorded(FileSystem& fs, const std::string& path, const RecordedMember& record, const LeafKey* key);

/// What the set of a file says about the file.
enum class ByItsSet {
  kNotAsked,  ///< it is no member, or has a sidecar of the last commit
  kRight,     ///< it has the content of the last commit
  kWrong,     ///< it has another content
  kUnknown,   ///< nothing records its content
};
/// Judges the file `path`. `own`: its usable sidecar, if that is of a set; null if it has no usable sidecar. The answer is
/// kNotAsked if this process sees no sidecars of the set in the directory of the file, or through `own`. Opens each set once,
/// and keeps what it records with the file system. Thread-safe. Errors are those of OpenDataset.
Result<ByItsSet> JudgeByItsSet(FileSystem& fs, const Options& options, const std::string& path, const Superblock* own);

}  // namespace lzy
