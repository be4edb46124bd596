#include "common/paths.h"

namespace lzy {

bool IsThere(FileSystem& fs, const std::string& path) {
  return fs.Stat(path, /*follow=*/false).ok();
}

std::string FreeName(FileSystem& fs, const std::string& path) {
  std::string away = path + ".away";
  while (IsThere(fs, away)) away += "1";
  return away;
}

std::string ShortPath(FileSystem& fs, const std::string& path) {
  const auto here = fs.RealPath(".");
  const std::string above = here.ok() ? (*here == "/" ? *here : *here + "/") : path;
  return path.size() > above.size() && path.starts_with(above) ? path.substr(above.size()) : path;
}

}  // namespace lzy
