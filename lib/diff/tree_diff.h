#pragma once
// Compares two trees and finds the leaves that differ. Reads only pages above differing leaves, of both trees.

#include <vector>

#include "base/interval_set.h"
#include "merkle/tree.h"

namespace lzy {

/// Returns the numbers of the leaves that differ, as sorted intervals that do not touch. A leaf that only one tree has
/// differs. Reads O(differences * levels) pages of each tree, and none if the roots are equal. Preconditions: both trees are
/// of one kind with fanout kPageFanout, and their leaves were made in the same way (block size, key). Throws StatusError if
/// hashes of a tree cannot be read (merkle/tree.h).
std::vector<Interval> DifferingLeaves(const Tree& a, const Tree& b);

}  // namespace lzy
