#include "base/nearest.h"

#include <algorithm>
#include <vector>

namespace lzy {
namespace {

/// Optimal string alignment distance: that of Levenshtein, with a swap of two neighbours as one more kind of change.
/// d[i][j] is the distance of the first i letters of `a` from the first j of `b`.
std::size_t Distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string Nearest(const std::string& word, std::span<const std::string> known) {
  constexpr std::size_t kMostChanges = 2;
  // No name is as long as this. The table has a cell for each pair of letters, so a long word would be slow.
  constexpr std::size_t kLongest = 64;
  if (word.size() > kLongest) return "";
  const std::string* best = nullptr;
  // Exclusive bound. For words of one to four letters it allows fewer changes, or every short name would be near.
  std::size_t least = std::min(kMostChanges + 1, (word.size() + 1) / 2);
  for (const std::string& candidate : known) {
    const std::size_t distance = Distance(word, candidate);
    if (distance < least) {
      least = distance;
      best = &candidate;
    }
  }
  return best == nullptr ? "" : *best;
}

}  // namespace lzy
