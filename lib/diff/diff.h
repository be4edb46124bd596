#pragma once
// Compares two copies: files, directories or sets. diff/file_diff compares each pair of files.
//
// tools/lzy_diff and the C API call Diff. Writes nothing.

#include <string>
#include <vector>

#include "diff/file_diff.h"
#include "request/context.h"

namespace lzy {

/// The kind of the compared copies.
enum class DiffKind : std::uint8_t { kFiles, kDirectories, kSets };

struct DiffReport {
  DiffKind kind = DiffKind::kFiles;
  std::string a, b;                  ///< paths as the user named them, or of a file in a directory that the user named
  std::vector<FileDiff> differences;  ///< sorted by name: pairs that differ, and pairs with an unknown result
  std::uint64_t same = 0;            ///< number of pairs with the same content
  std::uint64_t same_bytes = 0;
  std::vector<std::string> warnings;
  Status status;  ///< why nothing could be compared
  LZY_FIELDS(kind, a, b, differences, same, same_bytes, warnings, status)
};

/// 0: same; 1: different; else the gravest code of an unknown result.
int ExitCodeOf(const DiffReport& report);

/// Compares `a` with `b`: two files, two directories, or the patterns of two sets. A file and a directory mean the file and
/// the file of the same name in the directory. `deep`: compares data; else trees. Never throws or prints. Collective over
/// context.comm; the report is the same on all ranks.
///
/// A rank that sees both compares two files or directories; members of sets are dealt to such ranks. If there is none, a
/// rank that sees `a` compares, and reads `b` through a rank that sees it (remote/files.h): pages of its tree; of its data
/// only hashes, and the pages that differ.
DiffReport Diff(const Context& context, const std::string& a, const std::string& b, bool deep);

}  // namespace lzy
