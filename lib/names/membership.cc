#include "names/membership.h"

#include <algorithm>
#include <vector>

#include "names/lookup.h"
#include "sidecar/names.h"

namespace lzy {

bool IsClaimedByASet(FileSystem& fs, const std::string& path) {
  const std::vector<std::string> patterns = Directory(fs, DirectoryOf(path)).SetPatternsAround(BaseNameOf(path));
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return MatchPattern(pattern, path).has_value(); });
}

}  // namespace lzy
