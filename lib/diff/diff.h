#pragma once
// Two copies against each other: files, directories, sets. The pairs of files are compared by diff/file_diff.
//
// tools/lzy_diff and the C API call Diff. Changes nothing.

#include <string>
#include <vector>

#include "diff/file_diff.h"
#include "request/context.h"

namespace lzy {

/// What was compared.
enum class DiffKind : std::uint8_t { kFiles, kDirectories, kSets };

struct DiffReport {
  DiffKind kind = DiffKind::kFiles;
  std::string a, b;                  ///< what was compared, as the user named it, or a file in a directory that he named
  std::vector<FileDiff> differences;  ///< by name: pairs that differ, and pairs of which it is not known
  std::uint64_t same = 0;            ///< files that are the same
  std::uint64_t same_bytes = 0;
  std::vector<std::string> warnings;
  Status status;  ///< why nothing could be compared
  LZY_FIELDS(kind, a, b, differences, same, same_bytes, warnings, status)
};

/// 0 the same, 1 different, else the gravest code of what is not known.
int ExitCodeOf(const DiffReport& report);

/// Compares `a` with `b`. Both are files, or directories, or patterns of one set each; a file and a directory mean the
/// file of the same name in that directory. `deep`: by the data, else by the trees. Collective over context.comm; the
/// report is the same on all ranks. A rank that sees both compares two files or directories; members of sets are dealt to
/// such ranks. If there is none, a rank that sees A compares, and reads B through calls to one that sees it
/// (remote/files.h): pages of its tree; of its data at most hashes, and what differs. Never throws or prints.
DiffReport Diff(const Context& context, const std::string& a, const std::string& b, bool deep);

}  // namespace lzy
