#include "names/membership.h"

#include <algorithm>
#include <vector>

#include "names/lookup.h"
#include "names/peek.h"
#include "names/set_names.h"
#include "sidecar/names.h"

namespace lzy {

bool IsClaimedByASet(FileSystem& fs, const std::string& path) {
  const std::vector<std::string> patterns = Directory(fs, DirectoryOf(path)).SetPatternsAround(BaseNameOf(path));
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return MatchPattern(pattern, path).has_value(); });
}

std::optional<std::string> SidecarOfDisplaced(FileSystem& fs, const std::string& path, const std::string& found) {
  auto own = SidecarPath(path);
  if (!own.ok() || BaseNameOf(*own) == BaseNameOf(found)) return std::nullopt;
  const auto member = PeekSidecar(fs, *own), other = PeekSidecar(fs, found);
  const bool of_member = member.ok() && member->committed && member->kind == DatasetKind::kSet;
  const bool of_file = other.ok() && other->committed && other->kind == DatasetKind::kShared;
  return of_member && of_file && PatternFromTail(path, member->name, member->rank) ? std::optional(*own) : std::nullopt;
}

}  // namespace lzy
