#pragma once
// Who sees what of a copy: which ranks see the sources, and which see the destination.
//
// copy/tree asks here before it deals work. With node-local disks, two ranks may see different directories
// under the same path, so that a path exists is not enough.

#include <string>
#include <vector>

#include "base/file.h"
#include "base/record.h"
#include "base/status.h"
#include "comm/communicator.h"

namespace lzy {

/// Ranks, ascending. The same on all ranks.
struct CopySight {
  std::vector<int> targets;  ///< see the destination, the same one; they copy, and the first of them makes directories
  std::vector<int> sources;  ///< see the sources, the same ones; the first of them plans
  bool apart = false;        ///< no rank sees both: targets read by way of sources
  LZY_FIELDS(targets, sources, apart)
};

/// Ranks that see both the sources and the destination copy, if there are any: of several, those that see the same
/// directory as the first one. Otherwise those that see the destination do, by way of those that see the sources.
/// `destination`: what the user named; it, or its directory, exists where it is seen. To find out who sees the same
/// directory, the first rank makes a file of lzy's own there for a moment, unless `dry_run`. If no rank sees all of the
/// sources, or none the destination, the answer is one rank, and PlanCopy says there what is missing. Collective.
Result<CopySight> LookAround(Communicator& comm, FileSystem& fs, const std::vector<std::string>& sources,
                             const std::string& destination, bool dry_run);

/// Of `ranks` (the same on all ranks), those that see the same directory `directory` as the first of them. With
/// `dry_run`, which writes nothing, nobody can tell, and the answer is the first one alone. kWriteFailed: that one
/// cannot write there. Collective over `comm`.
Result<std::vector<int>> SeeSameDirectory(Communicator& comm, FileSystem& fs, const std::string& directory,
                                          std::vector<int> ranks, bool dry_run);

}  // namespace lzy
