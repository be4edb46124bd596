#include "diff/tree_diff.h"

#include <algorithm>

namespace lzy {
namespace {

// One call of DifferingLeaves. The hash of a node covers its level, its number and its children (docs/format.md §3). So
// equal nodes at one place have the same leaves, whatever the sizes of the trees.
class Descent {
 public:
  Descent(const Tree& a, const Tree& b) : a_(a), b_(b) {}

  std::vector<Interval> Run() {
    const std::uint64_t both = std::min(a_.leaf_count(), b_.leaf_count());
    const std::uint64_t all = std::max(a_.leaf_count(), b_.leaf_count());
    // The last level of the lower tree has one node, and the higher tree has this node, too.
    const std::size_t top = std::min(a_.counts().size(), b_.counts().size());
    if (both > 0 && a_.node(top - 1, 0) != b_.node(top - 1, 0)) Compare(top - 1, 0);
    if (all > both) Add(both, all);
    return std::move(found_);
  }

 private:
  // Precondition: the nodes differ. Keeps pages while it examines their children, so each page is read once.
  void Compare(std::size_t level, std::uint64_t index) {
    if (level == 0) return Add(index, index + 1);
    const std::vector<Hash> in_a = a_.PageOf(level - 1, index), in_b = b_.PageOf(level - 1, index);
    for (std::size_t i = 0; i < std::min(in_a.size(), in_b.size()); ++i) {
      if (in_a[i] != in_b[i]) Compare(level - 1, index * kPageFanout + i);
    }
  }

  void Add(std::uint64_t begin, std::uint64_t end) {
    if (!found_.empty() && found_.back().end == begin) {
      found_.back().end = end;
    } else {
      found_.push_back({begin, end});
    }
  }

  const Tree& a_;
  const Tree& b_;
  std::vector<Interval> found_;
};

}  // namespace

std::vector<Interval> DifferingLeaves(const Tree& a, const Tree& b) {
  return Descent(a, b).Run();
}

}  // namespace lzy
