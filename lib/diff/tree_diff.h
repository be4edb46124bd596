#pragma once
// Two trees against each other: which leaves differ. Only the pages above differing leaves are read, of both trees.

#include <vector>

#include "base/interval_set.h"
#include "merkle/tree.h"

namespace lzy {

/// Numbers of the leaves that differ, as sorted intervals that do not touch. A leaf that only one tree has differs.
/// Reads O(differences * levels) pages of each tree, and none if the roots are equal. Preconditions: both are of one
/// kind with fanout kPageFanout, and their leaves were made alike (block size, key). Throws StatusError where hashes of
/// a tree cannot be read (merkle/tree.h).
std::vector<Interval> DifferingLeaves(const Tree& a, const Tree& b);

}  // namespace lzy
