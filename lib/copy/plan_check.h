#pragma once
// Checks a plan that another process has made, before this one writes anything.
//
// copy/copy_tree calls it on all ranks. In a copy between machines, the plan may come from a host that is hostile: it must not make this
// process write files that the user has not named.

#include <string>
#include <vector>

#include "copy/copy_tree.h"

namespace lzy {

/// What this process knows of the copy by itself.
struct ExpectedPlan {
  const std::vector<std::string>& sources;
  const std::string& destination;
  bool resume = false;
  bool is_directory = false;  ///< the destination is there, and is a directory
  const CopySight& sight;
};

/// Fails if `plan` is not one that PlanTogether can make of these sources: the destination or the ranks differ; a copy has another name
/// than that of its source; an entry is not in a directory of the plan, so a link could lead it elsewhere; or a name comes twice.
Status CheckPlan(const CopyPlan& plan, const ExpectedPlan& expected);

}  // namespace lzy
