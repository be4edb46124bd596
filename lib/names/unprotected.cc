#include "names/unprotected.h"

#include <algorithm>

#include "names/survey.h"

namespace lzy {

// A member whose sidecar is lost still belongs to its set, and reports about the set name it.
Result<std::vector<std::string>> FindUnprotected(FileSystem& fs, const std::string& directory) {
  Survey survey(fs, Resolve::kProtected);
  std::vector<std::string> out;
  LZY_RETURN_IF_ERROR(survey.Walk(directory, /*hidden=*/false, [&](Directory& one) {
    for (const std::string& name : **one.Names()) {
      if (name.starts_with('.') || !one.SidecarOf(name).empty()) continue;
      const std::string path = one.PathOf(name);
      const auto stat = fs.Stat(path, /*follow=*/false);
      const bool regular = stat.ok() && stat->type == FileStat::Type::kRegular;
      if (regular && !survey.PatternOfSiblings(path)) out.push_back(path);
    }
  }));
  std::ranges::sort(out);
  return out;
}

}  // namespace lzy
