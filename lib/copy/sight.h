#pragma once
// Finds out which ranks see the sources of a copy, and which see the destination.
//
// copy/copy_tree calls LookAround before it deals work. With node-local disks, two ranks may see different directories under the
// same path, so it is not enough that a path exists.

#include <string>
#include <vector>

#include "base/file.h"
#include "base/record.h"
#include "base/status.h"
#include "comm/communicator.h"

namespace lzy {

/// The ranks of a copy, ascending. The same on all ranks.
struct CopySight {
  std::vector<int> targets;  ///< ranks that see the same destination; they copy, and the first one makes directories
  std::vector<int> sources;  ///< ranks that see the same sources; the first one plans
  bool apart = false;        ///< no rank sees both: targets read through sources
  bool operator==(const CopySight&) const = default;
  LZY_FIELDS(targets, sources, apart)
};

/// Chooses the ranks that copy. Collective.
///  - If some ranks see both the sources and the destination: those of them that see the same directory as the first one.
///  - Otherwise the ranks that see the destination. They read through ranks that see the sources.
///  - If no rank sees all sources, or none sees the destination: one rank, on which PlanCopy reports what is missing.
///
/// `destination`: as the user named it; it, or its directory, exists where a rank sees it. To find out which ranks see the
/// same directory, the first rank creates a file of lzy there for a moment, unless `dry_run`.
Result<CopySight> LookAround(Communicator& comm, FileSystem& fs, const std::vector<std::string>& sources,
                             const std::string& destination, bool dry_run);

/// Returns those of `ranks` (the same on all ranks) that see the same directory `directory` as the first of them. With
/// `dry_run`, which writes nothing, returns the first one alone. kWriteFailed if the first one cannot write there.
/// Collective over `comm`.
Result<std::vector<int>> SeeSameDirectory(Communicator& comm, FileSystem& fs, const std::string& directory,
                                          std::vector<int> ranks, bool dry_run);

}  // namespace lzy
