#pragma once
// Copies a set: the members from one pattern to another, then protects the copies as a set.
//
// tools/lzy_copy calls it. One process that sees a member copies it once, and proves the copy like any file. The parity of a
// set has sources in all members, so it is made from the copies when all of them exist. They are read a second time for
// this, mostly from the page cache.

#include <functional>
#include <string>
#include <vector>

#include "copy/copy.h"

namespace lzy {

struct CopySetReport {
  Status status;  ///< of the whole set; failures of members are in their reports
  std::uint64_t members = 0;
  std::string root;        ///< root of the copy, if it is protected
  bool same_root = false;  ///< the source has the same root
  std::vector<std::string> warnings;
};

/// Copies the set `from` to `to`. Both are patterns with a placeholder for the rank, and `from` must mean one set. Makes the
/// directories of the copies. If all members could be copied, protects the copies together, with the geometry of the source
/// unless options say otherwise.
///
/// `finished` is called on all ranks for each member, in the order of ranks. A member and its copy may be visible on
/// different ranks (copy/remote.h). Collective; to protect the copies, all ranks together must see them. Never throws or
/// prints.
CopySetReport CopySet(const Context& context, const std::string& from, const std::string& to,
                      const CopyRequest& request, const std::function<void(CopyReport)>& finished);

}  // namespace lzy
