#pragma once
// Copies of file sets: members from one pattern to another, then the protection of the copies as a set.
//
// tools/lzy_copy calls it. Each member is copied once, by a process that sees it, and proven as any file. The parity of
// a set has sources in all members, so it is made from the copies when all are there: they are read a second time,
// mostly from the page cache.

#include <functional>
#include <string>
#include <vector>

#include "copy/copy.h"

namespace lzy {

struct CopySetReport {
  Status status;  ///< of what is about the whole set; failures of members are in their reports
  std::uint64_t members = 0;
  std::string root;        ///< of the copy, if it is protected
  bool same_root = false;  ///< and the source has the same
  std::vector<std::string> warnings;
};

/// Copies the set `from` to `to`, which are patterns with a placeholder for the rank; `from` stands for one set. The
/// members of the copy are protected together if all could be copied, with the geometry of the source unless options
/// say otherwise. Directories of the copies are made. `finished`: called on all ranks for each member, in the order of
/// ranks. A member may be seen by other ranks than its copy (copy/remote.h). Collective: to protect the copies, all
/// ranks together must see them. Never throws or prints.
CopySetReport CopySet(const Context& context, const std::string& from, const std::string& to,
                      const CopyRequest& request, const std::function<void(CopyReport)>& finished);

}  // namespace lzy
